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
		"prompts": &e.Prompts, "deltas": &e.Deltas, "answers": &e.Answers, "speeds": &e.Speeds,
		"told prompts": &e.told.Prompts, "told deltas": &e.told.Deltas, "told answers": &e.told.Answers, "told speeds": &e.told.Speeds,
	}
}

// Learned is what calls have taught, for the next process.
func (c *Controller) Learned() Lessons {
	all := Lessons{}
	for name, l := range c.Policy().learned() {
		e := l.Load()
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
	p := c.Policy()
	for name, lessons := range all {
		if t, known := p.Snapshot.TenantByName(name); known {
			for which, estimator := range p.Estimates(t.Index).all() {
				estimator.Recall(time.Now(), lessons[which])
			}
		}
	}
}
