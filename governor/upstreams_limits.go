package governor

import (
	"time"

	"github.com/llmgov/llmgov/escrow/limits"
	"github.com/llmgov/llmgov/escrow/placement"
)

// upstreamLimits are the limits of one upstream, which may be shared with other processes.
type upstreamLimits struct {
	placement.Account
	own *ownLimits
}

var _ placement.Limits = upstreamLimits{}

// RoomAt implements placement.Limits. It asks for a larger part of limits that are shared.
func (u upstreamLimits) RoomAt(now time.Time, c limits.Cost) time.Time {
	u.own.announce()
	u.own.askForMore(u.Clip(c))
	return u.Account.RoomAt(now, c)
}

// Book implements placement.Limits.
func (u upstreamLimits) Book(now time.Time, c limits.Cost, holds bool) limits.Hold {
	u.own.announce()
	return u.Account.Book(now, c, holds)
}

// check is one of the limits as a call would meet it.
func (u upstreamLimits) check(now time.Time, k limits.Axis, c limits.Cost) Check {
	u.Advance(now)
	own := u.Clip(c)
	return Check{
		Pool: u.own.pool, Axis: u.Name(k),
		Limit: u.Limit(k), Used: u.Set.Used(k), Asked: u.Amount(k, own), Wait: u.WaitOn(k, own),
	}
}
