// Package streams tests streams of every dialect that end in every way: slots, limits and charges
// hold afterwards.
package streams

import (
	"context"
	"errors"
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

	"github.com/llmgov/llmgov/internal/lab/mock"
	"github.com/llmgov/llmgov/internal/run/admission"
	"github.com/llmgov/llmgov/internal/test/e2e/harness"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/internal/test/testkit/leaktest"
	"github.com/llmgov/llmgov/tenants"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// The ways a stream can end.
const (
	toTheEnd     = iota // the last chunk
	clientGone          // after a random number of bytes
	clientEarly         // after a random time, perhaps before the first byte
	upstreamCut         // the model server hangs up
	upstreamSays        // an error event
	upstreamIdle        // silence
	panicking           // a handler panics while it copies
	drained             // the gateway shuts down
	numEndings
)

// faults are the model server's hooks by way of ending.
var faults = map[int]string{upstreamCut: "hangup_after", upstreamSays: "error_after", upstreamIdle: "stall_after"}

// variant is where a stream tells its usage, and whether its client asks for it.
type variant struct {
	usage string
	asks  bool
}

func (v variant) model() string { return fmt.Sprintf("%s-%v", v.usage, v.asks) }

// dialect is a route whose answers stream in a way of their own.
type dialect struct {
	name, path string
	ask        string // what it calls the prompt and the bound
	last       string // in the last event of a whole answer
	variants   []variant
}

// question is long enough for a prompt to be told from its JSON.
var question = strings.Repeat("How long is a piece of string? ", 12)

var dialects = []dialect{
	{"chat", "/chat/completions", `"messages":[{"role":"user","content":"` + question + `"}],"max_tokens":300`, "data: [DONE]", chunked},
	{"completions", "/completions", `"prompt":"` + question + `","max_tokens":300`, "data: [DONE]", chunked},
	{"responses", "/responses", `"input":"` + question + `","max_output_tokens":300`, `"type":"response.completed"`, []variant{{mock.UsageFinish, false}, {mock.UsageAbsent, false}}},
	{"messages", "/messages", `"messages":[{"role":"user","content":"` + question + `"}],"max_tokens":300`, `"type":"message_stop"`, []variant{{mock.UsageFinish, false}, {mock.UsageEach, false}, {mock.UsageAbsent, false}}},
}

// chunked are the variants of routes that have the extra usage chunk.
var chunked = func() (all []variant) {
	for _, usage := range []string{mock.UsageChunk, mock.UsageFinish, mock.UsageEach, mock.UsageAbsent} {
		all = append(all, variant{usage, false}, variant{usage, true})
	}
	return all
}()

// body is a request for a stream of 250 tokens which ends in its way after so many.
// All of a variant weigh the same: they name every fault, the model server heeds the
// last one, and one beyond the answer's end does not happen.
func (d dialect) body(v variant, way, after int) string { return d.bodyOf(v.model(), v, way, after) }

func (d dialect) bodyOf(model string, v variant, way, after int) string {
	hooks := ""
	for _, w := range []int{upstreamCut, upstreamSays, upstreamIdle} {
		if w != way {
			hooks += fmt.Sprintf(`,"%s":900`, faults[w])
		}
	}
	if faults[way] != "" {
		hooks += fmt.Sprintf(`,"%s":%03d`, faults[way], after)
	}
	options := ""
	if v.asks {
		options = `,"stream_options":{"include_usage":true}`
	}
	return fmt.Sprintf(`{"model":"%s",%s,"stream":true%s,"mock":{"output_tokens":250,"usage":"%s"%s}}`, model, d.ask, options, v.usage, hooks)
}

// checkEnd looks at what the client saw of an end.
func (st *storm) checkEnd(v variant, way, status int, text string, err error) {
	st.T.Helper()
	last := strings.TrimRight(text, "\n")
	last = last[strings.LastIndex(last, "\n\n")+1:]
	whole := err == nil && strings.Contains(last, st.d.last)
	broken := err == nil && !whole && strings.Contains(last, `"error"`)
	ok := true
	switch way {
	case toTheEnd:
		ok = whole
	case upstreamCut, upstreamSays, upstreamIdle: // an error event and a clean close
		ok = broken
	case panicking:
		ok = err != nil && !strings.Contains(last, st.d.last)
	case clientEarly:
		ok = err == nil || errors.Is(err, context.Canceled)
	case drained:
		refused := status == http.StatusServiceUnavailable && strings.Contains(text, "shutting down")
		ok = whole || refused || broken && strings.Contains(last, "shutting down")
	}
	if !ok {
		st.T.Errorf("%s, way %d: status %d, %v, ends %q", v.model(), way, status, err, last)
	}
	if v.usage == mock.UsageChunk && !v.asks && strings.Contains(text, `"usage":{`) {
		st.T.Errorf("%s shows a client the usage that it did not ask for", v.model())
	}
	if v.usage == mock.UsageChunk && v.asks && whole && !strings.Contains(text, `"usage":{`) {
		st.T.Errorf("%s withholds the usage that a client asked for", v.model())
	}
}

// panicBody is a body whose reader panics after some reads.
type panicBody struct {
	io.ReadCloser
	left int
}

func (b *panicBody) Read(p []byte) (int, error) {
	b.left--
	if b.left < 0 {
		panic("a bug in the handler")
	}
	return b.ReadCloser.Read(p)
}

// panicOn makes answers to calls that ask for it in a header panic.
func panicOn(next http.RoundTripper) http.RoundTripper {
	return harness.RoundTripperFunc(func(r *http.Request) (*http.Response, error) {
		resp, err := next.RoundTrip(r)
		if err == nil && r.Header.Get("X-Title") == "panic" {
			resp.Body = &panicBody{resp.Body, 20}
		}
		return resp, err
	})
}

// TestInterrupted: calls that the governor ends early tell so in their callers' words,
// whether their answers have begun or not; what was produced is charged, their leases end,
// and the upstream is not blamed.
func TestInterrupted(t *testing.T) {
	for _, d := range dialects {
		testkit.Virtual(t, d.name, func(t *testing.T) {
			st := newStorm(t, d, 1)
			st.calibrate()
			whole := 0
			cut := 0
			refused := 0
			var mu sync.Mutex
			var all sync.WaitGroup
			rng := rand.New(rand.NewPCG(4, 1))
			for i := range 90 { // of which 30 wait
				at := time.Duration(rng.Int64N(int64(5800 * time.Millisecond)))
				all.Go(func() {
					time.Sleep(at)
					how, text := st.untilCut(d.body(d.variants[i%len(d.variants)], toTheEnd, 0))
					mu.Lock()
					defer mu.Unlock()
					switch how {
					case "whole":
						whole++
					case "cut":
						cut++
					case "refused":
						refused++
					default:
						t.Errorf("it ends by %s", text)
					}
					if strings.Contains(text, "operator") {
						t.Errorf("its caller is told why: %s", text)
					}
				})
			}
			time.Sleep(5900 * time.Millisecond)
			asked := st.Governor.Interrupt("p", harness.ErrOperator)
			all.Wait()
			t.Logf("%d were asked to end; %d were cut, %d refused, and %d came to their end", asked, cut, refused, whole)
			if cut == 0 || refused == 0 || whole < 30 || cut+refused != asked {
				t.Errorf("%d were asked to end; %d were cut, %d refused, and %d came to their end", asked, cut, refused, whole)
			}
			if n := st.Sum("llmgov_requests_total", map[string]string{"outcome": "failed", "reason": "store_unavailable"}); n != int64(asked) {
				t.Errorf("%d of %d are counted", n, asked)
			}
			if n := st.Mock.Stats().Cancelled; n != int64(asked) {
				t.Errorf("the upstream sees %d of %d go", n, asked)
			}
			if n := st.Sum("llmgov_upstream_errors_total", nil); n != 0 {
				t.Errorf("the upstream is blamed for %d", n)
			}
			checkCharged(st.Stack, "afterwards")
			st.CheckIdle()
			if n := st.Governor.Interrupt("p", harness.ErrOperator); n != 0 {
				t.Errorf("%d run on", n)
			}
			plain := strings.Replace(d.body(d.variants[0], toTheEnd, 0), `"stream":true`, `"stream":false`, 1)
			time.AfterFunc(time.Second, func() { st.Governor.Interrupt("p", harness.ErrOperator) })
			if how, text := st.untilCut(plain); how != "refused" {
				t.Errorf("a plain call ends by %s", text)
			}
			st.CallTo(t.Context(), d.path, "a", d.body(d.variants[0], toTheEnd, 0)).WantOK(t, "the next call")
		})
	}
}

// untilCut is a call, and how it ended.
func (st *storm) untilCut(body string) (how, text string) {
	resp, err := st.PostTo(st.T.Context(), st.d.path, "a", body)
	if err != nil {
		return "", err.Error()
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	text = string(all)
	last := strings.TrimRight(text, "\n")
	last = last[strings.LastIndex(last, "\n\n")+1:]
	told := strings.Contains(last, "had to end the call early")
	switch {
	case err != nil:
		return "", err.Error()
	case resp.StatusCode == http.StatusServiceUnavailable && told:
		return "refused", text
	case resp.StatusCode == http.StatusOK && told && strings.Contains(last, `"error"`) && !strings.Contains(text, st.d.last):
		return "cut", text
	case resp.StatusCode == http.StatusOK && !told:
		return "whole", text
	}
	return "", fmt.Sprint(resp.StatusCode, ": ", text)
}

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
		Pool: harness.Pool(0, 0, 60), Tenants: withTeachers(a, b),
		StreamIdle: 5 * time.Second, Wrap: panicOn, HTTPVersion: version,
	})}
}

// calibrate teaches what a prompt and a delta are. All bodies of a variant weigh the
// same, so that one answer which tells does it exactly, and those too that tell nothing. What breaks off teaches as much as three
// others have learned.
func (st *storm) calibrate() {
	for _, v := range st.d.variants {
		tells := v
		tells.usage = strings.Replace(v.usage, mock.UsageAbsent, mock.UsageFinish, 1)
		for _, tenant := range append([]string{"a", "b"}, teachers...) {
			st.CallTo(st.T.Context(), st.d.path, tenant, st.d.bodyOf(v.model(), tells, toTheEnd, 0)).WantOK(st.T)
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
