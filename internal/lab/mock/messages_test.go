package mock

import (
	"fmt"
	"strings"
	"testing"

	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/tidwall/gjson"
)

// messagesBody is a call whose prompt is 8 tokens, as chatBody's is.
func messagesBody(fields string) string {
	return `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}],` + fields + `}`
}

const lookUp = `"tools":[{"name":"look_up","input_schema":{"type":"object"}}]`

func TestMessagesPlain(t *testing.T) {
	r := onSocket(t, Config{OutputTokens: 3})
	const hook3 = `"mock":{"output_tokens":3}`
	for _, tt := range []struct {
		name, body string
		want       map[string]string // path → value
	}{
		{"text", messagesBody(hook3), map[string]string{
			"type": "message", "role": "assistant", "model": "m", "content.#": "1", "content.0.type": "text",
			"content.0.text": " the quick brown", "stop_reason": "end_turn", "usage.input_tokens": "8", "usage.output_tokens": "3",
			"usage.cache_read_input_tokens": "0", "usage.cache_creation_input_tokens": "0",
		}},
		{"cut", messagesBody(`"mock":{"output_tokens":20}`), map[string]string{"stop_reason": "max_tokens", "usage.output_tokens": "9"}},
		{"system counts", messagesBody(`"system":"be brief",` + hook3), map[string]string{"usage.input_tokens": "10"}},
		{
			"marked blocks are of the cache",
			`{"model":"m","max_tokens":9,"system":[{"type":"text","text":"be brief","cache_control":{"type":"ephemeral"}}],` +
				`"messages":[{"role":"user","content":[{"type":"text","text":"hello","cache_control":{"type":"ephemeral"}},{"type":"text","text":"you"}]}]}`,
			map[string]string{"usage.input_tokens": "8", "usage.cache_read_input_tokens": "2", "usage.cache_creation_input_tokens": "2"},
		},
		{"tool", messagesBody(lookUp), map[string]string{
			"stop_reason": "tool_use", "content.#": "1", "content.0.type": "tool_use", "content.0.name": "look_up", "content.0.input.text": " the",
		}},
		{"tool cut", messagesBody(lookUp + `,"mock":{"output_tokens":20}`), map[string]string{"stop_reason": "max_tokens", "content.0.input": "{}"}},
		{"tool forbidden", messagesBody(`"tool_choice":{"type":"none"},` + lookUp), map[string]string{"content.0.type": "text"}},
		{"tool of the provider", messagesBody(`"tools":[{"type":"web_search_20250305","name":"web_search"}]`), map[string]string{"content.0.type": "text"}},
		{
			"after a tool", `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"b"}]}],` + lookUp + `}`,
			map[string]string{"content.0.type": "text"},
		},
		{"usage taken out", messagesBody(`"mock":{"usage":"absent"}`), map[string]string{"usage": ""}},
	} {
		got := r.post("/v1/messages", tt.body)
		if got.status != 200 || !gjson.Valid(got.body) || !strings.HasPrefix(got.header.Get("Request-Id"), "req_") {
			t.Errorf("%s: %d %s %s", tt.name, got.status, got.header, got.body)
			continue
		}
		for path, want := range tt.want {
			if v := got.get(path).String(); v != want {
				t.Errorf("%s: %s = %s, want %s", tt.name, path, v, want)
			}
		}
	}
}

