package mock

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

func withHeader(r *rig, path, name, value string) (int, string) {
	method := "GET"
	body := io.Reader(nil)
	if path != "/v1/models" {
		method = "POST"
		body = strings.NewReader(chatBody(""))
	}
	req := testkit.Must(http.NewRequest(method, r.url+path, body))(r.t)
	if value != "" {
		req.Header.Set(name, value)
	}
	resp := testkit.Must(r.client.Do(req))(r.t)
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b)
}

// gist tells each event in a word or two.
func gist(body string) (out []string) {
	for _, e := range events(body) {
		if e.data == "[DONE]" {
			out = append(out, "done")
			continue
		}
		if !gjson.Valid(e.data) {
			out = append(out, "no JSON: "+e.data)
			continue
		}
		d := gjson.Parse(e.data)
		c := d.Get("choices.0")
		word := fmt.Sprint(c.Get("index").Int())
		for _, path := range []string{"delta.role", "delta.content", "text", "delta.tool_calls.0.function.arguments", "finish_reason"} {
			if s := c.Get(path).Str; s != "" {
				word += " " + strings.TrimSpace(s)
			}
		}
		if !c.Exists() {
			word = "no choice"
		}
		if u := d.Get("usage"); u.Raw == "null" {
			word += " usage:null"
		} else if u.Exists() {
			word += fmt.Sprintf(" usage:%d+%d", u.Get("prompt_tokens").Int(), u.Get("completion_tokens").Int())
		}
		out = append(out, word)
	}
	return out
}

func TestStreamShapes(t *testing.T) {
	r := onSocket(t, Config{OutputTokens: 3})
	const ask = `"stream":true,"stream_options":{"include_usage":true}`
	const tools = `,"tools":[{"type":"function","function":{"name":"f"}}]`
	for _, tt := range []struct {
		name, path, body string
		want             []string
	}{
		{
			"chat", "/v1/chat/completions", chatBody(`"stream":true`),
			[]string{"0 assistant", "0 the", "0 quick", "0 brown", "0 stop", "done"},
		},
		{
			"usage asked for", "/v1/chat/completions", chatBody(ask + `,"max_tokens":1`),
			[]string{"0 assistant usage:null", "0 the usage:null", "0 length usage:null", "no choice usage:8+1", "done"},
		},
		{
			"usage beside the end", "/v1/chat/completions", chatBody(`"stream":true,"n":2,"max_tokens":1,"mock":{"usage":"finish"}`),
			[]string{"0 assistant", "1 assistant", "0 the", "1 lazy", "0 length", "1 length usage:8+2", "done"},
		},
		{
			"usage refused", "/v1/chat/completions", chatBody(ask + `,"max_tokens":1,"mock":{"usage":"absent"}`),
			[]string{"0 assistant", "0 the", "0 length", "done"},
		},
		{
			"choices take turns", "/v1/chat/completions", chatBody(`"stream":true,"n":2,"max_tokens":2`),
			[]string{"0 assistant", "1 assistant", "0 the", "1 lazy", "0 quick", "1 dog", "0 length", "1 length", "done"},
		},
		{
			"tool", "/v1/chat/completions", chatBody(`"stream":true` + tools),
			[]string{"0 assistant", `0 {"text":"`, "0 the", `0 "}`, "0 tool_calls", "done"},
		},
		{
			"nothing to say", "/v1/chat/completions", chatBody(`"stream":true,"mock":{"output_tokens":0}`),
			[]string{"0 assistant", "0 stop", "done"},
		},
		{
			"completions", "/v1/completions", `{"model":"m","prompt":["a","b"],"max_tokens":1,` + ask + `}`,
			[]string{"0 the usage:null", "1 lazy usage:null", "0 length usage:null", "1 length usage:null", "no choice usage:2+2", "done"},
		},
		{
			"line ends, comments and ids", "/v1/chat/completions", chatBody(`"stream":true,"max_tokens":1,"mock":{"crlf":true,"comments":true,"id":true}`),
			[]string{"0 assistant", "0 the", "0 length", "done"},
		},
	} {
		got := r.post(tt.path, tt.body)
		testkit.Same(t, tt.want, gist(got.body), tt.name)
	}
	got := r.chat(`"stream":true`)
	wantHeader(t, got.header, map[string]string{
		"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache", "X-Accel-Buffering": "no",
	})
	if !strings.HasPrefix(got.header.Get("X-Request-Id"), "req_") || got.header.Get("Openai-Processing-Ms") == "" {
		t.Errorf("headers %v", got.header)
	}
}

