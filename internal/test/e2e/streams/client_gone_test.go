package streams

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/governor/tokens"
	"github.com/llmgov/llmgov/internal/lab/mock"
	"github.com/llmgov/llmgov/internal/test/e2e/harness"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/tenants"
)

// taught is a stack that has learned by one stream what a call of a dialect weighs, with
// hooks like these, and has counted nothing.
func taught(t *testing.T, d dialect, m mock.Config, hooks string) *harness.Stack {
	s := harness.New(t, harness.World{Mock: m, Pool: harness.Pool(0, 0, 2), Tenants: withTeachers(harness.Tenant("a", 1))})
	for _, teacher := range teachers {
		s.CallTo(t.Context(), d.path, teacher, d.call(true, 100, hooks)).WantOK(t)
	}
	s.Mock.ResetStats()
	return s
}

// took is what tenant a was charged; it must be what was produced.
func took(s *harness.Stack, what string) (in, out int64) {
	s.T.Helper()
	synctest.Wait()
	in = s.Charged("a", "input")
	out = s.Charged("a", "output")
	if st := s.Mock.Stats(); in != st.PromptTokens || out != st.OutputTokens {
		s.T.Errorf("%s: charged %d + %d, produced %d + %d", what, in, out, st.PromptTokens, st.OutputTokens)
	}
	return in, out
}

// When the client goes the upstream stops at once, and produces not one token more: streamed or not, in the midst of an answer, or while it
// thinks, when there is nothing to write that could fail.
func TestP24_UpstreamStopsWhenTheClientGoes(t *testing.T) {
	for _, d := range dialects {
		for _, stream := range []bool{false, true} {
			for hooks, c := range map[string]struct {
				leaves time.Duration
				made   int64
			}{"": {3050 * time.Millisecond, 31}, `,"first_token_ms":60000`: {time.Second, 0}} {
				synctest.Test(t, func(t *testing.T) {
					s := taught(t, d, mock.Config{TokensPerSecond: 10}, "")
					leaveAfter(s, c.leaves, d.path, d.call(stream, 250, hooks))
					at := s.Mock.Stats()
					if at.Running != 0 || at.Cancelled != 1 || at.OutputTokens != c.made {
						t.Errorf("%s, stream %v, %s: when the client has gone: %+v", d.name, stream, hooks, at)
					}
					time.Sleep(time.Minute)
					if then := s.Mock.Stats(); then.OutputTokens != at.OutputTokens {
						t.Errorf("%s, stream %v, %s: %d tokens were produced for nobody", d.name, stream, hooks, then.OutputTokens-at.OutputTokens)
					}
				})
			}
		}
	}
}

// Nothing is charged for what never reached the upstream, or what that refused; of what
// broke off the part that came, in the upstream's tokens.
func TestP27_NothingIsChargedThatWasNotProduced(t *testing.T) {
	for _, d := range dialects {
		synctest.Test(t, func(t *testing.T) {
			s := taught(t, d, mock.Config{TokensPerSecond: 10}, `,"other_after":7`)
			s.CallTo(t.Context(), d.path, "a", d.call(true, 250, `,"error_status":500`))
			if in, out := took(s, d.name); in+out != 0 {
				t.Errorf("%s: an error costs %d + %d", d.name, in, out)
			}
			var wg sync.WaitGroup
			for range 2 { // of the two slots
				wg.Go(func() { s.CallTo(t.Context(), d.path, teachers[0], d.call(true, 100, `,"other_after":7`)) })
			}
			synctest.Wait()
			leaveAfter(s, time.Second, d.path, d.call(true, 250, "")) // refused, or gone from the line
			wg.Wait()
			s.Mock.ResetStats()
			if in, out := took(s, d.name); in+out != 0 {
				t.Errorf("%s: a call that never left costs %d + %d", d.name, in, out)
			}
			s.CallTo(t.Context(), d.path, "a", d.call(true, 250, `,"error_after":7`))
			if in, out := took(s, d.name); in == 0 || out != 7 {
				t.Errorf("%s: a prompt and seven tokens cost %d + %d", d.name, in, out)
			}
		})
	}
}

