package e2e

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/llmgov/llmgov/internal/mock"
	"github.com/llmgov/llmgov/tenants"
)

var updateCalls = flag.Bool("update-calls", false, "write testdata/calls anew")

// told is a call, with what is to be told of it in testdata/calls: its spans as a tree,
// and its log line. In virtual time all of it is exact.
type told struct {
	world world
	// before goes on beside the call, if it says so.
	before func(*stack)
	call   func(*stack)
}

// toldCases makes the cases anew: some of their upstreams remember what was asked.
func toldCases() map[string]told {
	return map[string]told{
		"plain": {call: func(s *stack) { s.call(s.t.Context(), "a", chat(false, 50, `,"mock":{"output_tokens":20}`)) }},
		"streamed": {
			world: world{mock: mock.Config{FirstToken: 300 * time.Millisecond, TokensPerSecond: 50}},
			call:  func(s *stack) { s.call(s.t.Context(), "a", chat(true, 50, `,"n":2,"mock":{"output_tokens":20}`)) },
		},
		"priced": {
			world: world{prices: []tenants.ModelPrice{{Model: "m", Price: tenants.Price{Input: 2_500_000, CachedInput: 1_250_000, Output: 10_000_000}}}},
			call:  func(s *stack) { s.call(s.t.Context(), "a", chat(false, 50, `,"mock":{"output_tokens":20}`)) },
		},
		"queued": {
			world: world{mock: mock.Config{FirstToken: time.Second}, pool: pool(0, 0, 1)},
			before: func(s *stack) {
				go s.call(context.Background(), "b", chat(false, 50, `,"mock":{"output_tokens":20}`))
				synctest.Wait()
			},
			call: func(s *stack) { s.call(s.t.Context(), "a", chat(false, 50, `,"mock":{"output_tokens":20}`)) },
		},
		"refused": {
			world:  world{pool: pool(0, 1, 0)},
			before: func(s *stack) { s.call(s.t.Context(), "b", chat(false, 50, "")) },
			call:   func(s *stack) { s.call(s.t.Context(), "hasty", chat(false, 50, "")) },
		},
		"refused in shadow": {
			world: world{tenants: []tenants.Tenant{{Name: "shady", Weight: 1000, Shadow: true, TPM: 20, Keys: []tenants.Key{{Hash: tenants.HashKey("shady")}}}}},
			before: func(s *stack) {
				s.call(s.t.Context(), "shady", chat(false, 50, `,"mock":{"output_tokens":50}`))
			},
			call: func(s *stack) { s.call(s.t.Context(), "shady", chat(false, 50, `,"mock":{"output_tokens":20}`)) },
		},
		"gone while it waits": {
			world: world{mock: mock.Config{FirstToken: 5 * time.Second}, pool: pool(0, 0, 1)},
			before: func(s *stack) {
				go s.call(context.Background(), "b", chat(false, 50, `,"mock":{"output_tokens":20}`))
				synctest.Wait()
			},
			call: func(s *stack) { s.goneAfter(time.Second, chat(false, 50, "")) },
		},
		// Between two of the model's tokens, which come at 1.9 s and 2 s and 2.1 s.
		"gone in mid-stream": {
			world: world{mock: mock.Config{FirstToken: 300 * time.Millisecond, TokensPerSecond: 10}},
			call:  func(s *stack) { s.goneAfter(2050*time.Millisecond, chat(true, 500, `,"mock":{"output_tokens":500}`)) },
		},
		"gone before the answer": {
			world: world{mock: mock.Config{FirstToken: 10 * time.Second}},
			call:  func(s *stack) { s.goneAfter(time.Second, chat(true, 50, "")) },
		},
		"failed over": {
			world: world{pool: behind(1, 100), others: map[string]http.Handler{"up1": says(500)}},
			call:  func(s *stack) { s.call(s.t.Context(), "a", chat(false, 50, `,"mock":{"output_tokens":20}`)) },
		},
		"failed over after a hang-up": {
			world: world{pool: behind(1, 100), others: map[string]http.Handler{"up1": http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })}},
			call:  func(s *stack) { s.call(s.t.Context(), "a", chat(false, 50, `,"mock":{"output_tokens":20}`)) },
		},
		"not reached": {
			world: world{pool: only("gone"), others: map[string]http.Handler{"gone": nil}},
			call:  func(s *stack) { s.call(s.t.Context(), "a", chat(false, 50, "")) },
		},
		"waited out": {
			world: world{pool: only("up1"), others: map[string]http.Handler{"up1": busyOnce()}},
			call:  func(s *stack) { s.call(s.t.Context(), "a", chat(false, 50, "")) },
		},
		"broken off": {call: func(s *stack) { s.call(s.t.Context(), "a", chat(true, 50, `,"mock":{"hangup_after":3}`)) }},
		"own fault":  {call: func(s *stack) { s.call(s.t.Context(), "a", chat(false, 50, `,"mock":{"error_status":400}`)) }},
		"no key":     {call: func(s *stack) { s.call(s.t.Context(), "stranger", chat(false, 50, "")) }},
		"no route":   {call: func(s *stack) { s.callTo(s.t.Context(), "/secret?x=1", "a", chat(false, 50, "")) }},
		"no model":   {call: func(s *stack) { s.call(s.t.Context(), "a", `{"messages":[]}`) }},
		"models":     {call: func(s *stack) { s.usage("/v1/models", "a") }},
		"list": {
			world:  world{tenants: []tenants.Tenant{{Name: "keeper", Weight: 1000, Routes: tenants.RouteVectorStores, DefaultPool: "p", Keys: []tenants.Key{{Hash: tenants.HashKey("keeper")}}}}},
			before: func(s *stack) { s.callTo(s.t.Context(), "/vector_stores", "keeper", `{"name":"piece of string"}`) },
			call:   func(s *stack) { s.usage("/v1/vector_stores", "keeper") },
		},
		"realtime": {
			world: world{tenants: []tenants.Tenant{{Name: "talker", Weight: 1000, Routes: tenants.RouteRealtime, Keys: []tenants.Key{{Hash: tenants.HashKey("talker")}}}}},
			call: func(s *stack) {
				conn, _, err := websocket.Dial(s.t.Context(), "http://gateway/v1/realtime?model=m", &websocket.DialOptions{
					HTTPClient: s.client, HTTPHeader: http.Header{"Authorization": {"Bearer talker"}},
				})
				if err != nil {
					s.t.Fatal(err)
				}
				time.Sleep(2 * time.Second)
				_ = conn.Close(websocket.StatusNormalClosure, "")
			},
		},
		"from the cache": {call: func(s *stack) {
			s.callTo(s.t.Context(), "/messages", "a", `{"model":"m","max_tokens":20,"system":[{"type":"text","text":"How long is a piece of string?","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":"Well?"}],"mock":{"output_tokens":9}}`)
		}},
		"reasoning": {
			world: world{pool: only("thinks"), others: map[string]http.Handler{"thinks": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprint(w, `{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":30,"completion_tokens_details":{"reasoning_tokens":21}}}`)
			})}},
			call: func(s *stack) { s.call(s.t.Context(), "a", chat(false, 50, "")) },
		},
		"by Azure's path": {call: func(s *stack) {
			req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, "http://gateway/openai/deployments/m/chat/completions?api-version=1", strings.NewReader(chat(false, 5, "")))
			if err != nil {
				s.t.Fatal(err)
			}
			req.Header.Set("Api-Key", "a")
			resp, err := s.client.Do(req)
			if err != nil {
				s.t.Fatal(err)
			}
			readAll(resp)
		}},
		"embeddings": {call: func(s *stack) {
			s.callTo(s.t.Context(), "/embeddings", "a", `{"model":"m","input":"How long is a piece of string?"}`)
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
			says(429, "Retry-After", "3")(w, r)
			return
		}
		up.ServeHTTP(w, r)
	})
}

// goneAfter sends a call of a, and goes after a time.
func (s *stack) goneAfter(d time.Duration, body string) {
	ctx, cancel := context.WithTimeout(s.t.Context(), d)
	defer cancel()
	s.call(ctx, "a", body)
	synctest.Wait()
}
