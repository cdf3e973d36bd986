package sdk

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	goopenai "github.com/sashabaranov/go-openai"

	"github.com/llmgov/llmgov/internal/test/e2e/harness/sockets"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/tenants"
)

// caller makes chat calls by an SDK. Its stream calls each after every chunk, with how many have come.
type caller struct {
	plain  func(ctx context.Context, model string) error
	stream func(ctx context.Context, model string, each func(n int)) error
	told   func(t *testing.T, err error) told
}

// told is what an SDK's error tells of a refusal.
type told struct {
	status        int
	code          any
	kind, message string
}

// opener opens an SDK with a key. Some try calls again, if they may.
type opener func(s *sockets.Stack, tr *sockets.Transport, key string, retries int) caller

// sdks are OpenAI's own SDK and go-openai.
var sdks = map[string]opener{
	"openai-go": func(s *sockets.Stack, tr *sockets.Transport, key string, retries int) caller {
		c := openAIGo(s, tr, "/v1", option.WithAPIKey(key), option.WithMaxRetries(retries))
		chat := func(model string) openai.ChatCompletionNewParams {
			return aiChat(func(p *openai.ChatCompletionNewParams) { p.Model = model })
		}
		return caller{
			func(ctx context.Context, model string) error {
				_, err := c.Chat.Completions.New(ctx, chat(model))
				return err
			},
			func(ctx context.Context, model string, each func(int)) error {
				stream := c.Chat.Completions.NewStreaming(ctx, chat(model))
				defer stream.Close()
				for n := 1; stream.Next(); n++ {
					each(n)
				}
				return stream.Err()
			},
			func(t *testing.T, err error) told {
				e := aiError(t, err)
				return told{e.StatusCode, e.Code, e.Type, e.Message}
			},
		}
	},
	"go-openai": func(s *sockets.Stack, tr *sockets.Transport, key string, _ int) caller {
		c := goOpenAI(s, tr, "/v1", key)
		chat := func(model string) goopenai.ChatCompletionRequest {
			return goChat(func(r *goopenai.ChatCompletionRequest) { r.Model = model })
		}
		return caller{
			func(ctx context.Context, model string) error {
				_, err := c.CreateChatCompletion(ctx, chat(model))
				return err
			},
			func(ctx context.Context, model string, each func(int)) error {
				stream, err := c.CreateChatCompletionStream(ctx, chat(model))
				if err != nil {
					return err
				}
				defer stream.Close()
				for n := 1; ; n++ {
					_, err := stream.Recv()
					if errors.Is(err, io.EOF) {
						return nil
					}
					if err != nil {
						return err
					}
					each(n)
				}
			},
			func(t *testing.T, err error) told {
				e := goError(t, err)
				return told{e.HTTPStatusCode, e.Code, e.Type, e.Message}
			},
		}
	},
}

// eachSDK runs a test with each of them.
func eachSDK(t *testing.T, test func(t *testing.T, open opener)) {
	for name, open := range sdks {
		t.Run(name, func(t *testing.T) { test(t, open) })
	}
}

// both are the errors of a plain call and of a stream.
func (c caller) both(t *testing.T, model string) map[string]error {
	return map[string]error{"plain": c.plain(t.Context(), model), "stream": c.stream(t.Context(), model, func(int) {})}
}

func TestSDKs_RateLimited(t *testing.T) {
	eachSDK(t, func(t *testing.T, open opener) {
		s := sockets.New(t, sockets.World{Tenants: []tenants.Tenant{sockets.Tenant("acme", func(t *tenants.Tenant) { t.RPM = 1 })}})
		tr := &sockets.Transport{}
		c := open(s, tr, sockets.Key("acme"), 0)
		testkit.OK(t, c.plain(t.Context(), "gpt-4o"))
		for how, err := range c.both(t, "gpt-4o") {
			e := c.told(t, err)
			if e.status != http.StatusTooManyRequests || e.code != "rate_limit_exceeded" || e.kind != "requests" {
				t.Errorf("%s: got %+v, want 429 rate_limit_exceeded requests", how, e)
			}
			for _, part := range []string{"acme", "Limit 1", "Used 1", "Please try again in "} {
				if !strings.Contains(e.message, part) {
					t.Errorf("%s: the message %q does not say %q", how, e.message, part)
				}
			}
		}
		for _, a := range tr.All()[1:] {
			if d := sockets.RetryAfter(t, a.Header); d < 50*time.Second || d > 61*time.Second {
				t.Errorf("come back in %s; the minute began a moment ago", d)
			}
			if a.Header.Get("X-Request-Id") == "" || a.Header.Get("X-Ratelimit-Remaining-Requests") != "0" {
				t.Errorf("headers of a refusal: %v", a.Header)
			}
		}
		if n := s.Seen.Count(); n != 1 {
			t.Errorf("the upstream saw %d calls, want 1", n)
		}
	})
}

