package admission

import (
	"context"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/internal/lab/mock"
	"github.com/llmgov/llmgov/internal/lab/plan"
	"github.com/llmgov/llmgov/internal/run/instance"
	"github.com/llmgov/llmgov/internal/test/e2e/harness"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/tenants"
)

// adaptiveWorld is a model server with a knee at so many slots behind a limit that is to find it.
func adaptiveWorld(law tenants.Law, slots int) harness.World {
	p := harness.Pool(0, 0, 128)
	p.Adaptive = law
	p.MinConcurrency = 4
	w := harness.World{Pool: p, Mock: mock.Config{Slots: slots, FirstToken: 200 * time.Millisecond, TokensPerSecond: 50}}
	for i, name := range []string{"a", "b", "c"} {
		t := harness.Tenant(name, 1)
		t.MaxWait = []time.Duration{0, 2 * time.Second, 10 * time.Second}[i]
		t.Background = name == "c"
		w.Tenants = append(w.Tenants, t)
	}
	return w
}

// flood asks as three tenants, of whom one does not wait, for answers of 4 s in the mean, at a
// rate in all, and counts what comes of it.
func flood(s *harness.Stack, rate float64, lasts time.Duration) (served, refused int64) {
	ctx, stop := context.WithTimeout(s.T.Context(), lasts)
	defer stop()
	var ok, no atomic.Int64
	var wg sync.WaitGroup
	for i, name := range []string{"a", "b", "c"} {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 7))
			for ctx.Err() == nil {
				time.Sleep(time.Duration(r.ExpFloat64() / rate * 3 * float64(time.Second)))
				n := int(min(1500, max(5, 190*math.Exp(0.8*r.NormFloat64()-0.32))))
				stream := r.IntN(4) > 0
				wg.Go(func() {
					a := s.Call(s.T.Context(), name, harness.Chat(stream, 2000, `,"mock":{"output_tokens":`+strconv.Itoa(n)+`}`))
					switch {
					case a.Err != nil:
						s.T.Error(a.Err)
					case a.Status == http.StatusOK:
						ok.Add(1)
					case a.Status == http.StatusTooManyRequests:
						no.Add(1)
						if limit := a.Header.Get("X-Ratelimit-Limit-Concurrent"); limit == "128" || limit == "" {
							s.T.Errorf("a refusal names a limit of %q calls at once", limit)
						}
					default:
						s.T.Errorf("status %d: %s", a.Status, a.Body)
					}
				})
			}
		})
	}
	wg.Wait()
	return ok.Load(), no.Load()
}

// A server that refuses is asked for less, by each of its ways to do so; one that fails otherwise is
// not. A caller's own mistakes are no sign of anything.
func TestAdaptive_Overload(t *testing.T) {
	for _, c := range []struct {
		name   string
		fails  string
		lowers bool
	}{
		{"503", `{"error_status":503}`, true},
		{"529", `{"error_status":529}`, true},
		{"504", `{"error_status":504}`, true},
		{"429", `{"error_status":429}`, true},
		{"500", `{"error_status":500}`, false},
		{"400", `{"error_status":400}`, false},
	} {
		testkit.Virtual(t, c.name, func(t *testing.T) {
			w := adaptiveWorld(tenants.Gradient, 0)
			w.Pool.MinConcurrency = 20
			s := harness.New(t, w)
			pools(s, t, func(p *tenants.Pool) { p.MinConcurrency = 4 }, w)
			for range 3 {
				s.Call(t.Context(), "a", harness.Chat(true, 10, `,"mock":`+c.fails))
				time.Sleep(time.Minute)
			}
			if got := s.Sum("llmgov_concurrency_limit", nil); (got < 20) != c.lowers {
				t.Errorf("behind three answers of %s the limit of 20 is %d", c.name, got)
			}
		})
	}
}

// pools puts another pool in force.
func pools(s *harness.Stack, t *testing.T, change func(*tenants.Pool), w harness.World) {
	t.Helper()
	change(&w.Pool)
	snap := testkit.Must(tenants.Build(w.Config(), w.Tenants))(t)
	testkit.OK(t, s.Gateway.Apply(snap))
}

