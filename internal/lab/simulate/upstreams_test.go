package simulate

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/internal/lab/simulate/scenario"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

const twoUpstreams = `
duration: 3m
warmup: 1m
pool: {upstreams: [{name: x, tpm: 2000}, {name: y, tpm: 4000, order: 1}]}
cost: {dist: constant, mean: 100}
tenants:
  - {name: a, weight: 1, load: {kind: backlogged, workers: 5}}
  - {name: b, weight: 1, upstreams: [y], load: {kind: backlogged, workers: 5}}
events:
  - {at: 100s, lost: y, for: 20s}
`

// In the second minute 4500 tokens go beyond the first order: 1500 of them while half of the other is used, which b may not use for its 2000, and
// 1000 while it is used up.
func TestUpstreams_OfAHandMadeTrace(t *testing.T) {
	s := script{Trace{Upstreams: map[int32]int{}}}
	const second = time.Second
	to := func(upstream int, tenant int32, at time.Duration, tokens int64) {
		s.Upstreams[s.ask(tenant, at, 0, tokens)] = upstream
	}
	to(0, 0, 61*second, 1000)
	to(1, 0, 62*second, 1500)
	to(1, 1, 63*second, 2000)
	to(0, 0, 64*second, 1000)
	to(1, 0, 65*second, 1000)
	p := newPlan(parsed(t, twoUpstreams), 1)
	f, _ := newAudit(p, &s.Trace).figures()
	near(t, "spilled", f.Spilled, 2500.0/6500)
	near(t, "spill_full", f.SpillFull, (1500*0.5+1000)/2500)
	near(t, "upstreams_max", f.UpstreamsMax, 4500.0/4000)
	near(t, "tokens_utilization", f.Used[escrow.Tokens], 6500/(2*6000-4000.0/3))
}

// Full use is back three seconds after the loss, and five after the return.
func TestUpstreams_Recovery(t *testing.T) {
	var s script
	for at := 60; at < 180; at++ {
		tokens := int64(100)
		switch {
		case at >= 120 && at < 125:
			tokens = 20
		case at >= 103 && at < 125:
			tokens = 34
		case at >= 100 && at < 103:
			tokens = 0
		}
		s.ask(0, time.Duration(at)*time.Second, 0, tokens)
	}
	p := newPlan(parsed(t, twoUpstreams), 1)
	f, _ := newAudit(p, &s.Trace).figures()
	near(t, "recovery_seconds_max", f.Recovery, 5)
}

// A tenant's calls go only to the upstreams that it may use, and none begins at one that is lost; what runs there breaks off.
func TestUpstreams_Lost(t *testing.T) {
	t.Parallel()
	const from, to = 100 * time.Second, 120 * time.Second
	w := worldOf(t, strings.Replace(twoUpstreams, "cost:", "service: 3s\ncost:", 1))
	for _, e := range w.trace.Events {
		r := &w.trace.Requests[e.Request]
		upstream := w.trace.Upstreams[e.Request]
		lost := e.At > from && e.At < to && upstream == 1
		if lost && (e.Kind == Admitted || e.Kind == Settled) {
			t.Fatalf("at %v a call has a %v at the upstream that is lost", e.At, e.Kind)
		}
		if e.Kind == Admitted && r.Tenant == 1 && upstream != 1 {
			t.Fatalf("b's call goes to %d", upstream)
		}
	}
	if f := play(t, twoUpstreams).Figures; f.UpstreamsMax > 1 {
		t.Errorf("%.4f of an upstream's limit was used", f.UpstreamsMax)
	}
}

// The log names the upstream of each call that is admitted.
func TestUpstreams_Log(t *testing.T) {
	t.Parallel()
	w := worldOf(t, twoUpstreams)
	var log bytes.Buffer
	testkit.OK(t, writeLog(&log, w.plan, &w.trace))
	admits := strings.Count(log.String(), `"ev":"admit"`)
	named := strings.Count(log.String(), `"upstream":"x"`) + strings.Count(log.String(), `"upstream":"y"`)
	if admits == 0 || named != admits {
		t.Errorf("%d of %d lines of calls that are admitted name an upstream", named, admits)
	}
}

