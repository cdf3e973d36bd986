package mock

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

// TestPlainShapes compares a few paths of each plain answer, and that it is JSON at all.
func TestPlainShapes(t *testing.T) {
	r := onSocket(t, Config{OutputTokens: 3})
	type want map[string]string // path → raw value
	tool := `"tools":[{"type":"function","function":{"name":"look_up"}}]`
	for _, tt := range []struct {
		name, path, body string
		want             want
	}{
		{"chat", "/v1/chat/completions", chatBody(""), want{
			"object": `"chat.completion"`, "model": `"m"`, "choices.#": "1", "choices.0.message.role": `"assistant"`,
			"choices.0.message.content": `" the quick brown"`, "choices.0.finish_reason": `"stop"`,
			"usage.prompt_tokens": "8", "usage.completion_tokens": "3", "usage.total_tokens": "11",
		}},
		{"without prefix", "/chat/completions", chatBody(""), want{"object": `"chat.completion"`}},
		{"model is escaped", "/v1/chat/completions", `{"model":"a\"b\u00e9","messages":[{}]}`, want{"model": `"a\"b\u00e9"`}},
		{"the bound is the length", "/v1/chat/completions", chatBody(`"max_tokens":7`), want{
			"usage.completion_tokens": "7", "choices.0.finish_reason": `"length"`,
		}},
		{"max_completion_tokens wins", "/v1/chat/completions", chatBody(`"max_completion_tokens":2,"max_tokens":7`), want{
			"usage.completion_tokens": "2",
		}},
		{"null is absent", "/v1/chat/completions", chatBody(`"max_tokens":null,"n":null,"stream":null,"tools":null`), want{
			"usage.completion_tokens": "3",
		}},
		{"hook within the bound", "/v1/chat/completions", chatBody(`"max_tokens":7,"mock":{"output_tokens":5}`), want{
			"usage.completion_tokens": "5", "choices.0.finish_reason": `"stop"`,
		}},
		{"hook beyond the bound", "/v1/chat/completions", chatBody(`"max_tokens":7,"mock":{"output_tokens":9}`), want{
			"usage.completion_tokens": "7", "choices.0.finish_reason": `"length"`,
		}},
		{"no tokens", "/v1/chat/completions", chatBody(`"mock":{"output_tokens":0}`), want{
			"usage.completion_tokens": "0", "choices.0.message.content": `""`,
		}},
		{"n", "/v1/chat/completions", chatBody(`"n":2`), want{
			"choices.#": "2", "choices.1.index": "1", "choices.1.message.content": `" lazy dog while"`, "usage.completion_tokens": "6",
		}},
		{"tool", "/v1/chat/completions", chatBody(tool), want{
			"choices.0.finish_reason": `"tool_calls"`, "choices.0.message.content": "null",
			"choices.0.message.tool_calls.0.type":               `"function"`,
			"choices.0.message.tool_calls.0.function.name":      `"look_up"`,
			"choices.0.message.tool_calls.0.function.arguments": `"{\"text\":\" the\"}"`,
		}},
		{"tool that runs commands", "/v1/chat/completions", chatBody(`"max_tokens":64000,"tools":[{"type":"function","function":{"name":"look_up"}},
			{"type":"function","function":{"name":"bash","parameters":{"properties":{"command":{"type":"string"},"why":{"type":"string"}},"required":["command","why"]}}}]`), want{
			"choices.0.message.tool_calls.0.function.name":      `"bash"`,
			"choices.0.message.tool_calls.0.function.arguments": `"{\"command\":\"echo hi\",\"why\":\"say hi\"}"`, "usage.completion_tokens": "1",
		}},
		{"responses tool that runs commands", "/v1/responses", `{"model":"m","input":"hello","tools":[{"type":"web_search"},
			{"type":"function","name":"shell","parameters":{"properties":{"command":{"type":"array"}},"required":["command"]}}]}`, want{
			"output.0.name": `"shell"`, "output.0.arguments": `"{\"command\":[\"sh\",\"-c\",\"echo hi\"]}"`,
		}},
		{"messages tool that runs commands", "/v1/messages", `{"model":"m","max_tokens":64000,"messages":[{"role":"user","content":"hello"}],"tools":[
			{"name":"Bash","input_schema":{"properties":{"command":{"type":"string"}},"required":["command"]}}]}`, want{
			"content.0.name": `"Bash"`, "content.0.input": `{"command":"echo hi"}`, "stop_reason": `"tool_use"`,
		}},
		{"tool with one token", "/v1/chat/completions", chatBody(`"max_tokens":1,` + tool), want{
			"choices.0.message.tool_calls.0.function.arguments": `"{}"`, "choices.0.finish_reason": `"tool_calls"`,
		}},
		{"tool cut", "/v1/chat/completions", chatBody(`"max_tokens":2,"mock":{"output_tokens":9},` + tool), want{
			"choices.0.message.tool_calls.0.function.arguments": `"{\"text\":\" the"`, "choices.0.finish_reason": `"length"`,
		}},
		{"tool forbidden", "/v1/chat/completions", chatBody(`"tool_choice":"none",` + tool), want{
			"choices.0.message.content": `" the quick brown"`,
		}},
		{"after a tool", "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"a"},{"role":"tool","content":"b"}],` + tool + `}`, want{
			"choices.0.message.content": `" the quick brown"`,
		}},
		{"completions", "/v1/completions", `{"model":"m","prompt":"hello"}`, want{
			"object": `"text_completion"`, "choices.0.text": `" the quick brown"`, "choices.0.finish_reason": `"stop"`, "usage.prompt_tokens": "2",
		}},
		{"prompts times n", "/v1/completions", `{"model":"m","prompt":["a","b"],"n":2,"max_tokens":1}`, want{
			"choices.#": "4", "choices.3.index": "3", "usage.completion_tokens": "4", "usage.prompt_tokens": "2",
		}},
		{"token prompt", "/v1/completions", `{"model":"m","prompt":[1,2,3]}`, want{"choices.#": "1", "usage.prompt_tokens": "3"}},
		{"responses", "/v1/responses", `{"model":"m","input":"hello","instructions":"be brief"}`, want{
			"object": `"response"`, "status": `"completed"`, "incomplete_details": "null", "output.#": "1", "instructions": `"be brief"`,
			"output.0.type": `"message"`, "output.0.status": `"completed"`, "output.0.content.0.type": `"output_text"`,
			"output.0.content.0.text": `" the quick brown"`, "usage.input_tokens": "4", "usage.output_tokens": "3", "usage.total_tokens": "7",
		}},
		{"responses cut", "/v1/responses", `{"model":"m","input":[{"role":"user","content":"hello"}],"max_output_tokens":2}`, want{
			"status": `"incomplete"`, "incomplete_details.reason": `"max_output_tokens"`, "max_output_tokens": "2", "usage.output_tokens": "2",
		}},
		{"responses tool", "/v1/responses", `{"model":"m","input":"hello","tools":[{"type":"function","name":"look_up"}]}`, want{
			"output.#": "1", "output.0.type": `"function_call"`, "output.0.name": `"look_up"`, "output.0.status": `"completed"`,
			"output.0.arguments": `"{\"text\":\" the\"}"`, "usage.output_tokens": "3",
		}},
		{"responses tool of the provider", "/v1/responses", `{"model":"m","input":"hello","tools":[{"type":"file_search"}]}`, want{
			"output.0.type": `"message"`,
		}},
		{"responses after a tool", "/v1/responses", `{"model":"m","input":[{"type":"function_call_output","output":"b"}],"tools":[{"type":"function","name":"look_up"}]}`, want{
			"output.0.content.0.text": `" the quick brown"`,
		}},
		{"embeddings", "/v1/embeddings", `{"model":"m","input":["a","hello"]}`, want{
			"object": `"list"`, "data.#": "2", "data.1.index": "1", "data.1.object": `"embedding"`, "data.1.embedding.#": "8",
			"usage": `{"prompt_tokens":3,"total_tokens":3}`,
		}},
		{"embeddings of tokens", "/v1/embeddings", `{"model":"m","input":[[1,2],[3]],"dimensions":2}`, want{
			"data.#": "2", "data.0.embedding.#": "2", "usage.prompt_tokens": "3",
		}},
		{"moderations", "/v1/moderations", `{"input":["a","b"]}`, want{
			"model": `"omni-moderation-latest"`, "results.#": "2", "results.1.flagged": "false", "results.0.categories.self-harm/intent": "false",
		}},
		{"rerank", "/v2/rerank", `{"model":"m","query":"hello","documents":["a","b"]}`, want{"results.#": "2", "results.1.index": "1", "usage.total_tokens": "4"}},
		{"compaction", "/v1/responses/compact", `{"model":"m","input":"hello"}`, want{
			"object": `"response.compaction"`, "output.0.type": `"compaction"`, "usage.input_tokens": "2",
		}},
		{"input tokens", "/v1/responses/input_tokens", `{"model":"m","input":"hello"}`, want{"input_tokens": "2"}},
		{"usage taken out", "/v1/chat/completions", chatBody(`"mock":{"usage":"absent"}`), want{"usage": ""}},
	} {
		got := r.post(tt.path, tt.body)
		if got.status != 200 || !gjson.Valid(got.body) {
			t.Errorf("%s: %d %s", tt.name, got.status, got.body)
			continue
		}
		for path, raw := range tt.want {
			if v := got.get(path); v.Raw != raw && !(strings.HasSuffix(path, "#") && v.String() == raw) {
				t.Errorf("%s: %s = %s, want %s", tt.name, path, v, raw)
			}
		}
	}
}

