package upstreams

import (
	"context"
	"fmt"
	"io"
	"math/rand"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/internal/lab/mock"
	"github.com/llmgov/llmgov/internal/proxy/objects"
	"github.com/llmgov/llmgov/internal/test/e2e/harness"
	"github.com/llmgov/llmgov/internal/test/e2e/harness/sockets"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/tenants"
	"github.com/tidwall/gjson"
)

// hangsUp is an upstream that closes a connection without an answer when a call comes on it for which
// that is due, by how many came on it before; and after a while.
func hangsUp(next http.Handler, due func(before int64) bool, after time.Duration) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		l := r.Context().Value(harness.UpstreamConnKey{}).(*harness.UpstreamConn)
		if due(l.Calls.Add(1) - 1) {
			_, _ = io.Copy(io.Discard, r.Body)
			time.Sleep(after)
			_ = l.Close()
			return
		}
		next.ServeHTTP(w, r)
	}
}

// A server that closes a connection which has been idle for a while, just when the next call
// comes on it, costs nobody that call, and is not taken for one that fails. One that closes
// each connection is.
func TestUpstreams_KeptConnectionIsClosed(t *testing.T) {
	kept := func(before int64) bool { return before > 0 }
	always := func(int64) bool { return true }
	never := func(int64) bool { return false }
	for _, version := range []int{1, 2} {
		for _, c := range []struct {
			name, path, body string
			due              func(before int64) bool
			after            time.Duration
			status           int
			arrive           int64 // of the second call, at the upstream
			tries            map[string]int64
		}{
			{"it is sent once more", "/chat/completions", harness.Chat(false, 5, ""), kept, 0, 200, 2, map[string]int64{"served": 2, "stale": 1}},
			{"so is a stream", "/chat/completions", harness.Chat(true, 5, ""), kept, 0, 200, 2, map[string]int64{"served": 2, "stale": 1}},
			{"but once", "/chat/completions", harness.Chat(false, 5, ""), always, 0, 502, 2, map[string]int64{"served": 1, "stale": 1, "silent": 1}},
			{"and not what the upstream had for a while", "/chat/completions", harness.Chat(false, 5, ""), kept, 2 * time.Second, 502, 1, map[string]int64{"served": 1, "silent": 1}},
			{"and not what would be there twice", "/responses", `{"model":"m","input":"Hi","store":true}`, kept, 0, 502, 1, map[string]int64{"served": 1, "silent": 1}},
		} {
			testkit.Virtual(t, fmt.Sprintf("HTTP/%d/%s", version, c.name), func(t *testing.T) {
				up := harness.NewUpstream(t, mock.Config{})
				up.AnswerWith(hangsUp(up.Mock, never, 0))
				s := harness.New(t, harness.World{
					Pool: harness.PoolAt("up"), Tenants: []tenants.Tenant{harness.Tenant("a", 1)}, HTTPVersion: version,
					Upstreams: map[string]http.Handler{"up": up},
				})
				s.Call(t.Context(), "a", harness.Chat(false, 5, "")).WantOK(t)
				synctest.Wait() // the connection is kept
				up.AnswerWith(hangsUp(up.Mock, c.due, c.after))
				before := up.Calls.Load()
				if ans := s.CallTo(t.Context(), c.path, "a", c.body); ans.Status != c.status {
					t.Errorf("%d %s, want %d", ans.Status, ans.Body, c.status)
				}
				if n := up.Calls.Load() - before; n != c.arrive {
					t.Errorf("the upstream got the call %d times, want %d", n, c.arrive)
				}
				for _, outcome := range []string{"served", "busy", "failed", "silent", "stale", "abandoned"} {
					if n := s.Sum("llmgov_upstream_tries_total", map[string]string{"outcome": outcome}); n != c.tries[outcome] {
						t.Errorf("%d tries are %s, want %d", n, outcome, c.tries[outcome])
					}
				}
			})
		}
	}
}

// A stream that is reset is a failure, though others came before it on its connection, which goes on.
func TestUpstreams_ResetStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := harness.NewUpstream(t, mock.Config{})
		s := harness.New(t, harness.World{Pool: harness.PoolAt("up"), Tenants: []tenants.Tenant{harness.Tenant("a", 1)}, HTTPVersion: 2, Upstreams: map[string]http.Handler{"up": up}})
		s.Call(t.Context(), "a", harness.Chat(false, 5, ""))
		up.AnswerWith(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
		if ans := s.Call(t.Context(), "a", harness.Chat(false, 5, "")); ans.Status != http.StatusBadGateway || up.Calls.Load() != 2 {
			t.Errorf("%d %s after %d calls upstream", ans.Status, ans.Body, up.Calls.Load())
		}
		if n := s.Sum("llmgov_upstream_tries_total", map[string]string{"outcome": "silent"}); n != 1 {
			t.Errorf("%d tries are silent, want 1", n)
		}
	})
}

