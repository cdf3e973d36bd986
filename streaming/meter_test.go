package streaming

import (
	"encoding/json"
	"strings"
	"testing"

	openai "github.com/sashabaranov/go-openai"
)

func TestMeterKinds(t *testing.T) {
	tests := []struct {
		name, data string
		want       Kind
		deltas     int64
	}{
		{"", ``, KeepAlive, 0},
		{"", ` [DONE] `, Final, 0},
		{"", `"[DONE]"`, Opaque, 0},
		{"", `ping`, Opaque, 0},
		{"error", `ping`, Failure, 0},
		{"error", `{"code":3}`, Failure, 0},
		{"error", `{"type":"x","message":"y"}`, Failure, 0},
		{"", `{"type":"error","message":"y"}`, Failure, 0},
		{"", `{"error":{"message":"x"}}`, Failure, 0},
		{"", `{"error":"x"}`, Failure, 0},
		{"", `{"error":null,"choices":[{"delta":{"content":"a"}}]}`, Delta, 1},
		{"", `{"error":{"code":502},"choices":[{"delta":{"content":""},"finish_reason":"error"}]}`, Failure, 0},
		{"", `{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}`, Other, 0},
		{"", `{"choices":[{"index":0,"delta":{"content":null}}]}`, Other, 0},
		{"", `{"choices":[{"index":0,"delta":{"content":"\""}}]}`, Delta, 1},
		{"", `{"choices":[{"index":0,"delta":{"reasoning_content":"a"}}]}`, Delta, 1},
		{"", `{"choices":[{"index":0,"delta":{"reasoning":"a"}}]}`, Delta, 1},
		{"", `{"choices":[{"index":0,"delta":{"content":"a","reasoning":"a"}}]}`, Delta, 1},
		{"", `{"choices":[{"index":0,"delta":{"refusal":"a"}}]}`, Delta, 1},
		{"", `{"choices":[{"index":0,"delta":{"function_call":{"name":"f","arguments":""}}}]}`, Delta, 1},
		{"", `{"choices":[{"index":0,"delta":{"tool_calls":[{"function":{"arguments":""}}]}}]}`, Other, 0},
		{"", `{"choices":[{"index":0,"delta":{"tool_calls":[{"id":"1"},{"function":{"arguments":"{"}}]}}]}`, Delta, 1},
		{"", `{"choices":[{"index":0,"delta":{"tool_calls":[{"type":"custom","custom":{"input":"a"}}]}}]}`, Delta, 1},
		{"", `{"choices":[{"index":0,"delta":{"audio":{"id":"a","transcript":"b"}}}]}`, Delta, 1},
		{"", `{"choices":[{"index":0,"delta":{"content":[{"type":"thinking"}]}}]}`, Delta, 1},
		{"", `{"choices":[{"index":0,"delta":{"content":[ ]}}]}`, Other, 0},
		{"", `{"choices":[{"delta":{"content":"a"}},{"index":1,"delta":{"content":"a"}},{"index":2,"delta":{}}]}`, Delta, 2},
		{"", `{"choices":[{"index":0,"text":"a"}]}`, Delta, 1},
		{"", `{"choices":[{"index":0,"text":""}]}`, Other, 0},
		{"", `{"choices":[],"usage":{"prompt_tokens":1}}`, UsageOnly, 0},
		{"", "{ \"choices\" : [ ] ,\n \"usage\" : { \"prompt_tokens\" : 1 } }", UsageOnly, 0},
		{"", `{"choices":[],"usage":{}}`, UsageOnly, 0},
		{"", `{"choices":[],"usage":null}`, Other, 0},
		{"", `{"choices":null,"usage":{"prompt_tokens":1}}`, Other, 0},
		{"", `{"usage":{"prompt_tokens":1}}`, Other, 0},
		{"", `{"choices":[],"usage":{"prompt_tokens":1},"error":{"message":"x"}}`, Failure, 0},
		{"", `{"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":1}}`, Delta, 1},
		{"response.output_text.delta", `{"type":"response.output_text.delta","delta":"a"}`, Delta, 1},
		{"response.output_text.delta", `{"delta":"a"}`, Delta, 1},
		{"", `{"type":"response.output_text.delta","delta":""}`, Other, 0},
		{"", `{"type":"response.function_call_arguments.delta","delta":"{"}`, Delta, 1},
		{"", `{"type":"response.reasoning_summary_text.delta","delta":"a"}`, Delta, 1},
		{"", `{"type":"response.created","response":{"usage":null}}`, Other, 0},
		{"", `{"type":"response.completed","response":{"usage":{"input_tokens":1}}}`, Final, 0},
		{"response.incomplete", `{"response":{}}`, Final, 0},
		{"", `{"type":"response.failed","response":{"error":{"code":"x"}}}`, Failure, 0},
		// Broken JSON counts for nothing, wherever it breaks.
		{"", `{"choices":[{"delta":{"content":"a"}}]`, Opaque, 0},
		{"", `{"choices":[{"delta":{"content":"a`, Opaque, 0},
		{"", `{"choices":[],"usage":{"prompt_tokens":1}}}`, Opaque, 0},
		{"", `{"choices":[] "usage":{"prompt_tokens":1}}`, Opaque, 0},
		{"", `{"error":}`, Opaque, 0},
		{"", `[1]`, Opaque, 0},
	}
	for _, tt := range tests {
		var m Meter
		if got := m.Observe([]byte(tt.name), []byte(tt.data)); got != tt.want || m.Deltas() != tt.deltas {
			t.Errorf("event %q, %s: got %v with %d deltas, want %v with %d",
				tt.name, tt.data, got, m.Deltas(), tt.want, tt.deltas)
		}
		if m.Failed() != (tt.want == Failure) {
			t.Errorf("event %q, %s: Failed = %v", tt.name, tt.data, m.Failed())
		}
	}
}

