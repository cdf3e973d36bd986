package admission_test

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/fstest"
	"testing/iotest"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/streaming"
	"github.com/llmgov/llmgov/tenants"
)

// listed are prices of the providers' public lists, in the words of files.
const listed = `
upstreams: {any: {base_url: "http://localhost:1"}}
pools: {all: {models: ["*"], upstream: any, tpm: 1000000}}
prices:
  claude-sonnet: {input: 3, cached_input: 0.3, output: 15, tool_call: 0.01, batch: 0.5,
    above: [{context: 200000, input: 6, cached_input: 0.6, output: 22.5}]}
  claude-opus: {input: 5, cached_input: 0.5, output: 25, tiers: {fast: 6}}
  claude-agent: {input: 5, cached_input: 0.5, output: 25, tool_call: 0.01, tiers: {fast: 6},
    above: [{context: 200000, input: 10, cached_input: 1, output: 37.5}]}
  gpt-5: {input: 1.25, cached_input: 0.125, output: 10, tool_call: 0.01, file_search: 0.0025, code_session: 0.03, tiers: {flex: 0.5, priority: 2}, batch: 0.5}
  gpt-long: {input: 2.5, cached_input: 0.25, output: 15, above: [{context: 272k, input: 5, cached_input: 0.5, output: 22.5}]}
  gpt-audio: {input: 2.5, output: 10, audio_input: 40, audio_output: 80}
  gpt-realtime: {input: 4, cached_input: 0.4, output: 16, audio_input: 32, audio_output: 64, image_input: 5}
  gpt-image: {input: 5, cached_input: 1.25, image_input: 10, output: 40}
  gpt-transcribe: {input: 2.5, audio_input: 6, output: 10}
  embedding: {input: 0.02, output: 0}
  gemini-pro: {input: 1.25, cached_input: 0.125, output: 10, tiers: {priority: 1.8},
    above: [{context: 200000, input: 2.5, cached_input: 0.25, output: 15}]}
  deepseek: {input: 0.28, cached_input: 0.028, output: 0.42}
  sonar: {input: 3, output: 15, per_call: 0.014, tool_call: 0.005}
`

// billed has these prices in force.
func billed(t *testing.T) *tenants.Snapshot {
	t.Helper()
	return testkit.Must(tenants.LoadFS(fstest.MapFS{
		"llmgov.yaml":    {Data: []byte(listed)},
		"tenants/a.yaml": {Data: []byte(`tenants: {a: {keys: ["sha256:1111111111111111111111111111111111111111111111111111111111111111"]}}`)},
	}, "llmgov.yaml", tenants.Options{}))(t)
}