// A call at a time to a server that closes what is idle for as long as they are apart: every try
// on a kept connection is lost, and no call.
func TestUpstreams_KeptConnectionIsClosedEachTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := harness.NewUpstream(t, mock.Config{})
		up.AnswerWith(hangsUp(up.Mock, func(before int64) bool { return before > 0 }, 0))
		s := harness.New(t, harness.World{Pool: harness.PoolAt("up"), Tenants: []tenants.Tenant{harness.Tenant("a", 1)}, Upstreams: map[string]http.Handler{"up": up}})
		for i := range 50 {
			s.Call(t.Context(), "a", harness.Chat(i%2 == 0, 5, "")).WantOK(t, "call", i)
			synctest.Wait()
		}
		if v := snapshot(s).Pools[0].Upstreams[0]; v.State != "up" {
			t.Errorf("the upstream is %s", v.State)
		}
	})
}

// Several kept connections are lost at the same time, as those of calls whose streams have ended together: a call
// that had one of them is not sent once more on another.
func TestUpstreams_KeptConnectionsAreClosedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := harness.NewUpstream(t, mock.Config{FirstToken: time.Second})
		up.AnswerWith(hangsUp(up.Mock, func(before int64) bool { return before > 0 }, 0))
		s := harness.New(t, harness.World{Pool: harness.PoolAt("up"), Tenants: []tenants.Tenant{harness.Tenant("a", 1)}, Upstreams: map[string]http.Handler{"up": up}})
		var together sync.WaitGroup
		for range 5 {
			together.Go(func() { s.Call(t.Context(), "a", harness.Chat(true, 5, "")) })
		}
		together.Wait()
		synctest.Wait() // five connections are kept
		s.Call(t.Context(), "a", harness.Chat(true, 5, "")).WantOK(t)
	})
}

// mixed counts the bodies that came, and those that were not of one caller alone: each caller's prompts
// have one word, over and over.
type mixed struct {
	came, wrong atomic.Int64
	calls       atomic.Int64
	leave       sync.Map // from the id of a call to the function by which its caller goes away
}

