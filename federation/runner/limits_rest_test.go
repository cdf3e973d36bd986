package runner

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/federation/parts"
)

// still are limits of which nothing is used.
type still struct {
	rests  atomic.Bool
	claims atomic.Int64 // so often asked for
}

func (s *still) Owner() string { return "a" }

func (s *still) Claims(time.Time) ([]parts.Claim, bool) {
	s.claims.Add(1)
	return []parts.Claim{{Name: "x", Kind: parts.Slots, Limit: 10}}, false
}

func (s *still) Apply(_, _ time.Time, _ []parts.Part) {}
func (s *still) Alone(time.Time, bool)                {}
func (s *still) Rest(time.Time) bool                  { return s.rests.Load() }
func (s *still) Recalls(time.Time) bool               { return false }
func (s *still) Recall(time.Time)                     {}

// nothing is a store that grants nothing.
type nothing struct{ instances []string }

func (n *nothing) Share(_ context.Context, beats []*parts.Beat) (replies []parts.Reply, _ error) {
	for _, b := range beats {
		n.instances = append(n.instances, b.Instance)
		replies = append(replies, parts.Reply{Seq: b.Seq, Parts: make([]parts.Part, len(b.Claims))})
	}
	return replies, nil
}

func (n *nothing) Ask(context.Context, *parts.Ask) (parts.Answer, error) {
	panic("nobody asks")
}

// TestLimits_Rest: limits that do not rest are told of again, though nothing was used as of the
// last time; those that rest are forgotten in time, and have another holder when they come back.
func TestLimits_Rest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &still{}
		store := &nothing{}
		more := make(chan struct{})
		r := NewLimits(LimitsConfig{Instance: "i", Store: store, More: more, Limits: func() []Limits { return []Limits{s} }})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = r.Run(ctx)
		}()
		more <- struct{}{}
		time.Sleep(5 * time.Second)
		if n := s.claims.Load(); n < 4 {
			t.Errorf("told %d times in 5 s", n)
		}
		s.rests.Store(true)
		time.Sleep(2 * time.Second)
		n := s.claims.Load()
		time.Sleep(time.Minute)
		if s.claims.Load() > n {
			t.Error("told of while it rests")
		}
		synctest.Wait()
		if len(r.known) > 0 {
			t.Errorf("%d are known", len(r.known))
		}
		more <- struct{}{}
		time.Sleep(time.Second)
		stop()
		<-done
		if last := len(store.instances) - 1; store.instances[0] != "i.1" || store.instances[last] != "i.2" {
			t.Errorf("told as %v", store.instances)
		}
	})
}

// TestFormats: a lower format is believed at once, and a higher one when it has been heard for a Window.
func TestFormats(t *testing.T) {
	began := time.Now()
	var f formats
	for _, step := range []struct {
		second        int
		heard, expect int
	}{
		{0, 0, 0},  // a refusal names none
		{1, 2, 2},  // the first is believed
		{2, 1, 1},  // a node of the release before joins
		{3, 2, 1},  // a store that has lost its data
		{50, 1, 1}, // the node is there again
		{60, 2, 1},
		{110, 2, 1},
		{111, 2, 2}, // it is gone
		{112, 3, 2},
	} {
		f.hear(began.Add(time.Duration(step.second)*time.Second), step.heard, time.Minute)
		if f.lowest != step.expect {
			t.Errorf("after %d s and %d it is %d, want %d", step.second, step.heard, f.lowest, step.expect)
		}
	}
}
