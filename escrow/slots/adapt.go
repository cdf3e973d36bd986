package slots

import (
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/adaptive"
)

// Sight is the state of the slots as a call saw it at its dispatch. An adaptive limit needs it to judge the call's latency. The zero
// value belongs to calls from which nothing is to be learned.
type Sight struct {
	// AtOnce is how many calls are in flight in all processes, this one included, and Full says that a further call of its kind
	// would have been held back.
	AtOnce int64
	Full   bool
}

// See is the sight of a call that has just been dispatched; zero if the limit stands.
func (s *Side) See(leaf escrow.NodeID, background bool) Sight {
	if s.Limiter == nil {
		return Sight{}
	}
	_, used := s.InUse()
	return Sight{AtOnce: used, Full: s.full(leaf, background)}
}

// Observe gives an adaptive limit one sample of latency: of a call that began then and whose first token, or whole answer, came now.
func (s *Side) Observe(now, began time.Time, kind adaptive.Kind, sight Sight) {
	if s.Limiter == nil || sight.AtOnce == 0 {
		return
	}
	s.Limiter.Observe(now, adaptive.Sample{
		Kind: kind, Began: began, Latency: now.Sub(began), Running: sight.AtOnce, Full: sight.Full,
	})
	s.Narrow()
}

// Overloaded tells an adaptive limit that the upstream refused a call for want of capacity, or did not answer it in time.
func (s *Side) Overloaded(now, began time.Time, sight Sight) {
	if s.Limiter == nil || sight.AtOnce == 0 {
		return
	}
	s.Limiter.Overloaded(now, began)
	s.Narrow()
}

// Loaded takes in a load of the servers, for an adaptive limit.
func (s *Side) Loaded(now time.Time, load adaptive.Load) {
	_, inFlight := s.InUse()
	s.Limiter.Loaded(now, load, inFlight)
	s.Narrow()
}

// Resume has an adaptive limit go on where it was when an earlier process ended.
func (s *Side) Resume(now time.Time, limit int64) {
	if s.Limiter != nil {
		s.Limiter.Resume(now, limit)
		s.Narrow()
	}
}
