package durable

import (
	"fmt"
	"testing"
	"time"

	"github.com/llmgov/llmgov/escrow/limits"
	"github.com/llmgov/llmgov/escrow/limits/shape"
	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// longWindow is a tenant with a limit of 1,000 tokens in five hours.
func longWindow(kind shape.Kind) governor.Config {
	cfg := config()
	cfg.Tenants = cfg.Tenants[:1]
	cfg.Tenants[0].MaxWait = 0
	cfg.Tenants[0].Budgets = nil
	cfg.Tenants[0].Windows = []limits.Window{{Of: limits.Tokens, Rule: shape.Rule{Kind: kind, Amount: 1000, Per: 5 * time.Hour, Burst: burstOf[kind]}}}
	return cfg
}

var burstOf = map[shape.Kind]int64{shape.GCRA: 1000}

// takes takes one call of so many tokens, and reports whether it was let in.
func takes(t *testing.T, g *life, tokens int64) bool {
	t.Helper()
	l, rej := g.Acquire(t.Context(), governor.Request{Tenant: "a", Pool: "p", Model: "m", Input: tokens})
	if rej == nil {
		l.Settle(governor.Usage{Input: tokens})
	}
	return rej == nil
}

// TestLongWindowsOutliveAKill: what was used of a limit over hours counts after a restart, and once: whether the process was killed or stopped,
// gone for a short time or for longer than a journal keeps records, and again before anything new was saved.
func TestLongWindowsOutliveAKill(t *testing.T) {
	ends := map[string]func(l *life, t *testing.T){"killed": func(l *life, _ *testing.T) { l.kill() }, "stopped": (*life).stop}
	for _, kind := range []shape.Kind{shape.Rolling, shape.Fixed, shape.TokenBucket, shape.GCRA} {
		for what, end := range ends {
			for _, gone := range []time.Duration{20 * time.Second, 3 * time.Minute} {
				testkit.Virtual(t, fmt.Sprint(kind, " ", what, " for ", gone), func(t *testing.T) { outlives(t, longWindow(kind), end, gone) })
			}
		}
	}
}

func outlives(t *testing.T, cfg governor.Config, end func(*life, *testing.T), gone time.Duration) {
	opt := options(t.TempDir())
	g := begin(t, opt, cfg)
	for range 4 { // over segments, of which the first are removed
		time.Sleep(77 * time.Second)
		if !takes(t, g, 200) {
			t.Error("a call within the limit is refused")
		}
	}
	for range 2 {
		time.Sleep(time.Second)
		end(g, t)
		time.Sleep(gone)
		g = begin(t, opt, cfg)
		if takes(t, g, 300) {
			t.Error("after a restart, 800 of 1,000 tokens are forgotten")
		}
	}
	if !takes(t, g, 150) {
		t.Error("after restarts, 800 of 1,000 tokens count more than once")
	}
	g.stop(t)
}

// Debt from a call of five minutes' tokens counts after a restart until it has been paid off, and no longer.
//
// Seen to fail with: debt left out of what is saved.
func TestDebtOutlivesAKill(t *testing.T) {
	testkit.Virtual(t, "", func(t *testing.T) {
		cfg := longWindow(shape.Rolling)
		cfg.Tenants[0].Windows = nil
		cfg.Tenants[0].TPM = 1000
		opt := options(t.TempDir())
		g := begin(t, opt, cfg)
		began := time.Now()
		l, rej := governor.Refused(g.Acquire(t.Context(), governor.Request{Tenant: "a", Pool: "p", Model: "m", Input: 10}))
		if rej != nil {
			t.Fatal(rej)
		}
		l.Settle(governor.Usage{Input: 5000})
		for range 3 {
			time.Sleep(75 * time.Second)
			g.kill()
			g = begin(t, opt, cfg)
			if takes(t, g, 900) {
				t.Errorf("%v after a call of five minutes' tokens another one is let in", time.Since(began))
			}
		}
		time.Sleep(3 * time.Minute)
		if !takes(t, g, 900) {
			t.Errorf("%v after a call of five minutes' tokens no other is let in", time.Since(began))
		}
		g.stop(t)
	})
}