// What an adaptive pool has decided is decided again from the record, without one call that comes
// out otherwise: the limit moves by what is in it.
func TestPlan_OfAnAdaptivePool(t *testing.T) {
	testkit.Long(t, "simulates minutes of a whole stack")
	for _, law := range []tenants.Law{tenants.Gradient, tenants.AIMD} {
		w := adaptiveWorld(law, 16)
		w.Mock.ErrorRate = 0.01 // of which some are sent to the other upstream
		w.Pool.Upstreams = harness.PoolOf(3, 1).Upstreams
		w.Upstreams = map[string]http.Handler{"up1": harness.NewUpstream(t, mock.Config{Slots: 4, FirstToken: 300 * time.Millisecond, TokensPerSecond: 50})}
		var snap *tenants.Snapshot
		var record plan.Log
		var limit int64
		synctest.Test(t, func(t *testing.T) {
			log := w.Record(t)
			s := harness.New(t, w)
			var wg sync.WaitGroup
			wg.Go(func() {
				for range 5 { // some are refused upstream
					time.Sleep(30 * time.Second)
					for range 5 {
						s.Call(t.Context(), "b", harness.Chat(true, 10, `,"mock":{"error_status":503}`))
					}
				}
			})
			mixedFlood(s)
			wg.Wait()
			limit = s.Sum("llmgov_concurrency_limit", nil)
			snap = s.Gateway.Snapshot()
			record = log.End(s)
		})
		report := harness.DecidedAgain(t, record, snap)
		t.Logf("%s: %d calls, limit %d at the end", law, report.Calls, limit)
		if !report.Exact || len(report.Flips) > 0 || report.Calls < 500 || limit == 4 {
			t.Errorf("%s: of %d calls %d come out otherwise by their own policy, and %d by the same one; the limit is %d", law, report.Calls, report.Differ, len(report.Flips), limit)
		}
	}
}

// mixedFlood is a flood in which errors are none of the test's business.
func mixedFlood(s *harness.Stack) {
	ctx, stop := context.WithTimeout(s.T.Context(), 3*time.Minute)
	defer stop()
	testkit.AtOnce(30, func(i int) {
		r := rand.New(rand.NewPCG(uint64(i), 9))
		for ctx.Err() == nil {
			s.Call(s.T.Context(), string(rune('a'+i%3)), harness.Chat(r.IntN(2) == 0, 2000, `,"mock":{"output_tokens":`+strconv.Itoa(1+r.IntN(300))+`}`))
			time.Sleep(time.Duration(200+r.IntN(800)) * time.Millisecond)
		}
	})
}

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

// metricsOf is a transport to a model server.
type metricsOf struct{ server *mock.Server }

func (m metricsOf) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	m.server.ServeHTTP(w, r)
	return w.Result(), nil
}

// readEngines has a stack's pools go by the metrics of its model server, until ctx ends.
func readEngines(ctx context.Context, s *harness.Stack) {
	engines := instance.NewEngines(s.Gateway.Snapshot, s.Governor, slog.New(slog.DiscardHandler))
	engines.Client.Transport = metricsOf{s.Mock}
	_ = engines.Run(ctx)
}

// batching is a server that batches continuously behind an adaptive limit. Its memory holds some 40 of the calls that it gets.
type batching struct {
	t     *testing.T
	stack *harness.Stack
	log   *harness.Record

	limit       float64 // in the mean
	interrupted float64 // streams at once that the server has interrupted, in the mean
	served      int64
	record      plan.Log
}

const (
	batchHolds  = 40
	batchPrompt = 20
	batchOutput = 40
)

