package placement

import (
	"time"

	"github.com/llmgov/llmgov/escrow/limits"
)

// Account is Limits in a limits.Set.
type Account struct{ *limits.Set }

var _ Limits = Account{}

// Lacks implements Limits.
func (a Account) Lacks(now time.Time, c limits.Cost) (axis limits.Axis, lacks bool) {
	a.Advance(now)
	axis, fits := a.Fits(a.Clip(c))
	return axis, !fits
}

// RoomAt implements Limits.
func (a Account) RoomAt(now time.Time, c limits.Cost) time.Time {
	a.Advance(now)
	at, _ := a.Set.RoomAt(a.Clip(c))
	return at
}

// WaitFor implements Limits.
func (a Account) WaitFor(now time.Time, total limits.Cost) time.Duration {
	a.Advance(now)
	return a.Set.WaitFor(total)
}

// Book implements Limits.
func (a Account) Book(now time.Time, c limits.Cost, holds bool) limits.Hold {
	a.Advance(now)
	h := a.Set.Book(a.Clip(c))
	if holds {
		a.Suspend(&h)
	}
	return h
}

// Settle implements Limits.
func (a Account) Settle(now time.Time, h *limits.Hold, actual limits.Cost, ran time.Duration) {
	a.Advance(now)
	a.Set.Settle(h, actual, ran)
}

// Idle implements Limits.
func (a Account) Idle() bool { return a.Set.Idle() }
