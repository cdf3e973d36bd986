package e2e

import (
	"context"
	"errors"
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

	"github.com/llmgov/llmgov/internal/mock"
	"github.com/llmgov/llmgov/tenants"
)

// The ways a stream can end.
const (
	toTheEnd     = iota // the last chunk
	clientGone          // after a random number of bytes
	clientEarly         // after a random time, perhaps before the first byte
	upstreamCut         // the model server hangs up
	upstreamSays        // an error event
	upstreamIdle        // silence
	panicking           // a handler panics while it copies
	numEndings
)

// panicBody is a body whose reader panics after some reads.
type panicBody struct {
	io.ReadCloser
	left int
}

func (b *panicBody) Read(p []byte) (int, error) {
	if b.left--; b.left < 0 {
		panic("a bug in the handler")
	}
	return b.ReadCloser.Read(p)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// panicOn makes answers to calls that ask for it in a header panic.
func panicOn(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		resp, err := next.RoundTrip(r)
		if err == nil && r.Header.Get("X-Title") == "panic" {
			resp.Body = &panicBody{resp.Body, 20}
		}
		return resp, err
	})
}

// Two thousand streams that end every way there is, the last hundred by a
// drain. Afterwards no lease and no slot is taken, no goroutine is left (or the
// bubble fails), and what was charged is what the model server produced until
// it saw the cancel.
func TestStreamsEndEveryWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := tenant("a", 2), tenant("b", 1)
		a.MaxWait, b.MaxWait, b.Concurrency = time.Hour, time.Hour, 20
		w := world{
			mock: mock.Config{FirstToken: 300 * time.Millisecond, TokensPerSecond: 50},
			pool: pool(0, 0, 60), tenants: []tenants.Tenant{a, b},
			idle: 5 * time.Second, wrap: panicOn,
		}
		s := newStack(t, w)
		defer s.close()
		// All bodies weigh the same, so that one answer calibrates the estimate of
		// every prompt exactly.
		if a := s.call(t.Context(), "a", stormBody(toTheEnd, 0)); a.status != http.StatusOK {
			t.Fatalf("status %d: %s", a.status, a.body)
		}

		var ended [numEndings]atomic.Int64
		var next atomic.Int64
		var wg sync.WaitGroup
		for range 300 { // the race detector knows 8128 goroutines, and a call has half a dozen
			wg.Go(func() {
				for i := next.Add(1); i <= 1900; i = next.Add(1) {
					rng := rand.New(rand.NewPCG(uint64(i), 4))
					way := int(i % numEndings)
					s.stormStream(rng, way)
					ended[way].Add(1)
				}
			})
		}
		wg.Wait()
		s.checkIdle()
		s.checkCharged("before the drain")

		// A drain: some streams wait, some run.
		var refused, whole atomic.Int64
		for range 100 {
			wg.Go(func() {
				a := s.call(t.Context(), "b", stormBody(toTheEnd, 0))
				switch {
				case a.status == http.StatusServiceUnavailable && errorCode(a.body) == "draining":
					refused.Add(1)
				case a.status == http.StatusOK && strings.HasSuffix(a.body, "data: [DONE]\n\n"):
					whole.Add(1)
				default:
					t.Errorf("status %d, %v: %.200s", a.status, a.err, a.body)
				}
			})
		}
		time.Sleep(3 * time.Second)
		s.gov.Drain()
		if err := s.server.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		wg.Wait()
		if whole.Load() != 20 || refused.Load() != 80 {
			t.Errorf("%d streams went on to their end and %d were refused, want 20 and 80", whole.Load(), refused.Load())
		}
		s.checkIdle()
		s.checkCharged("after the drain")
		st := s.mock.Stats()
		t.Logf("ends: %d whole, %d+%d client gone, %d cut, %d error events, %d idle, %d panics; model server: %+v",
			ended[0].Load(), ended[1].Load(), ended[2].Load(), ended[3].Load(), ended[4].Load(), ended[5].Load(), ended[6].Load(), st)
		if st.Cancelled == 0 || st.Hangups == 0 || st.Completed == 0 {
			t.Errorf("the storm was none: %+v", st)
		}
	})
}

// faults are the model server's hooks by way of ending.
var faults = map[int]string{upstreamCut: "hangup_after", upstreamSays: "error_after", upstreamIdle: "stall_after"}

// stormBody is a request for 250 tokens which ends in its way after so many.
// All of them weigh the same: they name every fault, the model server heeds the
// last one, and one beyond the answer's end does not happen.
func stormBody(way, after int) string {
	hooks := ""
	for _, w := range []int{upstreamCut, upstreamSays, upstreamIdle} {
		if w != way {
			hooks += fmt.Sprintf(`,"%s":900`, faults[w])
		}
	}
	if faults[way] != "" {
		hooks += fmt.Sprintf(`,"%s":%03d`, faults[way], after)
	}
	return chat(true, 300, `,"mock":{"output_tokens":250`+hooks+`}`)
}

func (s *stack) stormStream(rng *rand.Rand, way int) {
	body := stormBody(way, 100+rng.IntN(150))
	ctx, cancel := context.WithCancel(s.t.Context())
	defer cancel()
	if way == clientEarly {
		defer time.AfterFunc(time.Duration(rng.Int64N(int64(20*time.Second))), cancel).Stop()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://gateway/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		s.t.Error(err)
		return
	}
	req.Header.Set("Authorization", "Bearer "+[]string{"a", "b"}[rng.IntN(2)])
	if way == panicking {
		req.Header.Set("X-Title", "panic")
	}
	resp, err := s.client.Do(req)
	if err != nil {
		if way != clientEarly {
			s.t.Errorf("way %d: %v", way, err)
		}
		return
	}
	defer resp.Body.Close()
	if way == clientGone {
		_, _ = io.CopyN(io.Discard, resp.Body, rng.Int64N(40_000))
		return
	}
	text, err := io.ReadAll(resp.Body)
	checkEnd(s.t, way, string(text), err)
}

// checkEnd looks at what the client saw of an end.
func checkEnd(t *testing.T, way int, text string, err error) {
	t.Helper()
	done := strings.HasSuffix(text, "data: [DONE]\n\n")
	last := text[strings.LastIndex(strings.TrimRight(text, "\n"), "\n\n")+1:]
	switch way {
	case toTheEnd:
		if err != nil || !done {
			t.Errorf("a whole stream: %v, ends %q", err, last)
		}
	case upstreamCut, upstreamSays, upstreamIdle:
		if err != nil || done || !strings.Contains(last, `"error"`) {
			t.Errorf("a broken stream (way %d): %v, ends %q; want an error event and a clean close", way, err, last)
		}
	case panicking:
		if err == nil || done {
			t.Errorf("a panic looks like an answer: %v, ends %q", err, last)
		}
	case clientEarly:
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("a client that went: %v", err)
		}
	}
}

// checkCharged compares what was charged with what was produced.
func (s *stack) checkCharged(when string) {
	s.t.Helper()
	synctest.Wait()
	st := s.mock.Stats()
	in, out := s.charged("", "input"), s.charged("", "output")
	s.t.Logf("%s: charged %d input and %d output tokens, produced %d and %d", when, in, out, st.PromptTokens, st.OutputTokens)
	if in != st.PromptTokens || out != st.OutputTokens {
		s.t.Errorf("%s: charged %d + %d tokens, the model server produced %d + %d", when, in, out, st.PromptTokens, st.OutputTokens)
	}
}