// Where the upstream tells no usage a stream costs what came of it, and a plain answer
// what such an answer usually takes; never nothing, and never what it might have taken.
func TestP28_AnswersWithoutUsageAreCharged(t *testing.T) {
	for _, d := range dialects {
		for _, stream := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				s := taught(t, d, mock.Config{TokensPerSecond: 10}, `,"usage":"finish"`)
				if a := s.CallTo(t.Context(), d.path, "a", d.call(stream, 180, `,"usage":"absent"`)); a.Status != http.StatusOK || strings.Contains(a.Body, `"usage":{`) {
					t.Fatalf("%d %s", a.Status, a.Body)
				}
				synctest.Wait()
				in := s.Charged("a", "input")
				out := s.Charged("a", "output")
				made := s.Mock.Stats()
				// The prompts of streams teach the plain ones' to within the length of "true".
				if in < made.PromptTokens || in > made.PromptTokens+1 || out < 179 || out > 182 || stream && out != 180 {
					t.Errorf("%s, stream %v: charged %d + %d of %+v", d.name, stream, in, out, made)
				}
			})
		}
	}
}

// An answer of which nothing is known before, and whose usage cannot be read, is charged what its text amounts to, and not its bound. It is
// counted and named.
func TestAnswersOfUnknownUsage(t *testing.T) {
	text := strings.Repeat("word ", 80) // 100 tokens
	for name, c := range map[string]struct {
		kind, body string
		stream     bool
		most       int64
		unread     int64
	}{
		"no usage":          {"application/json", `{"choices":[{"message":{"role":"assistant","content":"` + text + `"}}]}`, false, 110, 1},
		"usage null":        {"application/json", `{"choices":[{"message":{"content":"` + text + `"}}],"usage":null}`, false, 110, 1},
		"usage in words":    {"application/json", `{"choices":[{"message":{"content":"` + text + `"}}],"usage":{"prompt_tokens":"many"}}`, false, 110, 1},
		"a short answer":    {"application/json", `{"content":[{"type":"text","text":"no"}]}`, false, 5, 1},
		"events of others":  {"text/event-stream", "data: {\"answer\":\"" + text + "\"}\n\ndata: [DONE]\n\n", true, 110, 1},
		"events of no JSON": {"text/event-stream", "data: " + text + "\n\ndata: [DONE]\n\n", true, 110, 1},
		"odd numbers":       {"application/json", `{"choices":[],"usage":{"prompt_tokens":"12","completion_tokens":7.0}}`, false, 7, 0},
		"usage in a wrap":   {"application/json", `{"result":{"usage":{"prompt_tokens":12,"completion_tokens":7}},"success":true}`, false, 7, 0},
		"usage in an event": {"text/event-stream", "data: {\"result\":{\"usage\":{\"prompt_tokens\":12,\"completion_tokens\":7}}}\n\ndata: [DONE]\n\n", true, 7, 0},
	} {
		testkit.Virtual(t, name, func(t *testing.T) {
			var log bytes.Buffer
			s := harness.New(t, harness.World{
				Pool: harness.Pool(1_000_000, 0, 0), Tenants: []tenants.Tenant{harness.Tenant("a", 1)},
				Wrap: saying(c.kind, c.body), Log: slog.NewJSONHandler(&log, nil),
			})
			s.Call(t.Context(), "a", harness.Chat(c.stream, 4000, "")).WantOK(t)
			synctest.Wait()
			if out := s.Charged("a", "output"); out < 1 || out > c.most {
				t.Errorf("%d output tokens are charged, want at most %d", out, c.most)
			}
			if n := s.Sum("llmgov_usage_unread_total", nil); n != c.unread || strings.Contains(log.String(), `"usage":"unread"`) != (n > 0) {
				t.Errorf("%d answers count as unread; the log says %s", n, &log)
			}
		})
	}
}

