package mock

import "testing"

func TestPromptTokens(t *testing.T) {
	for _, tt := range []struct {
		path, body string
		want       int64
	}{
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":"12345"}]}`, 3 + 4 + 2},
		{"/chat/completions", `{"messages":[{"content":"1234"},{"content":null},{"content":""}]}`, 3 + 12 + 1},
		{"/v1/chat/completions", `{"messages":[{"content":[{"type":"text","text":"12345"},{"type":"image_url","image_url":{"url":"x"}},{"text":"1"}]}]}`, 3 + 4 + 3 + 765},
		{"/v1/chat/completions", `{"messages":[{"content":"\u00e9\u00e9\u00e9"}]}`, 3 + 4 + 2}, // 6 bytes when decoded
		{"/v1/chat/completions", `{"messages":[{"content":"a"}],"messages":[{"content":"12345"}]}`, 3 + 4 + 2},
		{"/v1/completions", `{"prompt":"12345"}`, 2},
		{"/v1/completions", `{"prompt":["1","12345"]}`, 3},
		{"/v1/completions", `{"prompt":[[1,2],[3]]}`, 3},
		{"/v1/embeddings", `{"input":[1,2,3,4]}`, 4},
		{"/v1/responses", `{"input":"12345","instructions":"1"}`, 3},
		{"/v1/responses", `{"input":[{"role":"user","content":"12345"},{"content":[{"type":"input_text","text":"1"}]}]}`, 3},
		{"/v1/moderations", `{"input":[{"type":"text","text":"12345"},{"type":"image_url"}]}`, 2 + 765},
		{"/v1/messages", `{"system":"1","messages":[{"content":[{"type":"text","text":"12345"}]}]}`, 3 + 4 + 2 + 1},
		{"/v1/completions", `{"prompt":`, 0},
		{"/v1/models", `{"prompt":"a"}`, 0},
	} {
		if got := PromptTokens([]byte(tt.body), tt.path); got != tt.want {
			t.Errorf("%s %s: %d, want %d", tt.path, tt.body, got, tt.want)
		}
	}
}