func TestBadRequests(t *testing.T) {
	r := onSocket(t, Config{APIKey: ""})
	for _, tt := range []struct {
		method, path, body string
		status             int
		param, code        string
	}{
		{"POST", "/v1/chat/completions", `{"model":"m","messages":[{}]`, 400, "", ""},
		{"POST", "/v1/chat/completions", `[]`, 400, "", ""},
		{"POST", "/v1/chat/completions", ``, 400, "", ""},
		{"POST", "/v1/chat/completions", `{"messages":[{}]}`, 400, "", ""},
		{"POST", "/v1/chat/completions", `{"model":7,"messages":[{}]}`, 400, "model", ""},
		{"POST", "/v1/chat/completions", `{"model":"m"}`, 400, "messages", ""},
		{"POST", "/v1/chat/completions", `{"model":"m","messages":[]}`, 400, "messages", ""},
		{"POST", "/v1/chat/completions", chatBody(`"max_tokens":0`), 400, "max_tokens", ""},
		{"POST", "/v1/chat/completions", chatBody(`"max_tokens":1.5`), 400, "max_tokens", ""},
		{"POST", "/v1/chat/completions", chatBody(`"max_tokens":"5"`), 400, "max_tokens", ""},
		{"POST", "/v1/chat/completions", chatBody(`"max_tokens":1e300`), 400, "max_tokens", ""},
		{"POST", "/v1/chat/completions", chatBody(`"max_completion_tokens":-1`), 400, "max_completion_tokens", ""},
		{"POST", "/v1/chat/completions", chatBody(`"n":0`), 400, "n", ""},
		{"POST", "/v1/chat/completions", chatBody(`"n":128,"max_tokens":1000000`), 400, "n", ""},
		{"POST", "/v1/chat/completions", chatBody(`"stream":"yes"`), 400, "stream", ""},
		{"POST", "/v1/completions", `{"model":"m"}`, 400, "prompt", ""},
		{"POST", "/v1/responses", `{"model":"m"}`, 400, "input", ""},
		{"POST", "/v1/responses", `{"model":"m","input":"a","max_output_tokens":0}`, 400, "max_output_tokens", ""},
		{"POST", "/v1/embeddings", `{"model":"m"}`, 400, "input", ""},
		{"GET", "/v1/chat/completions", ``, 404, "", "unknown_url"},
		{"POST", "/v1/models", `{}`, 404, "", "unknown_url"},
		{"GET", "/v1chat/completions", ``, 404, "", "unknown_url"},
	} {
		got := r.do(t.Context(), tt.method, tt.path, tt.body)
		if got.status != tt.status || got.get("error.type").Str != "invalid_request_error" || got.get("error.message").Str == "" ||
			got.get("error.param").Str != tt.param || got.get("error.code").Str != tt.code {
			t.Errorf("%s %s %s: %d %s, want %d", tt.method, tt.path, tt.body, got.status, got.body, tt.status)
		}
	}
	if st := r.s.Stats(); st.Errors != 19 || st.Requests != 19 || st.Admitted != 0 {
		t.Errorf("stats %+v, want 19 requests, all of them errors", st)
	}
}