func TestLineEndsCommentsAndIDs(t *testing.T) {
	r := onSocket(t, Config{OutputTokens: 1})
	got := r.chat(`"stream":true,"mock":{"crlf":true,"comments":true,"id":true}`)
	if strings.Count(got.body, "\n") != strings.Count(got.body, "\r\n") {
		t.Errorf("a bare line end in %q", got.body)
	}
	for i := range 4 {
		if want := fmt.Sprintf(": ping\r\n\r\nid: %d\r\ndata: ", i); !strings.Contains(got.body, want) {
			t.Errorf("%q is not in %q", want, got.body)
		}
	}
}

func TestIDsThatAreTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := inBubble(t, Config{OutputTokens: 2})
		began := time.Now().UnixNano()
		got := r.chat(`"stream":true,"mock":{"token_ms":7,"id":"time"}`)
		for _, want := range []int64{began, began + 7_000_000} {
			if !strings.Contains(got.body, fmt.Sprintf("\nid: %d\ndata: ", want)) {
				t.Errorf("no event of %d in %q", want, got.body)
			}
		}
	})
}

func TestResponsesStream(t *testing.T) {
	r := onSocket(t, Config{OutputTokens: 2})
	for _, tt := range []struct{ field, last string }{
		{`"mock":{}`, "response.completed"},
		{`"mock":{"output_tokens":9},"max_output_tokens":2`, "response.incomplete"},
	} {
		// The list of instructions is laid out over lines, which must break no event.
		got := r.post("/v1/responses", "{\"model\":\"m\",\"stream\":true,\"input\":\"hello\",\"instructions\":[\n{}\n],"+tt.field+"}")
		var names []string
		evs := events(got.body)
		for i, e := range evs {
			names = append(names, e.name)
			d := gjson.Parse(e.data)
			if !gjson.Valid(e.data) || d.Get("type").Str != e.name || d.Get("sequence_number").Int() != int64(i) {
				t.Errorf("event %d: %s %s", i, e.name, e.data)
			}
		}
		want := []string{
			"response.created", "response.in_progress", "response.output_item.added", "response.content_part.added",
			"response.output_text.delta", "response.output_text.delta", "response.output_text.done",
			"response.content_part.done", "response.output_item.done", tt.last,
		}
		if d := cmp.Diff(want, names); d != "" {
			t.Fatalf("events (-want +got):\n%s", d)
		}
		end := gjson.Get(evs[9].data, "response")
		if end.Get("usage.total_tokens").Int() != 4 || end.Get("output.0.content.0.text").Str != " the quick" ||
			"response."+end.Get("status").Str != tt.last {
			t.Errorf("last event: %s", evs[9].data)
		}
	}
}

// Where each chunk tells what was used so far, the last one tells it all.
func TestUsage_Each(t *testing.T) {
	r := onSocket(t, Config{Usage: UsageEach})
	for path, body := range map[string]string{
		"/v1/chat/completions": chatBody(`"stream":true,"max_tokens":3`),
		"/v1/completions":      `{"model":"m","prompt":"a","stream":true,"max_tokens":3}`,
		"/v1/messages":         `{"model":"m","messages":[{"role":"user","content":"12345"}],"stream":true,"max_tokens":3}`,
	} {
		var told []string
		for _, e := range events(r.post(path, body).body) {
			told = append(told, gjson.Get(e.data, "usage.completion_tokens").Raw, gjson.Get(e.data, "usage.output_tokens").Raw)
		}
		if got := strings.Join(strings.Fields(strings.Join(told, " ")), " "); got != "1 2 3 3" {
			t.Errorf("%s tells %s", path, got)
		}
	}
}