// TestCache: the conversations that were not used for longest are dropped when there is no room for another.
func TestCache(t *testing.T) {
	var c cache
	c.keep(1, 40, 100)
	c.keep(2, 50, 100)
	if got := c.take(1); got != 40 {
		t.Errorf("of conversation 1 %d tokens are kept, want 40", got)
	}
	c.keep(1, 45, 100)
	c.keep(3, 30, 100) // in place of 2
	var ids []uint64
	for _, x := range c.list {
		ids = append(ids, x.id)
	}
	if !slices.Equal(ids, []uint64{1, 3}) || c.sum != 75 {
		t.Errorf("%v are kept, of %d tokens, want 1 and 3 of 75", ids, c.sum)
	}
	c.keep(4, 101, 100)
	if len(c.list) != 0 || c.sum != 0 {
		t.Errorf("beside a conversation that is too large %v are kept, %d tokens", c.list, c.sum)
	}
}

// TestTalks: each call of a conversation begins with all that was said before, and the next call of the worker after its last begins another.
func TestTalks(t *testing.T) {
	t.Parallel()
	w := worldOf(t, `
duration: 90s
pool: {tpm: 0, cache: 1000000, upstreams: [{name: a, concurrency: 3}]}
classes: [{share: 1, median: 10, sigma: 0, max: 10, tokens_per_second: 10, input: {mean: 5, sigma: 0, min: 5, max: 5}}]
tenants: [{name: t, load: {kind: backlogged, workers: 2, turns: 3}}]
`)
	seen := map[int64]int{}
	for _, x := range w.trace.Recalls {
		r := w.trace.Requests[x.Request]
		if r.Input != x.Before+5 || x.Found != x.Before {
			t.Fatalf("%+v of a request with %d tokens of input", x, r.Input)
		}
		seen[x.Before]++
	}
	if len(seen) != 3 || seen[0] < 20 || seen[15] < 20 || seen[30] < 20 {
		t.Errorf("calls by what was said before: %v, want as many of 0, 15 and 30", seen)
	}
}

// TestAffinity_Goals: while upstreams have free slots, calls of a conversation find their beginnings cached; where they are spread, few do.
// When all slots are in use, and waiting calls go where they are at home, most still do, if the caches have room for all conversations.
func TestAffinity_Goals(t *testing.T) {
	t.Parallel()
	s := testkit.Must(scenario.Find("u3"))(t)
	s.Duration = 5 * time.Minute
	together := figuresOf(t, s)
	s.Pool.Spreads = true
	spread := figuresOf(t, s)
	t.Logf("calls %.4f and %.4f, tokens %.4f and %.4f", together.CacheCalls, spread.CacheCalls, together.CacheTokens, spread.CacheTokens)
	if together.CacheCalls < 0.9 || together.CacheTokens < 0.8 {
		t.Errorf("%.4f of calls find what was said before, %.4f of tokens, want 0.9 and 0.8", together.CacheCalls, together.CacheTokens)
	}
	if spread.CacheCalls > 0.5 || spread.CacheTokens > 0.5 {
		t.Errorf("spread, %.4f of calls find what was said before, %.4f of tokens, which says nothing of affinity", spread.CacheCalls, spread.CacheTokens)
	}
	if together.UpstreamsMax > 1 || together.WaitP99 > spread.WaitP99+0.1 {
		t.Errorf("%.4f of an upstream is used, and calls wait for %.2f s; spread for %.2f s", together.UpstreamsMax, together.WaitP99, spread.WaitP99)
	}
	for i := range s.Tenants {
		s.Tenants[i].Load.Workers *= 2
	}
	s.Pool.Cache *= 2
	spread = figuresOf(t, s)
	s.Pool.Spreads = false
	together = figuresOf(t, s)
	t.Logf("with all slots in use %.4f and %.4f, tokens %.4f and %.4f; waits %.2f and %.2f s", together.CacheCalls, spread.CacheCalls,
		together.CacheTokens, spread.CacheTokens, together.WaitP99, spread.WaitP99)
	if together.CacheCalls < 0.65 || spread.CacheCalls > 0.35 || together.Utilization < 0.99 || together.LongRunDeviation > 0.01 {
		t.Errorf("with all slots in use, %.4f of calls find what was said before, spread %.4f", together.CacheCalls, spread.CacheCalls)
	}
	if together.WaitP50 > spread.WaitP50*1.1 || together.WaitP99 > spread.WaitP99*1.5 {
		t.Errorf("they wait for %.2f s, a hundredth for %.2f s; spread for %.2f and %.2f s", together.WaitP50, together.WaitP99, spread.WaitP50, spread.WaitP99)
	}
}
