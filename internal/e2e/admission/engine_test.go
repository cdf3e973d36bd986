package admission

import (
	"context"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/internal/e2e/harness"
	"github.com/llmgov/llmgov/internal/instance"
	"github.com/llmgov/llmgov/internal/mock"
	"github.com/llmgov/llmgov/internal/plan"
	"github.com/llmgov/llmgov/internal/testkit"
	"github.com/llmgov/llmgov/tenants"
)

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