func newBatching(t *testing.T, law tenants.Law, kind string) *batching {
	w := adaptiveWorld(law, 0)
	w.Pool.Concurrency = 256
	w.Pool.MaxQueue = 1000
	w.Tenants = w.Tenants[:1]
	w.Tenants[0].MaxWait = 10 * time.Minute
	w.Mock = mock.Config{FirstToken: 200 * time.Millisecond, TokensPerSecond: 4, Batch: 32, KVCache: batchHolds * (batchPrompt + batchOutput/2)}
	w.Tune = func(cfg *tenants.Config) { cfg.Upstreams[0].Engine = tenants.Engine{Kind: kind} }
	log := w.Record(t)
	return &batching{t: t, log: log, stack: harness.New(t, w)}
}

// run has 100 callers ask again and again, for long enough that a limit settles, and then looks at it each second.
func (b *batching) run(settles, lasts time.Duration) {
	ctx, stop := context.WithCancel(b.t.Context())
	var group sync.WaitGroup
	group.Go(func() { readEngines(ctx, b.stack) })
	for i := range 100 {
		group.Go(func() { b.caller(ctx, rand.New(rand.NewPCG(uint64(i), 3))) })
	}
	time.Sleep(settles)
	before := b.stack.Mock.Stats().Completed
	for range int(lasts / time.Second) {
		time.Sleep(time.Second)
		b.limit += float64(b.stack.Sum("llmgov_concurrency_limit", nil)) / lasts.Seconds()
		_, interrupted, _ := b.stack.Mock.Batch()
		b.interrupted += float64(interrupted) / lasts.Seconds()
	}
	b.served = b.stack.Mock.Stats().Completed - before
	stop()
	group.Wait()
	b.record = b.log.End(b.stack)
}

func (b *batching) caller(ctx context.Context, r *rand.Rand) {
	for ctx.Err() == nil {
		n := int(math.Ceil(batchOutput * math.Exp(0.5*r.NormFloat64()-0.125)))
		a := b.stack.Call(b.t.Context(), "a", harness.Chat(true, 2000, `,"mock":{"output_tokens":`+strconv.Itoa(n)+`}`))
		if a.Status == http.StatusTooManyRequests {
			time.Sleep(time.Second)
		}
	}
}

// A server that batches continuously takes all calls at once, and its first tokens come as soon however many there are. So
// a limit that goes by latency rises far beyond the calls that its memory holds, and its streams are interrupted. By the
// server's own metrics it stays at what it holds, and nearly as much is done. What it told is on record: the calls are decided again as they were.
func TestEngine_ContinuousBatching(t *testing.T) {
	testkit.Long(t, "simulates minutes of a whole stack")
	for _, law := range []tenants.Law{tenants.Gradient, tenants.AIMD} {
		t.Run(string(law), func(t *testing.T) {
			outcome := func(kind string) (b *batching) {
				synctest.Test(t, func(t *testing.T) {
					b = newBatching(t, law, kind)
					b.run(4*time.Minute, 2*time.Minute)
				})
				return b
			}
			by := outcome("vllm")
			without := outcome("")
			t.Logf("by metrics: limit %.1f, %.1f interrupted, %d served; by latency: limit %.1f, %.1f interrupted, %d served",
				by.limit, by.interrupted, by.served, without.limit, without.interrupted, without.served)
			if by.limit < 0.7*batchHolds || by.limit > 1.15*batchHolds {
				t.Errorf("by its metrics, the limit of a server that holds %d calls is %.1f", batchHolds, by.limit)
			}
			if by.interrupted > batchHolds/10 {
				t.Errorf("by its metrics, the server interrupts %.1f streams", by.interrupted)
			}
			if without.limit < 2*batchHolds || without.interrupted < batchHolds {
				t.Errorf("by latency, the limit is %.1f and the server interrupts %.1f streams: the test shows nothing", without.limit, without.interrupted)
			}
			if by.served < without.served*85/100 {
				t.Errorf("by its metrics %d calls are served, by latency %d", by.served, without.served)
			}
			if again := harness.DecidedAgain(t, by.record, by.stack.Gateway.Snapshot()); !again.Exact || len(again.Flips) > 0 {
				t.Errorf("of %d calls %d come out otherwise when they are decided again", again.Calls, again.Differ)
			}
		})
	}
}