func TestSDKs_Refusals(t *testing.T) {
	eachSDK(t, func(t *testing.T, open opener) {
		s := sockets.New(t, sockets.World{
			Pool:    sockets.Pool(func(p *tenants.Pool) { p.Models = []string{"gpt-4o", "o4-mini"} }),
			Tenants: []tenants.Tenant{sockets.Tenant("acme", func(t *tenants.Tenant) { t.Models = []string{"gpt-4o"} })},
		})
		for _, tc := range []struct {
			name, key, model string
			status           int
			code             string
		}{
			{"unknown key", "wrong", "gpt-4o", 401, "invalid_api_key"},
			{"no key", "", "gpt-4o", 401, "invalid_api_key"},
			{"model not granted", sockets.Key("acme"), "o4-mini", 403, "model_not_allowed"},
			{"model of no pool", sockets.Key("acme"), "claude", 404, "model_not_found"},
		} {
			c := open(s, &sockets.Transport{}, tc.key, 0)
			for how, err := range c.both(t, tc.model) {
				if e := c.told(t, err); e.status != tc.status || e.code != tc.code || e.kind == "" || e.message == "" {
					t.Errorf("%s, %s: got %+v, want %d %s", tc.name, how, e, tc.status, tc.code)
				}
			}
		}
		s.WantUnused("acme")
		if n := s.Seen.Count(); n != 0 {
			t.Errorf("the upstream saw %d of the refused calls", n)
		}
	})
}

// A spent budget does not come back by asking again, and SDKs that retry by themselves are told so.
func TestSDKs_SpentBudget(t *testing.T) {
	eachSDK(t, func(t *testing.T, open opener) {
		s := sockets.New(t, sockets.World{Tenants: []tenants.Tenant{sockets.Tenant("acme", func(t *tenants.Tenant) {
			t.Budgets = []tenants.Budget{{Unit: tenants.Tokens, Limit: 10, Per: tenants.Month}}
		})}})
		tr := &sockets.Transport{}
		c := open(s, tr, sockets.Key("acme"), 2)
		testkit.OK(t, c.plain(t.Context(), "gpt-4o")) // takes it all: while nothing else runs, one call may
		s.WaitIdle()
		if e := c.told(t, c.plain(t.Context(), "gpt-4o")); e.status != http.StatusTooManyRequests || e.code != "insufficient_quota" {
			t.Errorf("got %+v, want 429 insufficient_quota", e)
		}
		if last := tr.Last(t); last.Header.Get("X-Should-Retry") != "false" || last.Header.Get("Retry-After") == "" {
			t.Errorf("headers of a spent budget: %v", last.Header)
		}
		if n := len(tr.All()); n != 2 {
			t.Errorf("the gateway saw %d calls, want one that was served and one that was refused", n)
		}
	})
}

// What breaks in mid-stream must reach the caller as an error, never as an end.
func TestSDKs_BrokenStream(t *testing.T) {
	eachSDK(t, func(t *testing.T, open opener) {
		for _, tc := range sdkBreaks {
			s := sockets.New(t, sockets.World{})
			chunks := 0
			err := open(s, &sockets.Transport{Hook: tc.hook}, sockets.Key("acme"), 0).stream(t.Context(), "gpt-4o", func(n int) { chunks = n })
			if err == nil || !strings.Contains(err.Error(), tc.message) {
				t.Errorf("%s: the stream ended with %v, want an error that says %q", tc.name, err, tc.message)
			}
			if chunks < 3 {
				t.Errorf("%s: %d chunks arrived before the break", tc.name, chunks)
			}
			s.WaitIdle()
			if in, out := s.Charged("input"), s.Charged("output"); in == 0 || out == 0 {
				t.Errorf("%s: charged %d + %d tokens for what was produced before the break", tc.name, in, out)
			}
		}
	})
}

// sdkBreaks are the ways an upstream breaks off in mid-stream.
var sdkBreaks = []struct{ name, hook, message string }{
	{"error event", `{"output_tokens":20,"error_after":5}`, "The server had an error"},
	{"hang-up", `{"output_tokens":20,"hangup_after":5}`, "broke off"},
}

func TestSDKs_Abort(t *testing.T) {
	eachSDK(t, func(t *testing.T, open opener) {
		s := sockets.New(t, sockets.World{})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		chunks := 0
		err := open(s, &sockets.Transport{Hook: sdkSlowHook}, sockets.Key("acme"), 0).stream(ctx, "gpt-4o", func(n int) {
			chunks = n
			if n == 3 {
				wantRunning(s)
				cancel()
				wantCancelled(s)
			}
		})
		if !errors.Is(err, context.Canceled) || chunks < 3 || chunks > 13 { // some had arrived before
			t.Errorf("a cancelled stream ended with %v after %d chunks", err, chunks)
		}
	})
}
