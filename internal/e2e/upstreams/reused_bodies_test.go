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
	"time"

	"github.com/tidwall/gjson"

	"github.com/llmgov/llmgov/internal/e2e/harness"
	"github.com/llmgov/llmgov/internal/e2e/harness/sockets"
	"github.com/llmgov/llmgov/internal/mock"
	"github.com/llmgov/llmgov/internal/objects"
	"github.com/llmgov/llmgov/internal/testkit"
	"github.com/llmgov/llmgov/tenants"
)

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
