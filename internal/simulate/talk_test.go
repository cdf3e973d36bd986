package simulate

import (
	"slices"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/simulate/scenario"
	"github.com/llmgov/llmgov/internal/testkit"
)

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
