package sdk

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
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

var goTools = []goopenai.Tool{{
	Type:     goopenai.ToolTypeFunction,
	Function: &goopenai.FunctionDefinition{Name: "speak", Parameters: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}}}`)},
}}

// goStream reads a chat stream: its chunks, and what ended it.
func goStream(ctx context.Context, c *goopenai.Client, req goopenai.ChatCompletionRequest) ([]goopenai.ChatCompletionStreamResponse, error) {
	stream, err := c.CreateChatCompletionStream(ctx, req)
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	var chunks []goopenai.ChatCompletionStreamResponse
	for {
		chunk, err := stream.Recv()
		if err != nil {
			return chunks, err
		}
		chunks = append(chunks, chunk)
	}
}

func goText(chunks []goopenai.ChatCompletionStreamResponse) string {
	var b strings.Builder
	for _, c := range chunks {
		for _, choice := range c.Choices {
			b.WriteString(choice.Delta.Content)
		}
	}
	return b.String()
}

// sdkDoors are the ways in: where the key stands, and with or without /v1.
var sdkDoors = []struct{ name, header, prefix string }{
	{"Authorization", "", "/v1"},
	{"x-api-key without v1", "X-Api-Key", ""},
	{"api-key", "Api-Key", "/v1"},
}

func TestGoOpenAI(t *testing.T) {
	for _, door := range sdkDoors {
		t.Run(door.name, func(t *testing.T) {
			s := sockets.New(t, sockets.World{})
			tr := &sockets.Transport{Header: door.header}
			c := goOpenAI(s, tr, door.prefix, sockets.Key("acme"))
			t.Run("chat", func(t *testing.T) { testGoChat(t, s, c) })
			t.Run("tools", func(t *testing.T) { testGoTools(t, c) })
			s.WantChargedAsProduced("acme")
		})
	}
}

func testGoChat(t *testing.T, s *sockets.Stack, c *goopenai.Client) {
	plain := testkit.Must(c.CreateChatCompletion(t.Context(), goChat(nil)))(t)
	text := plain.Choices[0].Message.Content
	if text == "" || plain.Usage.TotalTokens == 0 {
		t.Fatalf("a plain answer of %q, usage %+v", text, plain.Usage)
	}

	before := s.Charged("output")
	chunks, err := goStream(t.Context(), c, goChat(nil))
	if !errors.Is(err, io.EOF) {
		t.Fatalf("the stream ended with %v", err)
	}
	if got := goText(chunks); got != text {
		t.Errorf("streamed %q, plain it is %q", got, text)
	}
	for _, chunk := range chunks {
		if len(chunk.Choices) == 0 || chunk.Usage != nil {
			t.Errorf("usage was not asked for, but a chunk tells it: %+v", chunk)
		}
	}
	s.WaitIdle()
	if got, want := s.Charged("output")-before, int64(plain.Usage.CompletionTokens); got != want {
		t.Errorf("charged %d output tokens for a stream whose usage was withheld, want %d", got, want)
	}

	chunks, err = goStream(t.Context(), c, goChat(func(r *goopenai.ChatCompletionRequest) {
		r.StreamOptions = &goopenai.StreamOptions{IncludeUsage: true}
	}))
	if !errors.Is(err, io.EOF) || len(chunks) == 0 {
		t.Fatalf("the stream ended with %v after %d chunks", err, len(chunks))
	}
	last := chunks[len(chunks)-1]
	if len(last.Choices) != 0 || last.Usage == nil {
		t.Fatalf("usage was asked for; the last chunk is %+v", last)
	}
	if diff := cmp.Diff(plain.Usage, *last.Usage); diff != "" {
		t.Errorf("usage of plain and streamed answer (-plain +streamed):\n%s", diff)
	}
	if got := goText(chunks); got != text {
		t.Errorf("streamed with usage %q, plain it is %q", got, text)
	}
}

func testGoTools(t *testing.T, c *goopenai.Client) {
	withTools := func(r *goopenai.ChatCompletionRequest) { r.Tools = goTools }
	plain := testkit.Must(c.CreateChatCompletion(t.Context(), goChat(withTools)))(t)
	choice := plain.Choices[0]
	if choice.FinishReason != goopenai.FinishReasonToolCalls || len(choice.Message.ToolCalls) != 1 {
		t.Fatalf("no tool call: %+v", choice)
	}
	want := choice.Message.ToolCalls[0].Function
	if !json.Valid([]byte(want.Arguments)) || want.Name != "speak" {
		t.Fatalf("called %+v", want)
	}

	chunks, err := goStream(t.Context(), c, goChat(withTools))
	if !errors.Is(err, io.EOF) {
		t.Fatalf("the stream ended with %v", err)
	}
	var got goopenai.FunctionCall
	for _, chunk := range chunks {
		for _, call := range chunk.Choices[0].Delta.ToolCalls {
			got.Name += call.Function.Name
			got.Arguments += call.Function.Arguments
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the streamed call (-plain +streamed):\n%s", diff)
	}

	done := testkit.Must(c.CreateChatCompletion(t.Context(), goChat(func(r *goopenai.ChatCompletionRequest) {
		r.Tools = goTools
		r.Messages = append(r.Messages, choice.Message, goopenai.ChatCompletionMessage{
			Role: goopenai.ChatMessageRoleTool, ToolCallID: choice.Message.ToolCalls[0].ID, Content: "done",
		})
	})))(t)
	if m := done.Choices[0].Message; m.Content == "" || len(m.ToolCalls) != 0 {
		t.Errorf("told what the tool said, it answers %+v", m)
	}
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