// saying is an upstream that answers every call with the same.
func saying(kind, body string) func(http.RoundTripper) http.RoundTripper {
	return func(http.RoundTripper) http.RoundTripper {
		return harness.RoundTripperFunc(func(r *http.Request) (*http.Response, error) {
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				return nil, err
			}
			return &http.Response{
				StatusCode: http.StatusOK, ProtoMajor: 1, ProtoMinor: 1, Request: r, ContentLength: -1,
				Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(strings.NewReader(body)),
			}, nil
		})
	}
}

// What the upstream reports is what is charged, whatever was counted beside it, zero
// too. Only zeros beside the text of a stream are no report: so write servers that do
// not know yet.
func TestP26_ReportedUsageIsNotReplaced(t *testing.T) {
	const text = `data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}` + "\n\n"
	usage := func(in, out int) string {
		return fmt.Sprintf(`"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}`, in, out, in+out)
	}
	for _, tt := range []struct{ kind, body, want string }{
		{"application/json", `{"choices":[{"message":{"content":"cached"}}],` + usage(0, 0) + `}`, "200 0 0 0"},
		{"application/json", `{"choices":[{"message":{"content":"many words"}}],` + usage(7, 1) + `}`, "200 7 1 8"},
		{"text/event-stream", strings.Repeat(text, 9) + `data: {"choices":[],` + usage(7, 3) + "}\n\ndata: [DONE]\n\n", "200 7 3 10"},
		{"text/event-stream", `data: {"choices":[],` + usage(0, 0) + "}\n\ndata: [DONE]\n\n", "200 0 0 0"},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := harness.New(t, harness.World{Pool: harness.Pool(1e9, 0, 0), Tenants: []tenants.Tenant{harness.Tenant("a", 1)}, Wrap: saying(tt.kind, tt.body)})
			a := s.Call(t.Context(), "a", harness.Chat(tt.kind != "application/json", 100, ""))
			synctest.Wait()
			if got := fmt.Sprint(a.Status, s.Charged("a", "input"), s.Charged("a", "output"), s.Governor.State().Pools[0].Axes[0].Used); got != tt.want {
				t.Errorf("%s: status, input, output, and what the pool counts: %s, want %s", tt.body, got, tt.want)
			}
		})
	}
}

// dense is a PromptCounter to which a text has three tokens in four bytes.
type dense struct{}

func (dense) Count(string, []byte, time.Duration) (int64, bool) { return 0, false }
func (dense) AtLeast(string, []byte) int64                      { return 0 }
func (dense) Excerpt(_ string, x tokens.Excerpt) (int64, bool) {
	return int64(len(x.Said())) * 3 / 4, true
}

// A client that stays and reads nothing chooses to hear no usage, like one that goes: it is charged by what its prompt says.
//
// Seen to fail with: a request that goes on when nothing can be written.
func TestClientsThatReadNothingAreChargedByTheirPrompts(t *testing.T) {
	for _, goes := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := harness.New(t, harness.World{Mock: mock.Config{TokensPerSecond: 10}, Pool: harness.Pool(0, 0, 2), Prompts: dense{}, Tenants: []tenants.Tenant{harness.Tenant("a", 1)}})
			body := `{"model":"m","stream":true,"max_tokens":250,"messages":[{"role":"user","content":"` + strings.Repeat("zqxjkvwq", 1250) + `"}]}`
			resp := testkit.Must(s.PostTo(t.Context(), "/chat/completions", "a", body))(t)
			time.Sleep(10 * time.Second)
			if goes {
				testkit.OK(t, resp.Body.Close())
			}
			time.Sleep(5 * time.Minute)
			if in := s.Charged("a", "input"); in < 6500 { // its excerpt may begin with 75 bytes that are no prompt
				t.Errorf("goes %v: its prompt of 7,500 tokens is charged %d", goes, in)
			}
			_ = resp.Body.Close()
			synctest.Wait()
		})
	}
}
