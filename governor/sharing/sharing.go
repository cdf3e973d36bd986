package sharing

import (
	"time"

	"github.com/llmgov/llmgov/federation/runner"
	"github.com/llmgov/llmgov/governor"
)

// Sharing is one governor's side of its shared limits.
type Sharing struct {
	gov governor.Shared
}

// New returns the side of a governor.
func New(gov governor.Shared) *Sharing { return &Sharing{gov: gov} }

// Pools returns the pools that share limits, including those that no configuration has any more but
// in which calls still run.
func (s *Sharing) Pools() (list []runner.Pool) {
	for _, p := range s.gov.SharedPools() {
		list = append(list, &Pool{shared: p})
	}
	return list
}

// Limits returns the limits of tenants, and the slots and budgets of pools, that have come into use, or
// lack a grant, since it was last called. The same ones are always the same pointer.
func (s *Sharing) Limits() (list []runner.Limits) {
	for _, l := range s.gov.SharedLimits() {
		list = append(list, speakerOf(l))
	}
	for _, l := range s.gov.SharedSlots() {
		list = append(list, slotsSpeakerOf(l))
	}
	return list
}

// Calls returns the calls that have asked whether they may go since it was last called.
func (s *Sharing) Calls() (list []runner.Call) {
	for _, c := range s.gov.SharedCalls() {
		list = append(list, callOf(c))
	}
	return list
}

// Sign says until when a sign of life is good, on which grants may depend.
func (s *Sharing) Sign(number int, until time.Time) { s.gov.Sign(number, until) }

// More returns a channel that holds an element when Limits or Calls has something to return. It is nil
// if nothing is shared.
func (s *Sharing) More() <-chan struct{} { return s.gov.MoreShared() }

// speakerOf returns the speaker for limits, which they keep.
func speakerOf(own *governor.SharedLimits) *Limits {
	if own.Speaker == nil {
		own.Speaker = &Limits{own: own}
	}
	return own.Speaker.(*Limits)
}

// slotsSpeakerOf returns the speaker for slots, which they keep.
func slotsSpeakerOf(shared *governor.SharedSlots) *Slots {
	if shared.Speaker == nil {
		shared.Speaker = &Slots{shared: shared}
	}
	return shared.Speaker.(*Slots)
}
