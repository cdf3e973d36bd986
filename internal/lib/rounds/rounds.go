// Package rounds does something again and again, and tells errors that are new from those that go on.
package rounds

import (
	"context"
	"time"
)

// Every calls do once in each period until ctx ends.
func Every(ctx context.Context, period time.Duration, do func()) {
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			do()
		}
	}
}

// Errors has the error of the round before. The zero value is of no round. It is for one goroutine.
type Errors struct{ last string }

// New takes in the outcome of a round, and reports whether it is an error other than that of the round before.
func (e *Errors) New(err error) bool {
	before := e.last
	e.last = ""
	if err != nil {
		e.last = err.Error()
	}
	return e.last != "" && e.last != before
}
