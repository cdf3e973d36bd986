package admission

import (
	"time"

	"github.com/llmgov/llmgov/governor/tokens"
)

// Lessons are what the calls of tenants have taught of their tokens: by tenant and estimator.
type Lessons map[string]map[string][]tokens.Lesson

// all are a tenant's estimators, by the names under which they are written down.
func (e *Estimates) all() map[string]*tokens.Estimator {
	return map[string]*tokens.Estimator{
		"prompts": &e.Prompts, "deltas": &e.Deltas, "answers": &e.Answers,
		"told prompts": &e.told.Prompts, "told deltas": &e.told.Deltas, "told answers": &e.told.Answers,
	}
}

// Learned is what calls have taught, for the next process.
func (c *Controller) Learned() Lessons {
	all := Lessons{}
	for name, e := range c.Policy().learned() {
		of := map[string][]tokens.Lesson{}
		for which, estimator := range e.all() {
			if list := estimator.Lessons(); len(list) > 0 {
				of[which] = list
			}
		}
		if len(of) > 0 {
			all[name] = of
		}
	}
	return all
}

// Recall takes in what an earlier process had Learned of the tenants that are there. Call it before calls come.
func (c *Controller) Recall(all Lessons) {
	for name, e := range c.Policy().learned() {
		for which, estimator := range e.all() {
			estimator.Recall(time.Now(), all[name][which])
		}
	}
}