func TestKey(t *testing.T) {
	r := onSocket(t, Config{APIKey: "sk-1"})
	for _, tt := range []struct {
		name, value string
		status      int
		code        string
	}{
		{"Authorization", "Bearer sk-1", 200, ""},
		{"Api-Key", "sk-1", 200, ""},
		{"X-Api-Key", "sk-1", 200, ""},
		{"Authorization", "Bearer sk-2", 401, "invalid_api_key"},
		{"Api-Key", "", 401, ""},
	} {
		for _, path := range []string{"/v1/models", "/v1/chat/completions"} {
			status, body := withHeader(r, path, tt.name, tt.value)
			if status != tt.status || gjson.Get(body, "error.code").Str != tt.code {
				t.Errorf("%s with %s %q: %d %s, want %d", path, tt.name, tt.value, status, body, tt.status)
			}
		}
	}
	if got := r.get("/_stats"); got.status != 200 {
		t.Errorf("stats ask for a key: %d", got.status)
	}
}

func TestModels(t *testing.T) {
	r := onSocket(t, Config{Models: []string{"a", `b"c`}})
	var list struct {
		Object string
		Data   []struct{ ID, Object string }
	}
	testkit.OK(t, json.Unmarshal([]byte(r.get("/v1/models").body), &list))
	if list.Object != "list" || len(list.Data) != 2 || list.Data[1].ID != `b"c` {
		t.Errorf("got %+v", list)
	}
	if got := r.get("/models/any/name").get("id").Str; got != "any/name" {
		t.Errorf("model by id is %q", got)
	}
}

func TestEmbeddingsBase64IsTheSameVector(t *testing.T) {
	r := onSocket(t, Config{})
	const body = `{"model":"m","input":["a","b"],"dimensions":5`
	floats := r.post("/v1/embeddings", body+`}`)
	packed := r.post("/v1/embeddings", body+`,"encoding_format":"base64"}`)
	for _, i := range []string{"0", "1"} {
		var want []float32
		testkit.OK(t, json.Unmarshal([]byte(floats.get("data."+i+".embedding").Raw), &want))
		raw := testkit.Must(base64.StdEncoding.DecodeString(packed.get("data." + i + ".embedding").Str))(t)
		var got []float32
		for ; len(raw) >= 4; raw = raw[4:] {
			got = append(got, math.Float32frombits(binary.LittleEndian.Uint32(raw)))
		}
		if d := cmp.Diff(want, got); d != "" || len(got) != 5 {
			t.Errorf("vector %s (-floats +base64):\n%s", i, d)
		}
	}
}
