package admission

import (
	"encoding/json"
	"time"

	"github.com/llmgov/llmgov/governor/tokens"
)

// lessons are what a tenant's calls have taught, by estimator.
type lessons map[string][]tokens.Lesson

// all are a tenant's estimators, by the names under which they are written down.
func (e *Estimates) all() map[string]*tokens.Estimator {
	return map[string]*tokens.Estimator{
		"prompts": &e.Prompts, "deltas": &e.Deltas, "answers": &e.Answers,
		"told prompts": &e.told.Prompts, "told deltas": &e.told.Deltas, "told answers": &e.told.Answers,
	}
}

// Learned is what calls have taught of their tokens, for the next process: see Recall.
func (c *Controller) Learned() json.RawMessage {
	all := map[string]lessons{}
	for name, e := range c.Policy().learned() {
		of := lessons{}
		for which, estimator := range e.all() {
			if list := estimator.Lessons(); len(list) > 0 {
				of[which] = list
			}
		}
		if len(of) > 0 {
			all[name] = of
		}
	}
	text, err := json.Marshal(all)
	if err != nil {
		return nil // names and numbers are always written
	}
	return text
}

// Recall takes in what an earlier process had Learned of the tenants that are there. Call it before calls come.
func (c *Controller) Recall(text json.RawMessage) error {
	var all map[string]lessons
	if len(text) == 0 {
		return nil
	}
	if err := json.Unmarshal(text, &all); err != nil {
		return err
	}
	for name, e := range c.Policy().learned() {
		for which, estimator := range e.all() {
			estimator.Recall(time.Now(), all[name][which])
		}
	}
	return nil
}