// ServeHTTP is an upstream that at times answers before it has read a body, or breaks off.
func (m *mixed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if leave, ok := m.leave.LoadAndDelete(r.Header.Get("X-Client-Request-Id")); ok {
		leave.(context.CancelFunc)()
	}
	switch m.calls.Add(1) % 5 {
	case 0:
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	case 1:
		_, _ = io.CopyN(io.Discard, r.Body, 20_000)
		panic(http.ErrAbortHandler)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil { // its caller went away
		return
	}
	m.came.Add(1)
	content := gjson.GetBytes(body, "messages.0.content").Str
	word, _, _ := strings.Cut(content, " ")
	if !gjson.ValidBytes(body) || word == "" || strings.Trim(strings.ReplaceAll(content, word+" ", ""), " ") != "" || gjson.GetBytes(body, "user").Str != word {
		m.wrong.Add(1)
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, shortAnswer)
}

// The memory of bodies is used again, also while transports may still read it for calls that are over:
// callers go away in the middle, and upstreams answer early and break off. No upstream gets a byte of
// another caller's prompt.
func TestBodiesInReusedMemoryAreNotMixed(t *testing.T) {
	m := &mixed{}
	s := manyBodies(t, m)
	testkit.AtOnce(8, func(caller int) {
		r := rand.New(rand.NewSource(int64(caller)))
		for i := range 12 {
			word := fmt.Sprintf("caller%dcall%d", caller, i)
			ctx, cancel := context.WithCancel(t.Context())
			if r.Intn(3) == 0 {
				m.leave.Store(word, cancel)
			}
			sendWords(ctx, s, word, 20_000+r.Intn(100_000))
			cancel()
		}
	})
	if m.came.Load() == 0 || m.wrong.Load() > 0 {
		t.Errorf("of %d bodies %d are not of one caller alone", m.came.Load(), m.wrong.Load())
	}
}

// manyBodies is a stack before an upstream, with limits that no body reaches.
func manyBodies(t *testing.T, upstream http.Handler) *sockets.Stack {
	t.Helper()
	return sockets.New(t, sockets.World{
		BaseURL: sockets.Serve(t, upstream).URL + "/v1",
		Pool:    sockets.Pool(func(p *tenants.Pool) { p.TPM = 1e12 }),
		Tenants: []tenants.Tenant{sockets.Tenant("acme", func(t *tenants.Tenant) {
			t.TPM = 1e12
			t.RPM = 0
			t.MaxOutputTokens = 50 // so that bodies are edited in their memory
		})},
	})
}

// sendWords sends a prompt that has one word over and over, and reads what is answered, if anything is.
func sendWords(ctx context.Context, s *sockets.Stack, word string, size int) {
	prompt := strings.Repeat(word+" ", size/len(word))
	body := `{"model":"gpt-4o","messages":[{"role":"user","content":"` + prompt + `"}],"user":"` + word + `"}`
	r := s.Request(http.MethodPost, "/v1/chat/completions", body, "X-Client-Request-Id", word).WithContext(ctx)
	resp, err := s.Client.Do(r)
	if err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
}

const shortAnswer = `{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`

// An upstream that reads nothing of a long prompt does not begin its answer either: the call goes to another upstream in time.
func TestUpstreams_PromptIsNotRead(t *testing.T) {
	for _, version := range []int{1, 2} {
		testkit.Virtual(t, fmt.Sprintf("HTTP/%d", version), func(t *testing.T) {
			stands := harness.NewUpstream(t, mock.Config{})
			left := make(chan struct{})
			stands.AnswerWith(func(http.ResponseWriter, *http.Request) { <-left })
			p := harness.PoolOf(1)
			p.Upstreams = []tenants.PoolUpstream{{Name: "mock", Weight: 1, Order: 1}, {Name: "up1", Weight: 1}}
			s := harness.New(t, harness.World{
				Pool: p, Tenants: []tenants.Tenant{harness.Tenant("a", 1)}, HTTPVersion: version,
				Upstreams: map[string]http.Handler{"up1": stands},
				Tune:      func(c *tenants.Config) { c.Timeouts.UpstreamAnswer = time.Minute },
			})
			defer time.Sleep(time.Second) // in which servers let go of connections with unread bytes
			defer close(left)
			began := time.Now()
			ans := s.Call(t.Context(), "a", harness.Chat(false, 5, `,"user":"`+strings.Repeat("x", 4<<20)+`"`))
			took := time.Since(began)
			if ans.Status != http.StatusOK || took < time.Minute || took > 90*time.Second {
				t.Errorf("%d after %v: %s", ans.Status, took, ans.Body)
			}
			if n := s.Sum("llmgov_upstream_errors_total", map[string]string{"class": "timeout"}); n != 1 {
				t.Errorf("%d failures are counted as late", n)
			}
		})
	}
}

// However much an answer shows, little of it is held and remembered, and all of it is metered and passed
// on.
func TestAudit_L12_LargeAnswers(t *testing.T) {
	var items strings.Builder
	for i := range 20_000 {
		items.WriteString(`{"id":"item_` + strconv.Itoa(i) + `"},`)
	}
	many := `{"id":"resp_1","output":[` + items.String() + `{}],"usage":{"input_tokens":7,"output_tokens":500,"total_tokens":507}}`
	large := strings.Replace(many, `{"id"`, `{"padding":"`+strings.Repeat("x", 17<<20)+`","id"`, 1)
	for name, tt := range map[string]struct {
		answer   string
		recorded bool
	}{"many": {many, true}, "large": {large, false}} {
		store := sockets.OpenObjects(t, "")
		s := sockets.New(t, sockets.World{Objects: store, Upstream: http.HandlerFunc(evil(200, tt.answer, "Content-Type", "application/json"))})
		reply := s.Post("/v1/responses", `{"model":"gpt-4o","input":"x"}`)
		if reply.Err != nil || reply.Body != tt.answer {
			t.Errorf("%s: %d bytes of %d arrive, %v", name, len(reply.Body), len(tt.answer), reply.Err)
		}
		s.WaitIdle()
		if took := s.Charged("output"); took != 500 {
			t.Errorf("%s: %d tokens are charged", name, took)
		}
		known := func(id string) bool {
			_, ok := store.Owner(objects.Key{Upstream: "up", ID: id})
			return ok
		}
		if known("resp_1") != tt.recorded || known("item_998") != tt.recorded || known("item_1000") || known("item_19999") {
			t.Errorf("%s: recorded are the response %v and the items 998, 1000, 19999 %v %v %v",
				name, known("resp_1"), known("item_998"), known("item_1000"), known("item_19999"))
		}
	}
}
