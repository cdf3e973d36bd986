package streams

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/internal/admission"
	"github.com/llmgov/llmgov/internal/e2e/harness"
	"github.com/llmgov/llmgov/internal/mock"
	"github.com/llmgov/llmgov/internal/testkit"
	"github.com/llmgov/llmgov/tenants"
)

var streams = flag.Int("streams", 2500, "how many streams end in every way, over all dialects; make storm has 10000")

// Thousands of streams in every dialect that end in every way there is, the last
// eighth of them by a drain. Afterwards no lease and no slot is taken, no goroutine is
// left (or the bubble fails), and what was charged is what the model server
// produced until it saw the cancel. Mutations seen: no charge for a client that
// went; a lease that a panic leaves; usage that is told so far added up.
func TestStreamsEndEveryWay(t *testing.T) {
	for _, d := range dialects {
		for _, version := range []int{1, 2} {
			testkit.Virtual(t, fmt.Sprintf("%s over HTTP/%d", d.name, version), func(t *testing.T) {
				st := newStorm(t, d, version)
				st.calibrate()
				n := testkit.Rounds(*streams/10, *streams) / len(dialects) / 2
				st.rage(n - n/8)
				checkCharged(st.Stack, "before the drain")
				st.drain(n / 8)
				checkCharged(st.Stack, "after the drain")
				st.checkRaged()
			})
		}
	}
}

// What a stream could have produced unseen before its first token is charged if its client goes by then.
const (
	stormLatency = 300 * time.Millisecond
	stormSpeed   = 50 // tokens a second
	stormUnseen  = stormSpeed*int64(stormLatency)/int64(time.Second) + 1
)

// storm is many streams of one dialect.
type storm struct {
	*harness.Stack
	d     dialect
	ended [numEndings]atomic.Int64
}

func newStorm(t *testing.T, d dialect, version int, budgets ...tenants.Budget) *storm {
	a := harness.Tenant("a", 2)
	b := harness.Tenant("b", 1)
	a.MaxWait = time.Hour
	b.MaxWait = time.Hour
	b.Concurrency = 20
	a.Budgets = budgets
	b.Budgets = budgets
	return &storm{d: d, Stack: harness.New(t, harness.World{
		Mock: mock.Config{FirstToken: stormLatency, TokensPerSecond: stormSpeed},
		Pool: harness.Pool(0, 0, 60), Tenants: []tenants.Tenant{a, b},
		StreamIdle: 5 * time.Second, Wrap: panicOn, HTTPVersion: version,
	})}
}

// calibrate teaches what a prompt and a delta are. All bodies of a variant weigh the
// same, so that one answer which tells does it exactly, and those too that tell nothing.
func (st *storm) calibrate() {
	for _, v := range st.d.variants {
		tells := v
		tells.usage = strings.Replace(v.usage, mock.UsageAbsent, mock.UsageFinish, 1)
		for _, tenant := range []string{"a", "b"} {
			if a := st.CallTo(st.T.Context(), st.d.path, tenant, st.d.bodyOf(v.model(), tells, toTheEnd, 0)); a.Status != http.StatusOK {
				st.T.Fatalf("status %d: %s", a.Status, a.Body)
			}
		}
	}
}

// rage lets n streams end in all ways but a drain.
func (st *storm) rage(n int) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 300 { // the race detector knows 8128 goroutines, and a call has half a dozen
		wg.Go(func() {
			for i := int(next.Add(1)); i <= n; i = int(next.Add(1)) {
				way := i % drained
				st.stream(rand.New(rand.NewPCG(uint64(i), 4)), way, st.d.variants[i%len(st.d.variants)])
				st.ended[way].Add(1)
			}
		})
	}
	wg.Wait()
	st.CheckIdle()
}

// drain shuts down in the midst of n streams, and cuts those that are not done a while
// later: some wait, some run, some are just done.
func (st *storm) drain(n int) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 5))
			time.Sleep(time.Duration(rng.Int64N(int64(4 * time.Second))))
			st.stream(rng, drained, st.d.variants[i%len(st.d.variants)])
			st.ended[drained].Add(1)
		})
	}
	time.Sleep(4 * time.Second)
	st.Governor.Drain()
	down := make(chan error)
	go func() { down <- st.Server.Shutdown(st.T.Context()) }()
	time.Sleep(1500 * time.Millisecond) // streams take 5.3 s
	st.Cut(admission.ErrDraining)
	wg.Wait()
	if err := <-down; err != nil {
		st.T.Error(err)
	}
	st.CheckIdle()
}

// stream is one stream that ends in a way.
func (st *storm) stream(rng *rand.Rand, way int, v variant) {
	body := st.d.body(v, way, 100+rng.IntN(150))
	ctx, cancel := context.WithCancel(st.T.Context())
	defer cancel()
	if way == clientEarly {
		defer time.AfterFunc(time.Duration(rng.Int64N(int64(20*time.Second))), cancel).Stop()
	}
	var header []string
	if way == panicking {
		header = []string{"X-Title", "panic"}
	}
	resp, err := st.PostTo(ctx, st.d.path, []string{"a", "b"}[rng.IntN(2)], body, header...)
	if err != nil {
		if way != clientEarly {
			st.T.Errorf("way %d: %v", way, err)
		}
		st.Unseen.Add(1)
		return
	}
	defer resp.Body.Close()
	if way == clientGone {
		if n, _ := io.CopyN(io.Discard, resp.Body, rng.Int64N(30_000)); n == 0 {
			st.Unseen.Add(1)
		}
		return
	}
	text, err := io.ReadAll(resp.Body)
	if way == clientEarly && len(text) == 0 {
		st.Unseen.Add(1)
	}
	st.checkEnd(v, way, resp.StatusCode, string(text), err)
}

// checkRaged looks whether every end was there.
func (st *storm) checkRaged() {
	got := st.Mock.Stats()
	var ends [numEndings]int64
	for way := range ends {
		ends[way] = st.ended[way].Load()
		if ends[way] == 0 {
			st.T.Errorf("no stream ended in way %d", way)
		}
	}
	st.T.Logf("ends: %d whole, %d+%d client gone, %d cut, %d error events, %d idle, %d panics, %d drained; model server: %+v",
		ends[0], ends[1], ends[2], ends[3], ends[4], ends[5], ends[6], ends[7], got)
	if got.Cancelled == 0 || got.Hangups == 0 || got.Completed == 0 {
		st.T.Errorf("the storm was none: %+v", got)
	}
	for _, reason := range []string{"draining", "panic", "idle", "event", "truncated"} {
		if st.Sum("llmgov_requests_total", map[string]string{"outcome": "failed", "reason": reason}) == 0 {
			st.T.Errorf("no call is counted as failed for %s", reason)
		}
	}
}

// checkCharged compares what was charged with what was produced.
// Calls whose clients left without a byte may have produced something unseen.
func checkCharged(s *harness.Stack, when string) {
	s.T.Helper()
	synctest.Wait()
	st := s.Mock.Stats()
	in := s.Charged("", "input")
	out := s.Charged("", "output")
	s.T.Logf("%s: charged %d input and %d output tokens, produced %d and %d", when, in, out, st.PromptTokens, st.OutputTokens)
	if in != st.PromptTokens || out < st.OutputTokens || out > st.OutputTokens+s.Unseen.Load()*stormUnseen {
		s.T.Errorf("%s: charged %d + %d tokens, the model server produced %d + %d", when, in, out, st.PromptTokens, st.OutputTokens)
	}
}
