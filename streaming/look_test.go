package streaming

import (
	"strings"
	"testing"
)

func TestOpen_Preamble(t *testing.T) {
	const (
		role   = `data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}` + "\n\n"
		prompt = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":9,\"output_tokens\":1}}}\n\n"
	)
	for name, c := range map[string]struct {
		stream string
		want   bool
	}{
		"nothing":            {"", true},
		"comments":           {": ping\n\n: ping\n\n", true},
		"a mark":             {"\ufeff: ping\n\n", true},
		"a role":             {role, true},
		"roles":              {role + strings.Replace(role, `:0`, `:1`, 1), true},
		"the prompt":         {prompt + "event: ping\ndata: {\"type\":\"ping\"}\n\n", true},
		"a block":            {prompt + `data: {"type":"content_block_start","content_block":{"type":"text","text":""}}` + "\n\n", true},
		"a text":             {"data: connecting\n\n", true},
		"a part of an event": {role + `data: {"choices":[{"index":0,"delta":{"content":"a"}}]}`, true},
		"an answer":          {role + `data: {"choices":[{"index":0,"delta":{"content":"a"}}]}` + "\n\n", false},
		"an end":             {role + `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n", false},
		"a tool":             {prompt + `data: {"type":"content_block_start","content_block":{"type":"tool_use","name":"x"}}` + "\n\n", false},
		"an error":           {role + "data: {\"error\":{\"message\":\"x\"}}\n\n", false},
		"llama.cpp's error":  {role + "error: {\"code\":500}\n\n", false},
		"an end alone":       {"data: [DONE]\n\n", false},
		"a response":         {`data: {"type":"response.created","response":{"id":"x"}}` + "\n\n", false},
		"usage":              {`data: {"choices":[],"usage":{"prompt_tokens":1}}` + "\n\n", false},
	} {
		if Open([]byte(c.stream), false).Preamble != c.want {
			t.Errorf("%s is a preamble: %v", name, !c.want)
		}
	}
}
