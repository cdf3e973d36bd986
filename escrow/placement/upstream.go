package placement

import (
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/limits"
)

// Most is how many upstreams an escrow.Mask has bits for.
const Most = 64

// Spec is an upstream of a configuration, with its own limits, of which 0 is no limit.
type Spec struct {
	Name          string
	Weight, Order int64

	TPM, RPM, ITPM, OTPM, Concurrency int64
}

// Limits are the upstream's own.
func (s *Spec) Limits() limits.Limits {
	minute := limits.Cost{limits.Tokens: s.TPM, limits.Requests: s.RPM, limits.Input: s.ITPM, limits.Output: s.OTPM}
	return limits.Limits{Minute: minute, Concurrency: s.Concurrency}
}

// Amount is the limit on an axis.
func (s *Spec) Amount(k limits.Axis) *int64 {
	return limits.Pick(k, &s.RPM, &s.TPM, &s.ITPM, &s.OTPM, &s.Concurrency)
}

// Limits are the limits of one upstream. A cost that exceeds a limit by itself counts as the whole limit.
type Limits interface {
	// Lacks reports whether there is no room for a cost, and on which axis.
	Lacks(now time.Time, c limits.Cost) (axis limits.Axis, lacks bool)
	// RoomAt is when there may be room for a cost that lacks it. The zero time means: only when a call ends, or the limits
	// change.
	RoomAt(now time.Time, c limits.Cost) time.Time
	// WaitFor is how long it takes until there is room for a cost, which may be that of several calls.
	WaitFor(now time.Time, total limits.Cost) time.Duration
	// Book books a cost, whether it fits or not. If holds is set it counts at any time until Settle.
	Book(now time.Time, c limits.Cost, holds bool) limits.Hold
	// Settle replaces what was booked by the actual cost. ran is 0 for a call that never ran.
	Settle(now time.Time, h *limits.Hold, actual limits.Cost, ran time.Duration)
	// Clip is the part of a cost that the limits have room for once they are idle.
	Clip(c limits.Cost) limits.Cost
	// Idle reports whether no call is booked that has not ended.
	Idle() bool
}

// Upstream is one of a pool's upstreams.
type Upstream[L Limits] struct {
	Spec
	Limits L
	// Closed is until when nothing goes there.
	Closed time.Time
	// Tokens and Ended are the sums of all calls that ended there.
	Tokens, Ended int64

	seed    uint64    // for conversations
	running int64     // calls
	turn    float64   // calls that began here, by weight: of those of one order the least goes first
	left    time.Time // when it left the list; zero while it is in it
}

// step is by how much a call moves the upstream's turn.
func (u *Upstream[L]) step() float64 { return 1 / float64(max(u.Weight, 1)) }

// takes is how much of a call's tokens of all kinds the limits have room for once they are idle.
func (u *Upstream[L]) takes(c escrow.Cost) int64 {
	part := u.Limits.Clip(CostOf(c))
	return part[limits.Tokens] + part[limits.Input] + part[limits.Output]
}

// lacks reports whether an upstream has no room for a call, and of which axis.
func (u *Upstream[L]) lacks(now time.Time, c limits.Cost) (axis limits.Axis, lacks bool) {
	if now.Before(u.Closed) {
		return limits.Tokens, true
	}
	return u.Limits.Lacks(now, c)
}

// roomAt is when an upstream may have room for a cost that it lacks.
func (u *Upstream[L]) roomAt(now time.Time, c limits.Cost) time.Time {
	if now.Before(u.Closed) {
		return u.Closed
	}
	return u.Limits.RoomAt(now, c)
}
