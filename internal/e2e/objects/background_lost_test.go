package objects

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/e2e/harness/sockets"
	"github.com/llmgov/llmgov/internal/testkit"
	"github.com/llmgov/llmgov/tenants"
)

// A call that only begins a background response says nothing of how long answers get.
//
// Catches: the beginning settled as a whole answer of no tokens.
func TestBackgroundTeachesNoLengths(t *testing.T) {
	s, _ := laterStack(t, "", sockets.World{Pool: sockets.Pool(func(p *tenants.Pool) { p.Concurrency = 0 })})
	run := func() time.Duration {
		o, ok := s.Governor.Explain(governor.Request{Tenant: "acme", Pool: "main", Model: "gpt-4o", Input: 10, Output: 40})
		if !ok {
			t.Fatal("unknown")
		}
		return o.Run
	}
	before := run()
	for range 60 {
		begin(s, "acme")
	}
	s.WaitIdle()
	if after := run(); after < before/2 {
		t.Errorf("a call of up to 40 tokens is expected to run for %v, and before 60 background responses for %v", after, before)
	}
}

// What a response in the background took beyond what was held, the next ones are held at: an answer without a bound, and what a
// search found.
//
// Catches: cheap answers that train what is held, while dear ones are seen done by nobody who learns.
func TestBackgroundTeachesWhatItTook(t *testing.T) {
	s, _ := laterStack(t, "", sockets.World{Upstream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodGet {
			_, _ = io.WriteString(w, `{"id":"resp_1","status":"completed","usage":{"input_tokens":20000,"output_tokens":9000}}`)
			return
		}
		_, _ = io.WriteString(w, `{"id":"resp_1","status":"queued","usage":null}`)
	}), Pool: sockets.Pool(func(p *tenants.Pool) { p.TPM = 0 })})
	for _, least := range []int64{2 * 4096, 28_950} {
		before := s.Charged("held")
		if status, text := s.SendAs("acme", "POST", "/v1/responses", "application/json", `{"model":"gpt-4o","input":"a","tools":[{"type":"web_search"}],"background":true}`); status != http.StatusOK {
			t.Fatalf("%d %s", status, text)
		}
		s.WaitIdle()
		if held := s.Charged("held") - before; held < least || held > least+150 {
			t.Errorf("it is held at %d tokens, want %d and a few", held, least)
		}
		s.SendAs("acme", "GET", "/v1/responses/resp_1", "", "")
	}
}

// What a client has seen of a stream is charged, whatever it does with the response then.
//
// Catches: a stream in the background that is read to its last word, and deleted or
// cancelled before its end is seen.
func TestBackgroundStreamsAreNotFree(t *testing.T) {
	for _, how := range []string{"DELETE", "cancel"} {
		for _, while := range []bool{false, true} { // the stream is open
			t.Run(fmt.Sprint(how, " while=", while), func(t *testing.T) {
				ended := make(chan struct{})
				s, _ := laterStack(t, "", sockets.World{Upstream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					switch {
					case r.Method == http.MethodGet:
						w.Header().Set("Content-Type", "application/json")
						_, _ = io.WriteString(w, `{"id":"resp_1","status":"in_progress","usage":null}`)
					case r.Method == http.MethodDelete:
						w.Header().Set("Content-Type", "application/json")
						_, _ = io.WriteString(w, `{"id":"resp_1","object":"response.deleted","deleted":true}`)
					case strings.HasSuffix(r.URL.Path, "/cancel"):
						w.Header().Set("Content-Type", "application/json")
						_, _ = io.WriteString(w, `{"id":"resp_1","status":"cancelled","usage":null}`)
					default:
						w.Header().Set("Content-Type", "text/event-stream")
						_, _ = io.WriteString(w, `data: {"type":"response.created","response":{"id":"resp_1","status":"in_progress","usage":null}}`+"\n\n")
						for range 35 {
							_, _ = io.WriteString(w, `data: {"type":"response.output_text.delta","delta":" word"}`+"\n\n")
						}
						_ = http.NewResponseController(w).Flush()
						select {
						case <-ended:
						case <-r.Context().Done():
						}
					}
				})})
				r := s.Request("POST", "/v1/responses", strings.Replace(inBackground, "{", `{"stream":true,`, 1))
				resp := testkit.Must(s.Client.Do(r))(t)
				text := make([]byte, 0, 4096)
				for strings.Count(string(text), "delta\",") < 35 {
					b := make([]byte, 4096)
					n := testkit.Must(resp.Body.Read(b))(t)
					text = append(text, b[:n]...)
				}
				if !while {
					_ = resp.Body.Close()
					s.WaitIdle()
				}
				method := "DELETE"
				path := "/v1/responses/resp_1"
				if how == "cancel" {
					method = "POST"
					path = path + "/cancel"
				}
				if status, text := s.SendAs("acme", method, path, "", ""); status != http.StatusOK {
					t.Fatal(status, text)
				}
				close(ended)
				_ = resp.Body.Close()
				s.WaitIdle()
				if u := s.ChargedUsage("acme"); u.Output < 30 || u.Output > 40 || u.Input == 0 {
					t.Errorf("the client has seen 35 tokens, and %+v are charged", u)
				}
			})
		}
	}
}
