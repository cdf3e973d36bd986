package sdk

import (
	"errors"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
	goopenai "github.com/sashabaranov/go-openai"

	"github.com/llmgov/llmgov/internal/test/e2e/harness/sockets"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// goOpenAI is sashabaranov/go-openai with a key.
func goOpenAI(s *sockets.Stack, tr *sockets.Transport, prefix, key string) *goopenai.Client {
	cfg := goopenai.DefaultConfig(key)
	cfg.BaseURL = s.Data.URL + prefix
	cfg.HTTPClient = tr.Dial(s.T)
	return goopenai.NewClientWithConfig(cfg)
}

func goChat(edit func(*goopenai.ChatCompletionRequest)) goopenai.ChatCompletionRequest {
	r := goopenai.ChatCompletionRequest{
		Model:    "gpt-4o",
		Messages: []goopenai.ChatCompletionMessage{{Role: goopenai.ChatMessageRoleUser, Content: "Say something."}},
	}
	if edit != nil {
		edit(&r)
	}
	return r
}

// sdkDoors are the ways in: where the key stands, and with or without /v1.
var sdkDoors = []struct{ name, header, prefix string }{
	{"Authorization", "", "/v1"},
	{"x-api-key without v1", "X-Api-Key", ""},
	{"api-key", "Api-Key", "/v1"},
}

// TestGoOpenAI: a stream has the text and the usage of a plain answer. What else chats have, OpenAI's own SDK reads.
func TestGoOpenAI(t *testing.T) {
	s := sockets.New(t, sockets.World{})
	c := goOpenAI(s, &sockets.Transport{}, "/v1", sockets.Key("acme"))
	plain := testkit.Must(c.CreateChatCompletion(t.Context(), goChat(nil)))(t)
	text := plain.Choices[0].Message.Content
	stream := testkit.Must(c.CreateChatCompletionStream(t.Context(), goChat(func(r *goopenai.ChatCompletionRequest) {
		r.StreamOptions = &goopenai.StreamOptions{IncludeUsage: true}
	})))(t)
	defer stream.Close()
	streamed := ""
	var usage goopenai.Usage
	for {
		chunk, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		testkit.OK(t, err)
		for _, choice := range chunk.Choices {
			streamed += choice.Delta.Content
		}
		if chunk.Usage != nil {
			usage = *chunk.Usage
		}
	}
	if text == "" || streamed != text {
		t.Errorf("streamed %q, plain it is %q", streamed, text)
	}
	if diff := cmp.Diff(plain.Usage, usage); diff != "" || usage.TotalTokens == 0 {
		t.Errorf("usage of plain and streamed answer (-plain +streamed):\n%s", diff)
	}
	s.WantChargedAsProduced("acme")
}

// goError is the error that go-openai made of a refusal.
func goError(t *testing.T, err error) *goopenai.APIError {
	t.Helper()
	e, ok := errors.AsType[*goopenai.APIError](err)
	if !ok {
		t.Fatalf("not an API error: %v", err)
	}
	return e
}
