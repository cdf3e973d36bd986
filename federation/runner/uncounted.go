package runner

import (
	"context"
	"errors"
	"time"
)

// Why other nodes count what runs in a pool no more.
var (
	// ErrFenced says that another process has taken this one's node name.
	ErrFenced = errors.New("another process has this node's name")
	// ErrCutOff says that the store has not answered for a Window.
	ErrCutOff = errors.New("the store that shares the limit out does not answer")
)

// counted is until when all other nodes certainly count what runs in a pool: for a Window since the
// last beat that was booked was sent.
type counted struct {
	until time.Time
	told  bool
}

// book notes that a beat sent at this time was booked.
func (c *counted) book(r *Runner, sent time.Time) { *c = counted{until: sent.Add(r.cfg.Rules.Window)} }

// lapse says, once, when that time is over.
func (c *counted) lapse(r *Runner, now time.Time, pool string, cause error) {
	if c.told || now.Before(c.until) {
		return
	}
	c.told = true
	r.cfg.Uncounted(pool, cause)
}

// outlive waits until that time is over, for a node that was fenced.
func (c *counted) outlive(ctx context.Context, r *Runner, pool string) {
	over := time.NewTimer(time.Until(c.until))
	defer over.Stop()
	select {
	case <-ctx.Done():
	case <-over.C:
		c.lapse(r, time.Now(), pool, ErrFenced)
	}
}
