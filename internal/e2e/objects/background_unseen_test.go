package objects

import (
	"io"
	"net/http"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/e2e/harness"
	"github.com/llmgov/llmgov/internal/e2e/harness/sockets"
	"github.com/llmgov/llmgov/tenants"
)

// A response is charged with all that it took before it can be deleted: others may have
// been built on it.
//
// Catches: an answer that is used as previous_response_id, deleted, and paid as a prompt.
func TestDeletedResponsesAreCharged(t *testing.T) {
	for _, done := range []bool{true, false} {
		s, _ := laterStack(t, "", sockets.World{Upstream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			text := `{"id":"resp_1","status":"in_progress","usage":null}`
			if r.Method == http.MethodGet && done {
				text = doneInBackground
			}
			_, _ = io.WriteString(w, text)
		})})
		if status, text := s.SendAs("acme", "POST", "/v1/responses", "application/json", inBackground); status != http.StatusOK {
			t.Fatal(status, text)
		}
		if status, text := s.SendAs("acme", "DELETE", "/v1/responses/resp_1", "", ""); status != http.StatusOK {
			t.Fatal(status, text)
		}
		s.WaitIdle()
		want := governor.Usage{Input: 9, CachedInput: 3, Output: 50, Reasoning: 20}
		if u := s.ChargedUsage("acme"); done && u != want || !done && (u.Input == 0 || u.Output > 0) {
			t.Errorf("done %v: %+v are charged", done, u)
		}
	}
}

// Who never looks at batches is charged all the same: as it makes more, the gateway looks.
func TestBatchesThatNobodyAsksFor(t *testing.T) {
	w := sockets.World{}
	w.Tenants = []tenants.Tenant{sockets.Tenant("acme", func(t *tenants.Tenant) { sockets.Granted(t); t.DefaultPool = "main" })}
	s := sockets.New(t, w)
	line := `{"custom_id":"1","method":"POST","url":"/v1/chat/completions","body":{"model":"gpt-4o","messages":[{"role":"user","content":"a"}],"max_tokens":50}}` + "\n"
	status, text := s.SendAs("acme", "POST", "/v1/files", formType, harness.CRLF("--b\nContent-Disposition: form-data; name=\"purpose\"\n\nbatch\n"+
		"--b\nContent-Disposition: form-data; name=\"file\"; filename=\"a.jsonl\"\n\n")+line+harness.CRLF("\n--b--\n"))
	if status != http.StatusOK {
		t.Fatal(status, text)
	}
	file := gjson.Get(text, "id").Str
	for range 20 {
		if status, text := s.SendAs("acme", "POST", "/v1/batches", "application/json",
			`{"input_file_id":"`+file+`","endpoint":"/v1/chat/completions","completion_window":"24h"}`); status != http.StatusOK {
			t.Fatal(status, text)
		}
	}
	if u := s.ChargedUsage("acme"); u.Output < 5*50 {
		t.Errorf("of 20 batches of 50 tokens %+v are charged", u)
	}
}

// A server that does not know of background answers at once, and need not tell what that
// took: it is charged as other answers are that do not tell.
//
// Catches: an answer that nobody owes anything for, because it is done, and that is not
// charged either, because it was to be in the background.
func TestBackgroundThatIsNotIsCharged(t *testing.T) {
	for answer, charged := range map[string]bool{
		`{"id":"resp_1","status":"completed","output":[]}`:              true,
		`{"id":"resp_1","status":"completed","output":[],"usage":null}`: true,
		`{"status":"queued"}`: true,
		`[]`:                  true,
		`{"id":"resp_1","status":"completed","output":[],"usage":{"input_tokens":0,"output_tokens":0}}`: false, // reported
	} {
		s, _ := laterStack(t, "", sockets.World{Upstream: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, answer)
		})})
		if status, text := s.SendAs("acme", "POST", "/v1/responses", "application/json", inBackground); status != http.StatusOK {
			t.Fatal(status, text)
		}
		s.WaitIdle()
		if u := s.ChargedUsage("acme"); charged != (u.Input > 0) {
			t.Errorf("%s: charged %+v, want anything %v", answer, u, charged)
		}
	}
}