// Each bill is worked by hand from the usage objects that providers document, by their lists of prices: in micro-dollars, which are tokens times
// dollars a million.
func TestBills(t *testing.T) {
	snap := billed(t)
	for name, tt := range map[string]struct {
		model, answer string
		batch         bool
		want          int64
	}{
		"chat": {
			model: "gpt-5", answer: `{"object":"chat.completion","service_tier":"default","choices":[{"message":{"content":"x"}}],"usage":{"prompt_tokens":2006,"completion_tokens":300,"total_tokens":2306,
			"prompt_tokens_details":{"cached_tokens":1920,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":192,"audio_tokens":0}}}`,
			want: 3348,
		}, // 86 × 1.25 = 107.5; 1920 × 0.125 = 240; 300 × 10 = 3000: 3347.5
		"chat, flex": {
			model: "gpt-5", answer: `{"choices":[{"message":{"content":"x"}}],"usage":{"prompt_tokens":1000,"completion_tokens":100},"service_tier":"flex"}`,
			want: 1125,
		}, // (1250 + 1000) × 0.5
		"chat, asked as priority, answered as standard": {
			model: "gpt-5", answer: `{"choices":[{"message":{"content":"x"}}],"usage":{"prompt_tokens":1000,"completion_tokens":100},"service_tier":"default"}`,
			want: 2250,
		},
		"chat, streamed, priority": {
			model: "gpt-5", answer: events(
				`{"object":"chat.completion.chunk","service_tier":"priority","choices":[{"index":0,"delta":{"content":"x"}}]}`,
				`{"object":"chat.completion.chunk","service_tier":"priority","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`,
				`{"object":"chat.completion.chunk","service_tier":"priority","choices":[],"usage":{"prompt_tokens":1000,"completion_tokens":100}}`, `[DONE]`),
			want: 4500,
		}, // 2250 × 2
		"chat, batch": {
			model: "gpt-5", batch: true, answer: `{"usage":{"input_tokens":1000,"output_tokens":100,"total_tokens":1100,"input_tokens_details":{"cached_tokens":0}}}`,
			want: 1125,
		},
		"chat, sound": {
			model: "gpt-audio", answer: `{"choices":[{"message":{"content":"x"}}],"usage":{"prompt_tokens":117,"completion_tokens":400,"total_tokens":517,
			"prompt_tokens_details":{"audio_tokens":100,"cached_tokens":0,"text_tokens":17},"completion_tokens_details":{"audio_tokens":300,"text_tokens":100,"reasoning_tokens":0}}}`,
			want: 29043,
		}, // 17 × 2.5 = 42.5; 100 × 40 = 4000; 300 × 80 = 24000; 100 × 10 = 1000
		"chat, written to a cache by OpenRouter": {
			model: "claude-sonnet", answer: `{"choices":[{"message":{"content":"x"}}],"usage":{"prompt_tokens":5000,"completion_tokens":10,"total_tokens":5010,
			"prompt_tokens_details":{"cached_tokens":1000,"cache_write_tokens":3000}}}`,
			want: 14700,
		}, // 1000 × 3 + 1000 × 0.3 + 3000 × 3.75 + 10 × 15
		"chat, a long prompt": {
			model: "gpt-long", answer: `{"choices":[{"message":{"content":"x"}}],"usage":{"prompt_tokens":300000,"completion_tokens":1000,"total_tokens":301000,
			"prompt_tokens_details":{"cached_tokens":200000}}}`,
			want: 622_500,
		}, // 100000 × 5 + 200000 × 0.5 + 1000 × 22.5
		"chat by Vertex": {
			model: "gemini-pro", answer: `{"choices":[{"message":{"content":"x"}}],"usage":{"prompt_tokens":250000,"completion_tokens":100,"total_tokens":250300,
			"extra_properties":{"google":{"traffic_type":"ON_DEMAND_PRIORITY"}}}}`,
			want: 1_133_100,
		}, // (250000 × 2.5 + 300 × 15, with 200 that were thought) × 1.8
		"chat by DeepSeek": {
			model: "deepseek", answer: `{"choices":[{"message":{"content":"x"}}],"usage":{"prompt_tokens":1000,"completion_tokens":100,"total_tokens":1100,"prompt_cache_hit_tokens":900,"prompt_cache_miss_tokens":100}}`,
			want: 96,
		}, // 100 × 0.28 + 900 × 0.028 + 100 × 0.42 = 95.2
		"chat by Perplexity": {
			model: "sonar", answer: `{"choices":[{"message":{"content":"x"}}],"usage":{"prompt_tokens":10,"completion_tokens":100,"total_tokens":110,"num_search_queries":3}}`,
			want: 30_530,
		}, // 10 × 3 + 100 × 15 + a call of 14000 + 3 × 5000
		"responses": {
			model: "gpt-5", answer: `{"object":"response","status":"completed","service_tier":"default","output":[{"id":"ws_1","type":"web_search_call","status":"completed","action":{"type":"search"}},
			{"type":"web_search_call","id":"ws_2"},{"type":"message","content":[{"type":"output_text","text":"web_search_call"}]}],
			"usage":{"input_tokens":328,"input_tokens_details":{"cached_tokens":128},"output_tokens":52,"output_tokens_details":{"reasoning_tokens":20},"total_tokens":380}}`,
			want: 20_786,
		}, // 200 × 1.25 + 128 × 0.125 + 52 × 10 + 2 × 10000
		"responses, with pages that a search opens": {
			model: "gpt-5", answer: `{"object":"response","status":"completed","output":[{"id":"ws_1","type":"web_search_call","status":"completed","action":{"type":"search","query":"type","sources":["open_page"]}},
			{"action":{"url":"https://example.com","type":"open_page"},"type":"web_search_call","id":"ws_2"},{"id":"ws_3","type":"web_search_call","action":{"type":"find_in_page","pattern":"x"}},
			{"type":"message","content":[{"type":"open_page","text":"x"}]},{"type":"file_search_call","id":"fs_1","queries":["type", "open_page"]},
			{"type":"tool_search_call","arguments":{"type":"open_page"}}],
			"usage":{"input_tokens":1000,"output_tokens":100,"total_tokens":1100}}`,
			want: 14_750,
		}, // 2250 + a search + one of files
		"responses, streamed, with pages that a search opens": {
			model: "gpt-5", answer: events(
				`{"type":"response.web_search_call.completed","item_id":"ws_1"}`,
				`{"type":"response.output_item.done","item":{"id":"ws_1","type":"web_search_call","status":"completed","action":{"type":"search","query":"x"}}}`,
				`{"type":"response.web_search_call.completed","item_id":"ws_2"}`,
				`{"type":"response.output_item.done","item":{"id":"ws_2","type":"web_search_call","status":"completed","action":{"type":"open_page","url":"https://example.com"}}}`,
				`{"type":"response.output_text.delta","delta":"x"}`,
				`{"type":"response.completed","response":{"object":"response","usage":{"input_tokens":1000,"output_tokens":100,"total_tokens":1100}}}`),
			want: 12_250,
		},
		"responses, streamed, with a page that could not be opened": {
			model: "gpt-5", answer: events(
				`{"type":"response.web_search_call.completed","item_id":"ws_1"}`,
				`{"type":"response.output_item.done","item":{"id":"ws_1","type":"web_search_call","status":"completed","action":{"type":"search","query":"x"}}}`,
				`{"type":"response.output_item.done","item":{"id":"ws_2","type":"web_search_call","status":"failed","action":{"type":"open_page","url":"https://example.com"}}}`,
				`{"type":"response.output_text.delta","delta":"x"}`,
				`{"type":"response.completed","response":{"object":"response","usage":{"input_tokens":1000,"output_tokens":100,"total_tokens":1100}}}`),
			want: 12_250,
		},
		"responses, streamed, with no events but of items": {
			model: "gpt-5", answer: events(
				`{"type":"response.output_item.done","item":{"type":"web_search_call","status":"failed","action":{"type":"search","query":"x"}}}`,
				`{"type":"response.output_item.done","item":{"type":"web_search_call","status":"completed","action":{"type":"find_in_page","pattern":"x"}}}`,
				`{"type":"response.output_item.done","item":{"type":"custom_call","status":"completed","action":{"type":"open_page"}}}`,
				`{"type":"response.output_item.done","item":{"type":"web_search_call","status":"completed","action":{"type":"search","query":"x"}}}`,
				`{"type":"response.output_item.done","item":{"type":"file_search_call","status":"completed"}}`,
				`{"type":"response.output_text.delta","delta":"x"}`,
				`{"type":"response.completed","response":{"object":"response","usage":{"input_tokens":1000,"output_tokens":100,"total_tokens":1100}}}`),
			want: 14_750,
		},
		"responses, files and code": {
			model: "gpt-5", answer: `{"object":"response","status":"completed","output":[{"type":"file_search_call","id":"fs_1","queries":["file_search_call"]},{"id":"fs_2","type":"file_search_call"},
			{"type":"code_interpreter_call","container_id":"cntr_1"},{"type":"code_interpreter_call","container_id":"cntr_1"},{"type":"mcp_call"}],
			"usage":{"input_tokens":1000,"output_tokens":100,"total_tokens":1100}}`,
			want: 37_250,
		}, // 2250 + 2 × 2500 + a session of 30000
		"responses, streamed, files and code": {
			model: "gpt-5", answer: events(
				`{"type":"response.file_search_call.searching","item_id":"fs_1"}`,
				`{"type":"response.file_search_call.completed","item_id":"fs_1"}`,
				`{"type":"response.code_interpreter_call.completed","item_id":"ci_1"}`,
				`{"type":"response.code_interpreter_call.completed","item_id":"ci_2"}`,
				`{"type":"response.output_text.delta","delta":"x"}`,
				`{"type":"response.completed","response":{"object":"response","usage":{"input_tokens":1000,"output_tokens":100,"total_tokens":1100}}}`),
			want: 34_750,
		}, // 2250 + 2500 + 30000
		"responses, streamed, fast answered as standard": {
			model: "gpt-5", answer: events(
				`{"type":"response.created","response":{"object":"response","service_tier":"priority","usage":null}}`,
				`{"type":"response.web_search_call.completed","item_id":"ws_1"}`,
				`{"type":"response.output_text.delta","delta":"x"}`,
				`{"type":"response.completed","response":{"object":"response","service_tier":"default","usage":{"input_tokens":1000,"output_tokens":100,"total_tokens":1100}}}`),
			want: 12_250,
		}, // 2250 + a search
		"messages": {
			model: "claude-sonnet", answer: `{"type":"message","content":[{"type":"text","text":"x"}],"usage":{"input_tokens":50,"cache_creation_input_tokens":3000,"cache_read_input_tokens":100000,"output_tokens":500,
			"cache_creation":{"ephemeral_5m_input_tokens":1000,"ephemeral_1h_input_tokens":2000},"server_tool_use":{"web_search_requests":2,"web_fetch_requests":1},"service_tier":"standard"}}`,
			want: 73_400,
		}, // 50 × 3 + 1000 × 3.75 + 2000 × 6 + 100000 × 0.3 + 500 × 15 + 2 × 10000
		"messages, streamed": {
			model: "claude-sonnet", answer: named(
				`{"type":"message_start","message":{"usage":{"input_tokens":50,"cache_creation_input_tokens":3000,"cache_read_input_tokens":100000,"output_tokens":1,
			"cache_creation":{"ephemeral_5m_input_tokens":1000,"ephemeral_1h_input_tokens":2000},"service_tier":"standard"}}}`,
				`{"type":"content_block_delta","delta":{"type":"text_delta","text":"x"}}`,
				`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":50,"cache_creation_input_tokens":3000,"cache_read_input_tokens":100000,"output_tokens":500,"server_tool_use":{"web_search_requests":1}}}`,
				`{"type":"message_stop"}`),
			want: 63_400,
		}, // as above, with one search
		"messages, a long prompt": {
			model: "claude-sonnet", answer: `{"type":"message","content":[{"type":"text","text":"x"}],"usage":{"input_tokens":1,"cache_creation_input_tokens":100000,"cache_read_input_tokens":100000,"output_tokens":100}}`,
			want: 812_256,
		}, // 1 × 6 + 100000 × 7.5 + 100000 × 0.6 + 100 × 22.5
		"messages, at the bound": {
			model: "claude-sonnet", answer: `{"type":"message","content":[{"type":"text","text":"x"}],"usage":{"input_tokens":0,"cache_creation_input_tokens":100000,"cache_read_input_tokens":100000,"output_tokens":100}}`,
			want: 406_500,
		}, // 100000 × 3.75 + 100000 × 0.3 + 100 × 15
		"messages, fast": {
			model: "claude-opus", answer: `{"type":"message","content":[{"type":"text","text":"x"}],"usage":{"input_tokens":1000,"output_tokens":100,"service_tier":"standard","speed":"fast"}}`,
			want: 45_000,
		}, // (5000 + 2500) × 6
		"messages, fast asked, standard answered": {
			model: "claude-opus", answer: `{"type":"message","content":[{"type":"text","text":"x"}],"usage":{"speed":"standard","input_tokens":1000,"output_tokens":100}}`,
			want: 7500,
		},
		"messages, with a compaction": {
			model: "claude-sonnet", answer: `{"type":"message","content":[{"type":"text","text":"x"}],"usage":{"input_tokens":1000,"output_tokens":100,"iterations":[
			{"type":"compaction","input_tokens":2000,"cache_read_input_tokens":1000,"cache_creation_input_tokens":0,"output_tokens":200},{"type":"message","input_tokens":1000,"output_tokens":100}]}}`,
			want: 13_800,
		}, // 3000 × 3 + 1000 × 0.3 + 300 × 15
		"messages, batch": {
			model: "claude-sonnet", answer: `{"type":"message","content":[{"type":"text","text":"x"}],"usage":{"input_tokens":1000,"output_tokens":100,"service_tier":"batch"}}`,
			want: 2250,
		}, // (3000 + 1500) × 0.5
		"embeddings": {
			model: "embedding", answer: `{"object":"list","data":[{"embedding":[0.1]}],"usage":{"prompt_tokens":1234,"total_tokens":1234}}`,
			want: 25,
		}, // 1234 × 0.02 = 24.68
		"images": {
			model: "gpt-image", answer: `{"created":1,"data":[{"b64_json":"x"}],"usage":{"input_tokens":373,"input_tokens_details":{"image_tokens":323,"text_tokens":50},"output_tokens":4160,"total_tokens":4533}}`,
			want: 169_880,
		}, // 50 × 5 + 323 × 10 + 4160 × 40
		"transcription": {
			model: "gpt-transcribe", answer: `{"text":"x","usage":{"type":"tokens","input_tokens":114,"input_token_details":{"text_tokens":14,"audio_tokens":100},"output_tokens":10,"total_tokens":124}}`,
			want: 735,
		}, // 14 × 2.5 + 100 × 6 + 10 × 10
		"realtime": {
			model: "gpt-realtime", answer: `{"usage":{"total_tokens":1253,"input_tokens":1132,"output_tokens":121,
			"input_token_details":{"text_tokens":119,"audio_tokens":13,"image_tokens":1000,"cached_tokens":64,"cached_tokens_details":{"text_tokens":64,"audio_tokens":0,"image_tokens":0}},
			"output_token_details":{"text_tokens":30,"audio_tokens":91}}}`,
			want: 11_966,
		}, // 55 × 4 + 13 × 32 + 1000 × 5 + 64 × 0.4 + 30 × 16 + 91 × 64 = 11965.6
	} {
		read := streamed
		if !strings.HasPrefix(tt.answer, "data:") && !strings.HasPrefix(tt.answer, "event:") {
			read = plain
		}
		for way, pieces := range map[string]func(io.Reader) io.Reader{"at once": func(r io.Reader) io.Reader { return r }, "by bytes": iotest.OneByteReader} {
			u := governor.Usage(read(pieces(strings.NewReader(tt.answer))))
			if tt.batch {
				u.Tier = "batch"
			}
			if got := snap.Price(tt.model).MicroUSD(u); got != tt.want {
				t.Errorf("%s, read %s: %+v costs %d, want %d", name, way, u, got, tt.want)
			}
		}
	}
}

