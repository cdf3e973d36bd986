package governor

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/escrow/limits"
	"github.com/llmgov/llmgov/escrow/limits/shape"
)

// TestSaved_Windows: what was used of limits over hours, over all pools and in one, is there for a store that has lost its data: the next process
// tells it, as its own. While the store remembers, it counts nowhere twice.
func TestSaved_Windows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		window := []limits.Window{{Of: limits.Tokens, Rule: shape.Rule{Amount: 1000, Per: 5 * time.Hour}}}
		cfg := Config{
			Pools:   []Pool{{Name: "p", TPM: 1_000_000, MaxQueue: 10}},
			Tenants: []Tenant{{Name: "a", Weight: 1000, Windows: window, InPool: map[string]Limits{"p": {Windows: window}}}},
		}
		before := must(t, cfg)
		for range 3 {
			time.Sleep(10 * time.Minute)
			l := admitted(t, before, Request{Tenant: "a", Pool: "p", Model: "m", Input: 200})
			l.Settle(Usage{Input: 200})
		}
		time.Sleep(time.Second)
		past := NewPast(time.Now(), nil)
		past.Saved = before.Saved()
		cfg.SharedLimits = true
		cfg.Past = past
		after := must(t, cfg)
		list := after.SharedLimits()
		if len(list) != 2 {
			t.Fatalf("%d limits are announced, want those over all pools and in one", len(list))
		}
		for _, s := range list {
			now := time.Now()
			used := func() (n int64) {
				for _, axis := range s.Demand(now).Axes {
					if axis.Length == 5*time.Hour {
						n += axis.Used
					}
				}
				return n
			}
			if !s.Recalls(now) || used() != 0 {
				t.Errorf("%s: of the usage before %d counts, and that there is some is %v", s.Owner(), used(), s.Recalls(now))
			}
			s.Recall(now)
			if s.Recalls(now) || used() != 600 {
				t.Errorf("%s: when it is recalled %d are used, want 600", s.Owner(), used())
			}
		}
	})
}

// TestSaved_JustAsked: a call that asked before the copy, as its caller says, and was booked after it, counts after a restart.
func TestSaved_JustAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		journal := &memory{left: -1}
		window := []limits.Window{{Of: limits.Tokens, Rule: shape.Rule{Amount: 1000, Per: 5 * time.Hour}}}
		cfg := Config{
			Pools:   []Pool{{Name: "p", TPM: 1_000_000, MaxQueue: 10}},
			Tenants: []Tenant{{Name: "a", Weight: 1000, Windows: window}}, Journal: journal,
		}
		before := must(t, cfg)
		call := func(asked time.Time) {
			l := admitted(t, before, Request{Tenant: "a", Pool: "p", Model: "m", Input: 200, Asked: asked})
			l.Settle(Usage{Input: 200})
		}
		call(time.Now())
		time.Sleep(time.Hour)
		asked := time.Now()
		time.Sleep(justAsked)
		saved := before.Saved()
		call(asked)
		time.Sleep(time.Minute)
		past := NewPast(time.Now(), nil)
		past.Saved = saved
		for _, r := range journal.records {
			past.Read(r)
		}
		cfg.Past = past
		own := must(t, cfg).table.Load().tenants["a"].over
		used := int64(0)
		for _, b := range own.set.WindowUses()[0].Bookings {
			used += b.Amount
		}
		if used != 400 {
			t.Errorf("after a restart %d tokens are used in the window, want 400 of two calls", used)
		}
	})
}
