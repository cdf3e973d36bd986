package sdk

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	goopenai "github.com/sashabaranov/go-openai"

	"github.com/llmgov/llmgov/internal/test/e2e/harness/sockets"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/tenants"
)

// goOpenAI is sashabaranov/go-openai as tenant acme.
func goOpenAI(s *sockets.Stack, tr *sockets.Transport, prefix string) *goopenai.Client {
	cfg := goopenai.DefaultConfig(sockets.Key("acme"))
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
			c := goOpenAI(s, tr, door.prefix)
			t.Run("chat", func(t *testing.T) { testGoChat(t, s, c) })
			t.Run("tools", func(t *testing.T) { testGoTools(t, c) })
			t.Run("completions", func(t *testing.T) { testGoCompletions(t, c) })
			t.Run("embeddings", func(t *testing.T) { testGoEmbeddings(t, c) })
			t.Run("models", func(t *testing.T) { testGoModels(t, c) })
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

func testGoCompletions(t *testing.T, c *goopenai.Client) {
	req := goopenai.CompletionRequest{Model: goopenai.GPT3Dot5TurboInstruct, Prompt: "Once upon a time", MaxTokens: 12}
	plain := testkit.Must(c.CreateCompletion(t.Context(), req))(t)
	stream := testkit.Must(c.CreateCompletionStream(t.Context(), req))(t)
	defer stream.Close()
	text := ""
	for {
		chunk, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(chunk.Choices) == 0 {
			t.Fatalf("usage was not asked for, but a chunk tells it: %+v", chunk)
		}
		text += chunk.Choices[0].Text
	}
	if want := plain.Choices[0].Text; text != want || want == "" || plain.Usage.CompletionTokens != 12 {
		t.Errorf("streamed %q, plain it is %q of %d tokens", text, want, plain.Usage.CompletionTokens)
	}
}

func testGoEmbeddings(t *testing.T, c *goopenai.Client) {
	get := func(format goopenai.EmbeddingEncodingFormat) []goopenai.Embedding {
		resp, err := c.CreateEmbeddings(t.Context(), goopenai.EmbeddingRequestStrings{
			Input: []string{"one", "two"}, Model: goopenai.SmallEmbedding3, EncodingFormat: format, Dimensions: 8,
		})
		if err != nil {
			t.Fatalf("%s: %v", format, err)
		}
		return resp.Data
	}
	floats := get(goopenai.EmbeddingEncodingFormatFloat)
	base64 := get(goopenai.EmbeddingEncodingFormatBase64)
	if len(floats) != 2 || len(base64) != 2 {
		t.Fatalf("%d and %d embeddings of two texts", len(floats), len(base64))
	}
	for i := range floats {
		if len(floats[i].Embedding) != 8 || len(base64[i].Embedding) != 8 {
			t.Fatalf("dimensions: %d as floats, %d as base64, want 8", len(floats[i].Embedding), len(base64[i].Embedding))
		}
		for k, v := range floats[i].Embedding {
			if d := v - base64[i].Embedding[k]; d > 1e-6 || d < -1e-6 {
				t.Errorf("embedding %d[%d] is %v as float, %v as base64", i, k, v, base64[i].Embedding[k])
			}
		}
	}
}

func testGoModels(t *testing.T, c *goopenai.Client) {
	list := testkit.Must(c.ListModels(t.Context()))(t)
	var names []string
	for _, m := range list.Models {
		names = append(names, m.ID)
	}
	if diff := cmp.Diff([]string{"gpt-4o", "gpt-4o-mini", "o4-mini", "omni-moderation-latest", "text-embedding-3-small"}, names); diff != "" {
		t.Errorf("models (-want +got):\n%s", diff)
	}
	if m, err := c.GetModel(t.Context(), "gpt-4o"); err != nil || m.ID != "gpt-4o" || m.Object != "model" {
		t.Errorf("gpt-4o is %+v, %v", m, err)
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

func TestGoOpenAI_RateLimited(t *testing.T) {
	s := sockets.New(t, sockets.World{Tenants: []tenants.Tenant{sockets.Tenant("acme", func(t *tenants.Tenant) { t.RPM = 1 })}})
	tr := &sockets.Transport{}
	c := goOpenAI(s, tr, "/v1")
	testkit.Must(c.CreateChatCompletion(t.Context(), goChat(nil)))(t)
	check := func(err error) {
		t.Helper()
		e := goError(t, err)
		a := tr.Last(t)
		if e.HTTPStatusCode != http.StatusTooManyRequests || e.Code != "rate_limit_exceeded" || e.Type != "requests" {
			t.Errorf("got %d %v %s, want 429 rate_limit_exceeded requests", e.HTTPStatusCode, e.Code, e.Type)
		}
		for _, part := range []string{"acme", "Limit 1", "Used 1", "Please try again in "} {
			if !strings.Contains(e.Message, part) {
				t.Errorf("the message %q does not say %q", e.Message, part)
			}
		}
		if d := sockets.RetryAfter(t, a.Header); d < sdkMinuteLess || d > sdkMinuteMore {
			t.Errorf("come back in %s; the minute began a moment ago", d)
		}
		if a.Header.Get("X-Request-Id") == "" || a.Header.Get("X-Ratelimit-Remaining-Requests") != "0" {
			t.Errorf("headers of a refusal: %v", a.Header)
		}
	}
	_, err := c.CreateChatCompletion(t.Context(), goChat(nil))
	check(err)
	_, err = goStream(t.Context(), c, goChat(nil))
	check(err)
	if n := s.Seen.Count(); n != 1 {
		t.Errorf("the upstream saw %d calls, want 1", n)
	}
}

func TestGoOpenAI_Refusals(t *testing.T) {
	s := sockets.New(t, sockets.World{
		Pool:    sockets.Pool(func(p *tenants.Pool) { p.Models = []string{"gpt-4o", "o4-mini"} }),
		Tenants: []tenants.Tenant{sockets.Tenant("acme", func(t *tenants.Tenant) { t.Models = []string{"gpt-4o"} })},
	})
	for _, tc := range []struct {
		name   string
		key    string
		model  string
		status int
		code   string
	}{
		{"unknown key", "wrong", "gpt-4o", 401, "invalid_api_key"},
		{"no key", "", "gpt-4o", 401, "invalid_api_key"},
		{"model not granted", sockets.Key("acme"), "o4-mini", 403, "model_not_allowed"},
		{"model of no pool", sockets.Key("acme"), "claude", 404, "model_not_found"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg := goopenai.DefaultConfig(tc.key)
			cfg.BaseURL = s.Data.URL + "/v1"
			cfg.HTTPClient = s.Client
			c := goopenai.NewClientWithConfig(cfg)
			_, plain := c.CreateChatCompletion(t.Context(), goChat(func(r *goopenai.ChatCompletionRequest) { r.Model = tc.model }))
			_, stream := goStream(t.Context(), c, goChat(func(r *goopenai.ChatCompletionRequest) { r.Model = tc.model }))
			for _, err := range []error{plain, stream} {
				if e := goError(t, err); e.HTTPStatusCode != tc.status || e.Code != tc.code || e.Type == "" || e.Message == "" {
					t.Errorf("got %d %v (%s), want %d %s", e.HTTPStatusCode, e.Code, e.Message, tc.status, tc.code)
				}
			}
		})
	}
	s.WantUnused("acme")
	if n := s.Seen.Count(); n != 0 {
		t.Errorf("the upstream saw %d of the refused calls", n)
	}
}

// What breaks in mid-stream must reach the caller as an error, never as an end.
func TestGoOpenAI_BrokenStream(t *testing.T) {
	for _, tc := range sdkBreaks {
		t.Run(tc.name, func(t *testing.T) {
			s := sockets.New(t, sockets.World{})
			c := goOpenAI(s, &sockets.Transport{Hook: tc.hook}, "/v1")
			chunks, err := goStream(t.Context(), c, goChat(nil))
			if err == nil || errors.Is(err, io.EOF) {
				t.Fatalf("a broken stream ended with %v", err)
			}
			if e := goError(t, err); !strings.Contains(e.Message, tc.message) {
				t.Errorf("the error says %q, want %q", e.Message, tc.message)
			}
			if len(chunks) < 3 {
				t.Errorf("%d chunks arrived before the break", len(chunks))
			}
			s.WaitIdle()
			if in, out := s.Charged("input"), s.Charged("output"); in == 0 || out == 0 {
				t.Errorf("charged %d + %d tokens for what was produced before the break", in, out)
			}
		})
	}
}

func TestGoOpenAI_Abort(t *testing.T) {
	s := sockets.New(t, sockets.World{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := goOpenAI(s, &sockets.Transport{Hook: sdkSlowHook}, "/v1")
	stream := testkit.Must(c.CreateChatCompletionStream(ctx, goChat(nil)))(t)
	defer stream.Close()
	for range 3 {
		testkit.Must(stream.Recv())(t)
	}
	wantRunning(s)
	cancel()
	wantCancelled(s)
	for buffered := 0; ; buffered++ { // what the client had read when it cancelled
		_, err := stream.Recv()
		if err != nil {
			return
		}
		if buffered > 10 {
			t.Fatal("a cancelled stream goes on")
		}
	}
}