// A session of an agent, call by call: what docs/costs.md says of it, and what it would be taken for if each token of input and of output had one price.
func TestBills_AgentSession(t *testing.T) {
	priced := billed(t).Price("claude-agent")
	plainly := &tenants.Price{Input: priced.Input, CachedInput: priced.Input, CacheWrite: priced.Input, CacheWriteHour: priced.Input, Output: priced.Output}
	sum, taken := int64(0), int64(0)
	for _, call := range []struct {
		usage string
		want  int64
	}{
		{`"input_tokens":20,"cache_creation_input_tokens":18000,"output_tokens":400`, 122_600}, // 20 × 5 + 18000 × 6.25 + 400 × 25
		{
			`"input_tokens":5,"cache_read_input_tokens":18000,"cache_creation_input_tokens":32000,"output_tokens":900,
			"cache_creation":{"ephemeral_5m_input_tokens":2000,"ephemeral_1h_input_tokens":30000}`, 344_025,
		}, // 5 × 5 + 18000 × 0.5 + 2000 × 6.25 + 30000 × 10 + 900 × 25
		{`"input_tokens":10,"cache_read_input_tokens":50000,"cache_creation_input_tokens":160000,"output_tokens":2000`, 2_125_100}, // 10 × 10 + 50000 × 1 + 160000 × 12.5 + 2000 × 37.5
		{`"input_tokens":3000,"cache_read_input_tokens":18000,"output_tokens":1000,"speed":"fast"`, 294_000},                       // (3000 × 5 + 18000 × 0.5 + 1000 × 25) × 6
		{`"input_tokens":3000,"cache_read_input_tokens":18000,"output_tokens":1000,"speed":"standard"`, 49_000},                    // asked as fast
		{`"input_tokens":100,"cache_read_input_tokens":21000,"output_tokens":300,"server_tool_use":{"web_search_requests":2}`, 38_500},
	} {
		u := governor.Usage(plain(strings.NewReader(`{"type":"message","content":[{"type":"text","text":"x"}],"usage":{` + call.usage + `}}`)))
		if got := priced.MicroUSD(u); got != call.want {
			t.Errorf("%s costs %d, want %d", call.usage, got, call.want)
		}
		sum += priced.MicroUSD(u)
		taken += plainly.MicroUSD(u)
	}
	if sum != 2_973_225 || taken != 1_845_675 {
		t.Errorf("the session costs %d, and would be taken for %d", sum, taken)
	}
}

func events(list ...string) string {
	return "data: " + strings.Join(lines(list), "\n\ndata: ") + "\n\n"
}

// named are events as Anthropic sends them.
func named(list ...string) (all string) {
	for _, data := range lines(list) {
		kind, _, _ := strings.Cut(strings.TrimPrefix(data, `{"type":"`), `"`)
		all += fmt.Sprintf("event: %s\ndata: %s\n\n", kind, data)
	}
	return all
}

// lines are events of a line each.
func lines(list []string) []string {
	for i := range list {
		list[i] = strings.ReplaceAll(list[i], "\n", " ")
	}
	return list
}

func plain(r io.Reader) (u streaming.Usage) {
	w := streaming.NewWhole(io.NopCloser(r), streaming.WholeOptions{End: func(res streaming.Result) { u = res.Usage }})
	_, _ = io.Copy(io.Discard, w)
	return u
}

func streamed(r io.Reader) (u streaming.Usage) {
	b := streaming.NewBody(io.NopCloser(r), streaming.Options{End: func(res streaming.Result) { u = res.Usage }})
	_, _ = io.Copy(io.Discard, b)
	return u
}