func TestMessagesStream(t *testing.T) {
	r := onSocket(t, Config{OutputTokens: 3})
	for _, tt := range []struct {
		name, fields string
		want         []string
	}{
		{"text", `"mock":{"output_tokens":2}`, []string{
			"message_start 8+1", "content_block_start text", "ping", "content_block_delta  the", "content_block_delta  quick",
			"content_block_stop", "message_delta end_turn 8+2", "message_stop",
		}},
		{"tool", lookUp, []string{
			"message_start 8+1", "content_block_start tool_use look_up", "ping", `content_block_delta {"text":"`, "content_block_delta  the",
			`content_block_delta "}`, "content_block_stop", "message_delta tool_use 8+3", "message_stop",
		}},
		{"broken", `"mock":{"error_after":1}`, []string{
			"message_start 8+1", "content_block_start text", "ping", "content_block_delta  the", "error api_error",
		}},
	} {
		var got []string
		for _, e := range events(r.post("/v1/messages", messagesBody(`"stream":true,`+tt.fields)).body) {
			d := gjson.Parse(e.data)
			if !gjson.Valid(e.data) || d.Get("type").Str != e.name {
				t.Errorf("%s: event %s: %s", tt.name, e.name, e.data)
			}
			line := e.name
			for _, path := range []string{"content_block.type", "content_block.name", "delta.text", "delta.partial_json", "delta.stop_reason", "error.type"} {
				if s := d.Get(path).Str; s != "" {
					line += " " + s
				}
			}
			for _, path := range []string{"usage", "message.usage"} {
				if u := d.Get(path); u.Exists() {
					line += fmt.Sprintf(" %d+%d", u.Get("input_tokens").Int(), u.Get("output_tokens").Int())
				}
			}
			got = append(got, line)
		}
		testkit.Same(t, tt.want, got, tt.name)
	}
}

func TestMessagesErrors(t *testing.T) {
	r := onSocket(t, Config{RPM: 1})
	for _, tt := range []struct {
		body   string
		status int
		kind   string
	}{
		{`{"model":"m","messages":[{"role":"user","content":"hi"}]}`, 400, "invalid_request_error"}, // max_tokens is required
		{messagesBody(`"stream":1`), 400, "invalid_request_error"},
		{messagesBody(`"mock":{"error_status":529}`), 529, "overloaded_error"},
		{messagesBody(`"mock":{"error_status":500}`), 500, "api_error"},
		{messagesBody(`"stream":false`), 200, ""},
		{messagesBody(`"stream":false`), 429, "rate_limit_error"},
	} {
		got := r.post("/v1/messages", tt.body)
		shape := "error"
		if tt.kind == "" {
			shape = "message"
		}
		if got.status != tt.status || got.get("error.type").Str != tt.kind || got.get("type").Str != shape {
			t.Errorf("%s: %d %s, want %d %s", tt.body, got.status, got.body, tt.status, tt.kind)
		}
		if (tt.status == 429) != (got.header.Get("Retry-After") != "") {
			t.Errorf("%s: Retry-After %q", tt.body, got.header.Get("Retry-After"))
		}
	}
}

func TestCountTokens(t *testing.T) {
	r := onSocket(t, Config{})
	const body = `{"model":"m","system":"be brief","messages":[{"role":"user","content":"hi"}]}`
	if got := r.post("/v1/messages/count_tokens", body); got.status != 200 || got.body != `{"input_tokens":10}` {
		t.Errorf("got %d %s", got.status, got.body)
	}
	if n := PromptTokens([]byte(body), "/v1/messages"); n != 10 {
		t.Errorf("the same prompt is %d tokens by the rule", n)
	}
	r.wantStats(Stats{Requests: 1, Admitted: 1, Completed: 1, PromptTokens: 10})
}

func TestResponsesToolStream(t *testing.T) {
	r := onSocket(t, Config{OutputTokens: 3})
	got := r.post("/v1/responses", `{"model":"m","stream":true,"input":"hello","tools":[{"type":"function","name":"look_up"}]}`)
	var names []string
	arguments := ""
	for i, e := range events(got.body) {
		d := gjson.Parse(e.data)
		if !gjson.Valid(e.data) || d.Get("type").Str != e.name || d.Get("sequence_number").Int() != int64(i) {
			t.Errorf("event %d: %s %s", i, e.name, e.data)
		}
		names = append(names, e.name)
		arguments += d.Get("delta").Str
	}
	want := []string{
		"response.created", "response.in_progress", "response.output_item.added",
		"response.function_call_arguments.delta", "response.function_call_arguments.delta", "response.function_call_arguments.delta",
		"response.function_call_arguments.done", "response.output_item.done", "response.completed",
	}
	testkit.Same(t, want, names, "events")
	if arguments != `{"text":" the"}` {
		t.Errorf("arguments %s", arguments)
	}
}
