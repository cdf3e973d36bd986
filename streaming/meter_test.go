package streaming

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"strings"
	"testing"

	"github.com/llmgov/llmgov/internal/test/testkit"
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
		{"", `{"choices":[{"delta":{"content":""},"finish_reason":"error"}]}`, Failure, 0},
		{"", `{"choices":[{"text":"","error":{"code":502}}]}`, Failure, 0},
		{"", `{"choices":[{"text":"error","error":null,"finish_reason":null}]}`, Delta, 1},
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
		{"", `{"id":"1","object":"chat.completion.chunk","usage":{"prompt_tokens":1}}`, UsageOnly, 0},
		{"", `{"choices":[],"usage":null}`, Other, 0},
		{"", `{"choices":null,"usage":{"prompt_tokens":1}}`, UsageOnly, 0},
		{"", `{"usage":{"prompt_tokens":1}}`, UsageOnly, 0},
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
			Usage{Input: 9, CachedInput: 5, Output: 8, Reasoning: 6, AudioInput: 2, AudioOutput: 1},
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
			Usage{Input: 2, CachedInput: 2, Output: 3, Reasoning: 3, AudioOutput: 3},
			true,
		},
		{ // of the sound, what was cached is cached
			`{"total_tokens":25,"input_tokens":20,"output_tokens":5,"input_token_details":{"cached_tokens":12,"text_tokens":5,"audio_tokens":15,` +
				`"cached_tokens_details":{"text_tokens":3,"audio_tokens":9}},"output_token_details":{"text_tokens":1,"audio_tokens":4}}`,
			Usage{Input: 20, CachedInput: 12, Output: 5, AudioInput: 6, AudioOutput: 4},
			true,
		},
		// The total decides on what contains what.
		{`{"completion_tokens":5,"total_tokens":15}`, Usage{Input: 10, Output: 5}, true},
		{`{"prompt_tokens":5,"total_tokens":15}`, Usage{Input: 15}, true},
		{`{"prompt_tokens":5,"completion_tokens":2,"total_tokens":15}`, Usage{Input: 5, Output: 10, Reasoning: 8}, true},
		{`{"prompt_tokens":5,"completion_tokens":2,"total_tokens":6}`, Usage{Input: 5, Output: 2}, true},
		{`{"prompt_tokens":5,"completion_tokens":2,"total_tokens":15,"completion_tokens_details":{"reasoning_tokens":9}}`, Usage{Input: 5, Output: 10, Reasoning: 9}, true},
		{`{"prompt_tokens":25,"completion_tokens":1,"total_tokens":26,"cache_read_input_tokens":20}`, Usage{Input: 25, CachedInput: 20, Output: 1}, true},
		{`{"prompt_tokens":25,"completion_tokens":1,"total_tokens":46,"cache_read_input_tokens":20}`, Usage{Input: 45, CachedInput: 20, Output: 1}, true},
		{`{"prompt_tokens":25,"completion_tokens":1,"cache_read_input_tokens":20}`, Usage{Input: 25, CachedInput: 20, Output: 1}, true},
		{`{"prompt_tokens":5,"completion_tokens":1,"total_tokens":6,"cache_read_input_tokens":20}`, Usage{Input: 25, CachedInput: 20, Output: 1}, true},
		{`{"input_tokens":25,"output_tokens":1,"cache_read_input_tokens":20}`, Usage{Input: 45, CachedInput: 20, Output: 1}, true},
		{`{"input_tokens":25,"output_tokens":1,"total_tokens":26,"cache_read_input_tokens":20}`, Usage{Input: 25, CachedInput: 20, Output: 1}, true},
		{`{"input_tokens":25,"input_tokens_details":{"cached_tokens":20},"output_tokens":1,"cache_read_input_tokens":20}`, Usage{Input: 25, CachedInput: 20, Output: 1}, true},
		{`{"prompt_tokens":0,"input_tokens":5,"output_tokens":2,"completion_tokens":0}`, Usage{Input: 5, Output: 2}, true},
		{`{"prompt_tokens":5,"completion_tokens":1,"cached_tokens":9}`, Usage{Input: 5, CachedInput: 5, Output: 1}, true},
		{`{"total_tokens":0}`, Usage{}, true},
		{`{"prompt_tokens":3,"prompt_tokens_details":null,"completion_tokens_details":[]}`, Usage{Input: 3}, true},
		{`{"prompt_tokens":1000000000000,"completion_tokens":1}`, Usage{Input: 1e12, Output: 1}, true},
		{`{"prompt_tokens":1000000000001,"completion_tokens":1}`, Usage{Output: 1}, true},
		{`{"prompt_tokens":-1,"completion_tokens":1}`, Usage{Output: 1}, true},
		{`{"prompt_tokens":1.5,"completion_tokens":1}`, Usage{Input: 2, Output: 1}, true},
		{`{"prompt_tokens":1e3,"completion_tokens":1.0}`, Usage{Input: 1000, Output: 1}, true},
		{`{"prompt_tokens":"12","completion_tokens":"0.0"}`, Usage{Input: 12}, true},
		{`{"prompt_tokens":"-12","completion_tokens":""}`, Usage{}, false},
		{`{"prompt_tokens":null,"completion_tokens":null,"total_tokens":7}`, Usage{Input: 7}, true},
		{`{"inputTokens":5,"outputTokens":2,"totalTokens":7}`, Usage{Input: 5, Output: 2}, true},
		{`{"promptTokenCount":5,"candidatesTokenCount":2,"thoughtsTokenCount":3,"totalTokenCount":10}`, Usage{Input: 5, Output: 5, Reasoning: 3}, true},
		{`{"billed_units":{"input_tokens":5,"output_tokens":2},"tokens":{"input_tokens":70,"output_tokens":2}}`, Usage{Input: 70, Output: 2}, true},
		{`{"billed_units":{"search_units":1}}`, Usage{}, false},
		{`{"tokens":{"tokens":{"input_tokens":5}}}`, Usage{}, false},
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
		if got, ok := ReadUsage([]byte(tt.object)); got != tt.want || ok != tt.ok {
			t.Errorf("%s: got %+v, %v; want %+v, %v", tt.object, got, ok, tt.want, tt.ok)
		}
	}
}