func TestReadUsage(t *testing.T) {
	tests := []struct {
		object string
		want   Usage
		ok     bool
	}{
		{`{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}`, Usage{Input: 3, Output: 4}, true},
		{`{"input_tokens":3,"output_tokens":4}`, Usage{Input: 3, Output: 4}, true},
		{`{"prompt_tokens":3,"input_tokens":0,"output_tokens":0,"completion_tokens":4}`, Usage{Input: 3, Output: 4}, true},
		{`{"prompt_tokens":3,"total_tokens":3}`, Usage{Input: 3}, true},
		{`{"total_tokens":3}`, Usage{Input: 3}, true},
		{`{"prompt_tokens":0,"completion_tokens":0}`, Usage{}, true},
		{
			`{"prompt_tokens":9,"completion_tokens":8,"prompt_tokens_details":{"cached_tokens":5,"audio_tokens":2},` +
				`"completion_tokens_details":{"reasoning_tokens":6,"audio_tokens":1}}`,
			Usage{Input: 9, CachedInput: 5, Output: 8, Reasoning: 6, Audio: 3},
			true,
		},
		{
			`{"input_tokens":9,"output_tokens":8,"input_tokens_details":{"cached_tokens":5},"output_tokens_details":{"reasoning_tokens":6}}`,
			Usage{Input: 9, CachedInput: 5, Output: 8, Reasoning: 6},
			true,
		},
		{
			`{"prompt_tokens":2,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":5,"audio_tokens":5},` +
				`"completion_tokens_details":{"reasoning_tokens":6,"audio_tokens":6}}`,
			Usage{Input: 2, CachedInput: 2, Output: 3, Reasoning: 3, Audio: 5},
			true,
		},
		{`{"prompt_tokens":3,"prompt_tokens_details":null,"completion_tokens_details":[]}`, Usage{Input: 3}, true},
		{`{"prompt_tokens":1000000000000,"completion_tokens":1}`, Usage{Input: 1e12, Output: 1}, true},
		{`{"prompt_tokens":1000000000001,"completion_tokens":1}`, Usage{Output: 1}, true},
		{`{"prompt_tokens":-1,"completion_tokens":1}`, Usage{Output: 1}, true},
		{`{"prompt_tokens":1.5,"completion_tokens":1}`, Usage{Output: 1}, true},
		{`{"prompt_tokens":1e3,"completion_tokens":1}`, Usage{Output: 1}, true},
		{`{"prompt_tokens":"12","completion_tokens":1}`, Usage{Output: 1}, true},
		{`{"prompt_tokens":99999999999999999999999,"completion_tokens":1}`, Usage{Output: 1}, true},
		{`{"prompt_tokens":012}`, Usage{}, false},
		{`{"prompt_tokens":1e400}`, Usage{}, false},
		{`{"type":"duration","seconds":3}`, Usage{}, false},
		{`{}`, Usage{}, false},
		{`{"prompt_tokens":1`, Usage{}, false},
		{`null`, Usage{}, false},
		{``, Usage{}, false},
	}
	for _, tt := range tests {
		if got, ok := readUsage([]byte(tt.object)); got != tt.want || (ok != nothing) != tt.ok {
			t.Errorf("%s: got %+v, %v; want %+v, %v", tt.object, got, ok, tt.want, tt.ok)
		}
	}
}

