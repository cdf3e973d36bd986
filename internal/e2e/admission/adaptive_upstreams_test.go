package admission

import (
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/internal/e2e/harness"
	"github.com/llmgov/llmgov/internal/testkit"
	"github.com/llmgov/llmgov/tenants"
)

// One of two upstreams breaks, or asks for a pause again and again: the limit goes to what the other
// can do, and stays there. Where each refusal counted it fell to 4, its least, and a quarter was served.
func TestAdaptive_OneUpstreamBreaks(t *testing.T) {
	testkit.Long(t, "simulates minutes of a whole stack")
	for name, mood := range map[string]http.HandlerFunc{
		"503": harness.Status(503), "429": harness.Status(429, "Retry-After", "1"), "timeout": harness.Silence,
	} {
		testkit.Virtual(t, name, func(t *testing.T) {
			const slots, minutes = 16, 3
			w := adaptiveWorld(tenants.Gradient, slots)
			w.Pool.Upstreams = harness.PoolOf(1, 1).Upstreams
			up := harness.NewUpstream(t, w.Mock)
			w.Upstreams = map[string]http.Handler{"up1": up}
			s := harness.New(t, w)
			const best = slots / 4.0
			_, before := floodSeen(s, 3*best, 2*time.Minute)
			up.AnswerWith(mood)
			flood(s, 1.5*best, 2*time.Minute)
			served, after := floodSeen(s, 1.5*best, minutes*time.Minute)
			t.Logf("a limit of %d, then %d; %d served of %.0f", before, after, served, best*60*minutes)
			if before < slots*5/4 || after < slots/2 || after > slots*2 || float64(served) < 0.85*best*60*minutes {
				t.Errorf("of two upstreams of %d slots one breaks: the limit was %d and is %d, and of %.0f calls %d are served", slots, before, after, best*60*minutes, served)
			}
		})
	}
}

// floodSeen is flood, and returns the median of the limit in its second half: for a moment the limit may be half of that.
func floodSeen(s *harness.Stack, rate float64, lasts time.Duration) (served, limit int64) {
	var limits []int64
	var watching sync.WaitGroup
	watching.Go(func() {
		time.Sleep(lasts / 2)
		for range int(lasts / 2 / time.Second) {
			limits = append(limits, s.Sum("llmgov_concurrency_limit", nil))
			time.Sleep(time.Second)
		}
	})
	served, _ = flood(s, rate, lasts)
	watching.Wait()
	slices.Sort(limits)
	return served, limits[len(limits)/2]
}

// Calls of a tenant that does not wait come 40 at once, and nobody comes between: of those that go only the
// last finds the pool full. The limit grows all the same, until all have a place or some would wait upstream.
func TestAdaptive_Bursts(t *testing.T) {
	testkit.Long(t, "simulates minutes of a whole stack")
	for slots, want := range map[int][2]int64{64: {40, 64}, 16: {8, 34}} {
		synctest.Test(t, func(t *testing.T) {
			s := harness.New(t, adaptiveWorld(tenants.Gradient, slots))
			var least, most int64 = 1000, 0
			for i := range 60 {
				var wg sync.WaitGroup
				for range 40 {
					wg.Go(func() { s.Call(t.Context(), "a", harness.Chat(true, 500, `,"mock":{"output_tokens":100}`)) })
				}
				wg.Wait()
				time.Sleep(5 * time.Second)
				if i >= 20 {
					limit := s.Sum("llmgov_concurrency_limit", nil)
					least = min(least, limit)
					most = max(most, limit)
				}
			}
			t.Logf("%d slots: %d…%d", slots, least, most)
			if least < want[0] || most > want[1] {
				t.Errorf("before a server with %d slots the limit is %d…%d, want %d…%d", slots, least, most, want[0], want[1])
			}
		})
	}
}