// TestReadUsageOfTheClient: what go-openai writes is read as what it meant.
func TestReadUsageOfTheClient(t *testing.T) {
	object := testkit.Must(json.Marshal(openai.Usage{
		PromptTokens: 10, CompletionTokens: 20, TotalTokens: 30,
		PromptTokensDetails:     &openai.PromptTokensDetails{AudioTokens: 1, CachedTokens: 2},
		CompletionTokensDetails: &openai.CompletionTokensDetails{AudioTokens: 3, ReasoningTokens: 4},
	}))(t)
	want := Usage{Input: 10, CachedInput: 2, Output: 20, Reasoning: 4, AudioInput: 1, AudioOutput: 3}
	if got, ok := ReadUsage(object); !ok || got != want {
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
		{[]string{"[DONE]"}, false},
		{[]string{open(0), "[DONE]"}, false}, // a role at most
		{[]string{`{}`, `{"choices":[]}`, `{"object":"chat.completion.chunk"}`, `{"type":"ping"}`, "[DONE]"}, false},
		{[]string{`{"candidates":[]}`, "[DONE]"}, true},
		{[]string{"what?", "[DONE]"}, true},
		{[]string{`{"choices":[],"usage":{"prompt_tokens":1}}`, "[DONE]"}, true},
		{[]string{open(0), chunk(0, "stop"), open(1), "[DONE]"}, true},
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
		deep := strings.Repeat(unit, testkit.Rounds(256<<10, 1<<20)/len(unit))
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
	got := testkit.Allocs(t, 100, func() {
		for _, c := range chunks {
			m.Observe(nil, c)
		}
	})
	if got != 0 {
		t.Errorf("%v allocations, want 0", got)
	}
}

// TestSpecial: of eight bytes the first quote or backslash is found, whatever stands around it.
//
// Seen to fail with: no &^quote, which takes bytes from 0xa2 on for quotes; LeadingZeros64.
func TestSpecial(t *testing.T) {
	for a := range 256 {
		for b := range 256 {
			for at := range 7 {
				text := []byte("abcdefgh")
				text[at] = byte(a)
				text[at+1] = byte(b)
				want := bytes.IndexAny(text, `"\`)
				if want < 0 {
					want = 8
				}
				if got := special(binary.LittleEndian.Uint64(text)); got != want {
					t.Fatalf("%q: %d, want %d", text, got, want)
				}
			}
		}
	}
}