// TestReadUsageOfTheClient: what go-openai writes is read as what it meant.
func TestReadUsageOfTheClient(t *testing.T) {
	object, err := json.Marshal(openai.Usage{
		PromptTokens: 10, CompletionTokens: 20, TotalTokens: 30,
		PromptTokensDetails:     &openai.PromptTokensDetails{AudioTokens: 1, CachedTokens: 2},
		CompletionTokensDetails: &openai.CompletionTokensDetails{AudioTokens: 3, ReasoningTokens: 4},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := Usage{Input: 10, CachedInput: 2, Output: 20, Reasoning: 4, Audio: 4}
	if got, ok := readUsage(object); ok == nothing || got != want {
		t.Errorf("got %+v, %v; want %+v", got, ok, want)
	}
}

func TestMeterLastUsageWins(t *testing.T) {
	var m Meter
	for _, data := range []string{
		`{"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":5,"completion_tokens":1}}`,
		`{"choices":[{"delta":{"content":"b"}}],"usage":{"prompt_tokens":5,"completion_tokens":2}}`,
		`{"choices":[{"delta":{"content":"c"}}],"usage":null}`,
		`{"choices":[],"usage":{"queue_time":3}}`,
	} {
		m.Observe(nil, []byte(data))
	}
	if u, ok := m.Usage(); !ok || u != (Usage{Input: 5, Output: 2}) {
		t.Errorf("got %+v, %v; want the last one reported, never a sum", u, ok)
	}
}

func TestMeterFinished(t *testing.T) {
	chunk := func(index int, reason string) string {
		b, _ := json.Marshal(map[string]any{"choices": []any{map[string]any{"index": index, "delta": struct{}{}, "finish_reason": reason}}})
		return string(b)
	}
	open := func(index int) string {
		b, _ := json.Marshal(map[string]any{"choices": []any{map[string]any{"index": index, "finish_reason": nil}}})
		return string(b)
	}
	tests := []struct {
		data []string
		want bool
	}{
		{nil, false},
		{[]string{open(0)}, false},
		{[]string{open(0), chunk(0, "stop")}, true},
		{[]string{open(0), chunk(0, "")}, false},
		{[]string{open(0), open(1), chunk(0, "stop")}, false},
		{[]string{open(0), open(1), chunk(0, "stop"), chunk(1, "length")}, true},
		{[]string{open(127), open(63), open(64), chunk(64, "stop"), chunk(127, "stop")}, false},
		{[]string{open(5000), chunk(5000, "stop")}, true},
		{[]string{"[DONE]"}, true},
		{[]string{open(0), "[DONE]"}, true},
		{[]string{`{"type":"response.completed"}`}, true},
		{[]string{`{"type":"response.failed"}`}, false},
		{[]string{`{"type":"image_generation.completed"}`}, true},
	}
	for _, tt := range tests {
		var m Meter
		for _, d := range tt.data {
			m.Observe(nil, []byte(d))
		}
		if m.Finished() != tt.want {
			t.Errorf("%v: Finished = %v", tt.data, m.Finished())
		}
	}
}

// TestMeterDepth: brackets without end cost neither stack nor more than linear time.
func TestMeterDepth(t *testing.T) {
	for _, unit := range []string{"[", "{", `{"a":`, `[{"choices":`, `\"`, `"`, `{"usage":`} {
		deep := strings.Repeat(unit, (1<<20)/len(unit))
		for _, head := range []string{``, `{"choices":`, `{"usage":`, `{"response":`, `{"choices":[{"delta":`, `{"a":"`} {
			var m Meter
			if got := m.Observe(nil, []byte(head+deep)); got != Opaque {
				t.Errorf("%s%s…: got %v", head, unit, got)
			}
			f := finder{limit: 1 << 10}
			f.feed([]byte(head + deep))
		}
	}
}

func TestMeterAllocs(t *testing.T) {
	var m Meter
	chunks := [][]byte{
		[]byte(chatChunk),
		[]byte(`{"choices":[{"index":0,"delta":{"content":"a \"quoted\" \u00fc\n"}}],"usage":{"prompt_tokens":1,"completion_tokens":3}}`),
		[]byte(`{"type":"response.output_text.delta","sequence_number":3,"delta":"Hel"}`),
		[]byte(`[DONE]`),
	}
	got := testing.AllocsPerRun(100, func() {
		for _, c := range chunks {
			m.Observe(nil, c)
		}
	})
	if got != 0 {
		t.Errorf("%v allocations, want 0", got)
	}
}

// usageOracle reads usage as encoding/json sees it.
func usageOracle(object map[string]json.RawMessage) (Usage, bool) {
	get := func(m map[string]json.RawMessage, name string) int64 {
		var n int64
		raw, ok := m[name]
		if !ok || string(raw) == "null" || json.Unmarshal(raw, &n) != nil || n < 0 || n > 1e12 || raw[0] == '-' {
			return -1
		}
		return n
	}
	sub := func(name string) (m map[string]json.RawMessage) {
		if json.Unmarshal(object[name], &m) != nil {
			return nil
		}
		return m
	}
	in, out := get(object, "prompt_tokens"), get(object, "completion_tokens")
	if in < 0 {
		in = get(object, "input_tokens")
	}
	if out < 0 {
		out = get(object, "output_tokens")
	}
	if in < 0 && out < 0 {
		in = get(object, "total_tokens")
	}
	if in < 0 && out < 0 {
		return Usage{}, false
	}
	read := max(0, get(object, "cache_read_input_tokens"))
	u := Usage{Input: max(0, in) + read + max(0, get(object, "cache_creation_input_tokens")), Output: max(0, out)}
	p, c := sub("prompt_tokens_details"), sub("completion_tokens_details")
	u.CachedInput = min(u.Input, max(read, get(p, "cached_tokens")))
	u.Reasoning = min(u.Output, max(0, get(c, "reasoning_tokens")))
	u.Audio = min(u.Input, max(0, get(p, "audio_tokens"))) + min(u.Output, max(0, get(c, "audio_tokens")))
	return u, true
}

// oracleUsage is what a document's top-level usage says; ok is false when the oracle has no opinion: keys
// written with escapes, two members of the same name told apart by order, no JSON object.
func oracleUsage(data []byte) (u Usage, reported, ok bool) {
	s := string(data)
	if strings.Contains(s, `\`) || strings.Contains(s, "put_tokens_details") || strings.Contains(s, "put_token_details") {
		return u, false, false
	}
	var doc, object map[string]json.RawMessage
	if json.Unmarshal(data, &doc) != nil || doc == nil {
		return u, false, false
	}
	if strings.Count(s, `"usage"`) > 1 {
		return u, false, false
	}
	if json.Unmarshal(doc["usage"], &object) == nil && object != nil {
		u, reported = usageOracle(object)
	}
	return u, reported, true
}

func FuzzMeter(f *testing.F) {
	f.Add([]byte(`{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":1}}}`))
	f.Add([]byte(`{"a":[{"usage":{"prompt_tokens":1}}],"usage": {"input_tokens":1}}`))
	f.Add([]byte(chatChunk))
	f.Fuzz(func(t *testing.T, data []byte) {
		var m Meter
		kind := m.Observe(nil, data)
		want, reported, ok := oracleUsage(data)
		if !ok || strings.Contains(string(data), `"response"`) {
			return
		}
		if kind == Opaque {
			t.Fatalf("%s: valid, but not understood", data)
		}
		if got, gotOK := m.Usage(); got != want || gotOK != reported {
			t.Fatalf("%s: got %+v, %v; want %+v, %v", data, got, gotOK, want, reported)
		}
	})
}
