package governor

import (
	"time"

	"github.com/llmgov/llmgov/escrow/limits"
	"github.com/llmgov/llmgov/escrow/placement"
)

// upstreamLimits are the limits of one upstream, which may be shared with other processes. Methods take their lock.
type upstreamLimits struct{ *ownLimits }

var _ placement.Limits = upstreamLimits{}

// account is the plain limits. Their lock must be held.
func (u upstreamLimits) account() placement.Account { return placement.Account{Set: &u.set} }

// Lacks implements placement.Limits.
func (u upstreamLimits) Lacks(now time.Time, c limits.Cost) (axis limits.Axis, lacks bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.account().Lacks(now, c)
}

// RoomAt implements placement.Limits. It asks for a larger part of limits that are shared.
func (u upstreamLimits) RoomAt(now time.Time, c limits.Cost) time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.announceLocked()
	u.askForMoreLocked(u.set.Clip(c))
	return u.account().RoomAt(now, c)
}

// WaitFor implements placement.Limits.
func (u upstreamLimits) WaitFor(now time.Time, total limits.Cost) time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.account().WaitFor(now, total)
}

// Book implements placement.Limits.
func (u upstreamLimits) Book(now time.Time, c limits.Cost, holds bool) limits.Hold {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.announceLocked()
	return u.account().Book(now, c, holds)
}

// Settle implements placement.Limits.
func (u upstreamLimits) Settle(now time.Time, h *limits.Hold, actual limits.Cost, ran time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.account().Settle(now, h, actual, ran)
}

// Clip implements placement.Limits.
func (u upstreamLimits) Clip(c limits.Cost) limits.Cost {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.set.Clip(c)
}

// Idle implements placement.Limits.
func (u upstreamLimits) Idle() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.account().Idle()
}

// coming reports whether a call lacks nothing but a larger part of limits that are shared.
func (u upstreamLimits) coming(c limits.Cost) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.set.Coming(u.set.Clip(c))
}

// check is one of the limits as a call would meet it.
func (u upstreamLimits) check(now time.Time, k limits.Axis, c limits.Cost) Check {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.set.Advance(now)
	own := u.set.Clip(c)
	return Check{
		Pool: u.pool, Axis: u.set.Name(k),
		Limit: u.set.Limit(k), Used: u.set.Used(k), Asked: u.set.Amount(k, own), Wait: u.set.WaitOn(k, own),
	}
}

// rememberHere books the cost of a call of the past.
func (u upstreamLimits) rememberHere(now, began, ended time.Time, booked, took *limits.Cost) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.set.Advance(now)
	u.set.Remember(began, ended, booked, took)
}
