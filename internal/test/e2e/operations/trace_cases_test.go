package operations

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/llmgov/llmgov/governor/terms"
	"github.com/llmgov/llmgov/internal/lab/mock"
	"github.com/llmgov/llmgov/internal/test/e2e/harness"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/tenants"
)

var updateCalls = flag.Bool("update-calls", false, "write testdata/calls anew")

// told is a call, with what is to be told of it in testdata/calls: its spans as a tree,
// and its log line. In virtual time all of it is exact.
type told struct {
	world harness.World
	// before goes on beside the call, if it says so.
	before func(*harness.Stack)
	call   func(*harness.Stack)
}

// toldCases makes the cases anew: some of their upstreams remember what was asked.
func toldCases() map[string]told {
	return map[string]told{
		"plain": {call: func(s *harness.Stack) {
			s.Call(s.T.Context(), "a", harness.Chat(false, 50, `,"mock":{"output_tokens":20}`))
		}},
		"usage unread": {call: func(s *harness.Stack) {
			s.Call(s.T.Context(), "a", harness.Chat(false, 50, `,"mock":{"output_tokens":20,"usage":"absent"}`))
		}},
		"streamed": {
			world: harness.World{Mock: mock.Config{FirstToken: 300 * time.Millisecond, TokensPerSecond: 50}},
			call: func(s *harness.Stack) {
				s.Call(s.T.Context(), "a", harness.Chat(true, 50, `,"n":2,"mock":{"output_tokens":20}`))
			},
		},
		"priced": {
			world: harness.World{
				Prices: []tenants.ModelPrice{{Model: "m", Price: tenants.Price{
					Input: 2_500_000, CachedInput: 1_250_000, CacheWrite: 3_000_000, Output: 10_000_000, Tool: 10_000, Tiers: []terms.Tier{{Name: "flex", Factor: 500}},
				}}},
				Wrap: func(http.RoundTripper) http.RoundTripper {
					return harness.RoundTripperFunc(func(*http.Request) (*http.Response, error) {
						return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(
							`{"choices":[{"message":{"content":"x"}}],"output":[{"type":"file_search_call"},{"type":"file_search_call"},{"type":"code_interpreter_call"}],"service_tier":"flex","usage":{"prompt_tokens":15,"completion_tokens":20,` +
								`"prompt_tokens_details":{"cached_tokens":4,"cache_write_tokens":6},"server_tool_use":{"web_search_requests":1}}}`))}, nil
					})
				},
			},
			call: func(s *harness.Stack) {
				s.Call(s.T.Context(), "a", harness.Chat(false, 50, `,"mock":{"output_tokens":20}`))
			},
		},
		"queued": {
			world: harness.World{Mock: mock.Config{FirstToken: time.Second}, Pool: harness.Pool(0, 0, 1)},
			before: func(s *harness.Stack) {
				go s.Call(context.Background(), "b", harness.Chat(false, 50, `,"mock":{"output_tokens":20}`))
				synctest.Wait()
			},
			call: func(s *harness.Stack) {
				s.Call(s.T.Context(), "a", harness.Chat(false, 50, `,"mock":{"output_tokens":20}`))
			},
		},
		"refused": {
			world:  harness.World{Pool: harness.Pool(0, 1, 0)},
			before: func(s *harness.Stack) { s.Call(s.T.Context(), "b", harness.Chat(false, 50, "")) },
			call:   func(s *harness.Stack) { s.Call(s.T.Context(), "hasty", harness.Chat(false, 50, "")) },
		},
		"refused in shadow": {
			world: harness.World{Tenants: []tenants.Tenant{{Name: "shady", Weight: 1, Shadow: true, Limits: terms.Limits{TPM: 20}, Keys: []tenants.Key{{Hash: tenants.HashKey("shady")}}}}},
			before: func(s *harness.Stack) {
				s.Call(s.T.Context(), "shady", harness.Chat(false, 50, `,"mock":{"output_tokens":50}`))
			},
			call: func(s *harness.Stack) {
				s.Call(s.T.Context(), "shady", harness.Chat(false, 50, `,"mock":{"output_tokens":20}`))
			},
		},
		"gone while it waits": {
			world: harness.World{Mock: mock.Config{FirstToken: 5 * time.Second}, Pool: harness.Pool(0, 0, 1)},
			before: func(s *harness.Stack) {
				go s.Call(context.Background(), "b", harness.Chat(false, 50, `,"mock":{"output_tokens":20}`))
				synctest.Wait()
			},
			call: func(s *harness.Stack) { goneAfter(s, time.Second, harness.Chat(false, 50, "")) },
		},
		// Between two of the model's tokens, which come at 1.9 s and 2 s and 2.1 s.
		"gone in mid-stream": {
			world: harness.World{Mock: mock.Config{FirstToken: 300 * time.Millisecond, TokensPerSecond: 10}},
			call: func(s *harness.Stack) {
				goneAfter(s, 2050*time.Millisecond, harness.Chat(true, 500, `,"mock":{"output_tokens":500}`))
			},
		},
		"gone before the answer": {
			world: harness.World{Mock: mock.Config{FirstToken: 10 * time.Second}},
			call:  func(s *harness.Stack) { goneAfter(s, time.Second, harness.Chat(true, 50, "")) },
		},
		"failed over": {
			world: harness.World{Pool: harness.PoolOf(1, 100), Upstreams: map[string]http.Handler{"up1": harness.Status(500)}},
			call: func(s *harness.Stack) {
				s.Call(s.T.Context(), "a", harness.Chat(false, 50, `,"mock":{"output_tokens":20}`))
			},
		},
		"failed over after a hang-up": {
			world: harness.World{Pool: harness.PoolOf(1, 100), Upstreams: map[string]http.Handler{"up1": http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })}},
			call: func(s *harness.Stack) {
				s.Call(s.T.Context(), "a", harness.Chat(false, 50, `,"mock":{"output_tokens":20}`))
			},
		},
		"not reached": {
			world: harness.World{Pool: harness.PoolAt("gone"), Upstreams: map[string]http.Handler{"gone": nil}},
			call:  func(s *harness.Stack) { s.Call(s.T.Context(), "a", harness.Chat(false, 50, "")) },
		},
		"waited out": {
			world: harness.World{Pool: harness.PoolAt("up1"), Upstreams: map[string]http.Handler{"up1": busyOnce()}},
			call:  func(s *harness.Stack) { s.Call(s.T.Context(), "a", harness.Chat(false, 50, "")) },
		},
		"broken off": {call: func(s *harness.Stack) {
			s.Call(s.T.Context(), "a", harness.Chat(true, 50, `,"mock":{"hangup_after":3}`))
		}},
		"own fault": {call: func(s *harness.Stack) {
			s.Call(s.T.Context(), "a", harness.Chat(false, 50, `,"mock":{"error_status":400}`))
		}},
		"no key":   {call: func(s *harness.Stack) { s.Call(s.T.Context(), "stranger", harness.Chat(false, 50, "")) }},
		"no route": {call: func(s *harness.Stack) { s.CallTo(s.T.Context(), "/secret?x=1", "a", harness.Chat(false, 50, "")) }},
		"no model": {call: func(s *harness.Stack) { s.Call(s.T.Context(), "a", `{"messages":[]}`) }},
		"models":   {call: func(s *harness.Stack) { s.Get("/v1/models", "a") }},
		"list": {
			world: harness.World{Tenants: []tenants.Tenant{{Name: "keeper", Weight: 1, Routes: tenants.RouteVectorStores, DefaultPool: "p", Keys: []tenants.Key{{Hash: tenants.HashKey("keeper")}}}}},
			before: func(s *harness.Stack) {
				s.CallTo(s.T.Context(), "/vector_stores", "keeper", `{"name":"piece of string"}`)
			},
			call: func(s *harness.Stack) { s.Get("/v1/vector_stores", "keeper") },
		},
		"realtime": {
			world: harness.World{Tenants: []tenants.Tenant{{Name: "talker", Weight: 1, Routes: tenants.RouteRealtime, Keys: []tenants.Key{{Hash: tenants.HashKey("talker")}}}}},
			call: func(s *harness.Stack) {
				conn, _, err := websocket.Dial(s.T.Context(), "http://gateway/v1/realtime?model=m", &websocket.DialOptions{
					HTTPClient: s.Client, HTTPHeader: http.Header{"Authorization": {"Bearer talker"}},
				})
				if err != nil {
					s.T.Fatal(err)
				}
				time.Sleep(2 * time.Second)
				_ = conn.Close(websocket.StatusNormalClosure, "")
			},
		},
		"from the cache": {call: func(s *harness.Stack) {
			s.CallTo(s.T.Context(), "/messages", "a", `{"model":"m","max_tokens":20,"system":[{"type":"text","text":"How long is a piece of string?","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":"Well?"}],"mock":{"output_tokens":9}}`)
		}},
		"reasoning": {
			world: harness.World{Pool: harness.PoolAt("thinks"), Upstreams: map[string]http.Handler{"thinks": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprint(w, `{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":30,"completion_tokens_details":{"reasoning_tokens":21}}}`)
			})}},
			call: func(s *harness.Stack) { s.Call(s.T.Context(), "a", harness.Chat(false, 50, "")) },
		},
		"by Azure's path": {call: func(s *harness.Stack) {
			req := testkit.Must(http.NewRequestWithContext(s.T.Context(), http.MethodPost, "http://gateway/openai/deployments/m/chat/completions?api-version=1", strings.NewReader(harness.Chat(false, 5, ""))))(s.T)
			req.Header.Set("Api-Key", "a")
			resp := testkit.Must(s.Client.Do(req))(s.T)
			harness.ReadAll(resp)
		}},
		"embeddings": {call: func(s *harness.Stack) {
			s.CallTo(s.T.Context(), "/embeddings", "a", `{"model":"m","input":"How long is a piece of string?"}`)
		}},
	}
}

// busyOnce asks for a pause, once.
func busyOnce() http.Handler {
	up, err := mock.New(mock.Config{})
	if err != nil {
		panic(err)
	}
	var once sync.Once
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		busy := false
		once.Do(func() { busy = true })
		if busy {
			harness.Status(429, "Retry-After", "3")(w, r)
			return
		}
		up.ServeHTTP(w, r)
	})
}

// goneAfter sends a call of a, and goes after a time.
func goneAfter(s *harness.Stack, d time.Duration, body string) {
	ctx, cancel := context.WithTimeout(s.T.Context(), d)
	defer cancel()
	s.Call(ctx, "a", body)
	synctest.Wait()
}
