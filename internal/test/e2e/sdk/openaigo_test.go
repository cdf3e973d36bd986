package sdk

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"

	"github.com/llmgov/llmgov/internal/lab/mock"
	"github.com/llmgov/llmgov/internal/test/e2e/harness/sockets"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/tenants"
)

// sdkSlowHook makes an answer of 10 s, a word each 20 ms.
const sdkSlowHook = `{"output_tokens":500,"token_ms":20}`

// openAIGo is OpenAI's own SDK as tenant acme, without its retries.
func openAIGo(s *sockets.Stack, tr *sockets.Transport, prefix string, opts ...option.RequestOption) *openai.Client {
	c := openai.NewClient(append([]option.RequestOption{
		option.WithBaseURL(s.Data.URL + prefix), option.WithAPIKey(sockets.Key("acme")),
		option.WithHTTPClient(tr.Dial(s.T)), option.WithMaxRetries(0),
	}, opts...)...)
	return &c
}

func aiChat(edit func(*openai.ChatCompletionNewParams)) openai.ChatCompletionNewParams {
	p := openai.ChatCompletionNewParams{
		Model:    "gpt-4o",
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Say something.")},
	}
	if edit != nil {
		edit(&p)
	}
	return p
}

func aiTools(p *openai.ChatCompletionNewParams) {
	p.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
		Name: "speak", Parameters: shared.FunctionParameters{"type": "object"},
	})}
}

// aiStream reads a chat stream: its chunks, and what ended it.
func aiStream(ctx context.Context, c *openai.Client, p openai.ChatCompletionNewParams) ([]openai.ChatCompletionChunk, error) {
	stream := c.Chat.Completions.NewStreaming(ctx, p)
	defer stream.Close()
	var chunks []openai.ChatCompletionChunk
	for stream.Next() {
		chunks = append(chunks, stream.Current())
	}
	return chunks, stream.Err()
}

func aiText(chunks []openai.ChatCompletionChunk) string {
	var b strings.Builder
	for _, c := range chunks {
		for _, choice := range c.Choices {
			b.WriteString(choice.Delta.Content)
		}
	}
	return b.String()
}

func TestOpenAIGo(t *testing.T) {
	for _, door := range sdkDoors {
		t.Run(door.name, func(t *testing.T) {
			s := sockets.New(t, sockets.World{})
			c := openAIGo(s, &sockets.Transport{Header: door.header}, door.prefix)
			t.Run("chat", func(t *testing.T) { testAIChat(t, s, c) })
			t.Run("tools", func(t *testing.T) { testAITools(t, c) })
			t.Run("responses", func(t *testing.T) { testAIResponses(t, c) })
			t.Run("completions", func(t *testing.T) { testAICompletions(t, c) })
			t.Run("embeddings", func(t *testing.T) { testAIEmbeddings(t, s, c) })
			t.Run("models", func(t *testing.T) { testAIModels(t, c) })
			s.WantChargedAsProduced("acme")
		})
	}
}

func testAIChat(t *testing.T, s *sockets.Stack, c *openai.Client) {
	plain := testkit.Must(c.Chat.Completions.New(t.Context(), aiChat(nil)))(t)
	text := plain.Choices[0].Message.Content
	if text == "" || plain.Usage.TotalTokens == 0 {
		t.Fatalf("a plain answer of %q, usage %s", text, plain.Usage.RawJSON())
	}

	before := s.Charged("output")
	chunks := testkit.Must(aiStream(t.Context(), c, aiChat(nil)))(t)
	if got := aiText(chunks); got != text {
		t.Errorf("streamed %q, plain it is %q", got, text)
	}
	for _, chunk := range chunks {
		if len(chunk.Choices) == 0 {
			t.Errorf("usage was not asked for, but a chunk tells it: %s", chunk.RawJSON())
		}
	}
	s.WaitIdle()
	if got, want := s.Charged("output")-before, plain.Usage.CompletionTokens; got != want {
		t.Errorf("charged %d output tokens for a stream whose usage was withheld, want %d", got, want)
	}

	chunks, err := aiStream(t.Context(), c, aiChat(func(p *openai.ChatCompletionNewParams) {
		p.StreamOptions.IncludeUsage = param.NewOpt(true)
	}))
	if err != nil || len(chunks) == 0 {
		t.Fatalf("%d chunks, then %v", len(chunks), err)
	}
	last := chunks[len(chunks)-1]
	if len(last.Choices) != 0 || last.Usage.TotalTokens != plain.Usage.TotalTokens {
		t.Errorf("usage was asked for; the last chunk is %s", last.RawJSON())
	}
	var acc openai.ChatCompletionAccumulator
	for _, chunk := range chunks {
		if !acc.AddChunk(chunk) {
			t.Fatalf("the SDK cannot make sense of %s", chunk.RawJSON())
		}
	}
	if acc.Choices[0].Message.Content != text || acc.Usage.TotalTokens != plain.Usage.TotalTokens {
		t.Errorf("accumulated %q and %d tokens, plain it is %q and %d", acc.Choices[0].Message.Content, acc.Usage.TotalTokens, text, plain.Usage.TotalTokens)
	}
}

func testAITools(t *testing.T, c *openai.Client) {
	plain := testkit.Must(c.Chat.Completions.New(t.Context(), aiChat(aiTools)))(t)
	if calls := plain.Choices[0].Message.ToolCalls; len(calls) != 1 || calls[0].Function.Name != "speak" || !json.Valid([]byte(calls[0].Function.Arguments)) {
		t.Fatalf("no tool call: %s", plain.RawJSON())
	}
	chunks := testkit.Must(aiStream(t.Context(), c, aiChat(aiTools)))(t)
	var acc openai.ChatCompletionAccumulator
	for _, chunk := range chunks {
		acc.AddChunk(chunk)
	}
	want := plain.Choices[0].Message.ToolCalls[0].Function
	got := acc.Choices[0].Message.ToolCalls
	if len(got) != 1 || got[0].Function.Name != want.Name || got[0].Function.Arguments != want.Arguments {
		t.Errorf("streamed %+v, plain it is %+v", got, want)
	}

	done := testkit.Must(c.Chat.Completions.New(t.Context(), aiChat(func(p *openai.ChatCompletionNewParams) {
		aiTools(p)
		called := plain.Choices[0].Message
		p.Messages = append(p.Messages, called.ToParam(), openai.ToolMessage("done", called.ToolCalls[0].ID))
	})))(t)
	if m := done.Choices[0].Message; m.Content == "" || len(m.ToolCalls) != 0 {
		t.Errorf("told what the tool said, it answers %s", m.RawJSON())
	}
}

func testAIResponses(t *testing.T, c *openai.Client) {
	params := responses.ResponseNewParams{
		Model: "gpt-4o", Input: responses.ResponseNewParamsInputUnion{OfString: param.NewOpt("Say something.")},
	}
	plain := testkit.Must(c.Responses.New(t.Context(), params))(t)
	if plain.Status != "completed" || plain.OutputText() == "" || plain.Usage.TotalTokens == 0 {
		t.Fatalf("a plain response: %s", plain.RawJSON())
	}
	stream := c.Responses.NewStreaming(t.Context(), params)
	defer stream.Close()
	text := ""
	number := int64(0)
	var last responses.ResponseStreamEventUnion
	for stream.Next() {
		last = stream.Current()
		if last.SequenceNumber != number {
			t.Errorf("event %s has number %d, want %d", last.Type, last.SequenceNumber, number)
		}
		number++
		if last.Type == "response.output_text.delta" {
			text += last.Delta
		}
	}
	testkit.OK(t, stream.Err())
	if last.Type != "response.completed" || text != plain.OutputText() || last.Response.OutputText() != text {
		t.Errorf("the stream ends with %s and says %q, plain it is %q", last.Type, text, plain.OutputText())
	}
	if last.Response.Usage.TotalTokens != plain.Usage.TotalTokens {
		t.Errorf("%d tokens streamed, %d plain", last.Response.Usage.TotalTokens, plain.Usage.TotalTokens)
	}
}

func testAICompletions(t *testing.T, c *openai.Client) {
	params := openai.CompletionNewParams{
		Model: "gpt-4o", Prompt: openai.CompletionNewParamsPromptUnion{OfString: param.NewOpt("Once upon a time")}, MaxTokens: param.NewOpt[int64](12),
	}
	plain := testkit.Must(c.Completions.New(t.Context(), params))(t)
	stream := c.Completions.NewStreaming(t.Context(), params)
	defer stream.Close()
	text := ""
	for stream.Next() {
		if len(stream.Current().Choices) == 0 {
			t.Fatalf("usage was not asked for, but a chunk tells it: %s", stream.Current().RawJSON())
		}
		text += stream.Current().Choices[0].Text
	}
	if err := stream.Err(); err != nil || text != plain.Choices[0].Text || text == "" {
		t.Errorf("streamed %q, plain it is %q (%v)", text, plain.Choices[0].Text, err)
	}
}

func testAIEmbeddings(t *testing.T, s *sockets.Stack, c *openai.Client) {
	for _, format := range []openai.EmbeddingNewParamsEncodingFormat{openai.EmbeddingNewParamsEncodingFormatFloat, openai.EmbeddingNewParamsEncodingFormatBase64} {
		resp, err := c.Embeddings.New(t.Context(), openai.EmbeddingNewParams{
			Model: openai.EmbeddingModelTextEmbedding3Small, Input: openai.EmbeddingNewParamsInputUnion{OfString: param.NewOpt("one")},
			EncodingFormat: format, Dimensions: param.NewOpt[int64](8),
		})
		if err != nil {
			t.Fatalf("%s: %v", format, err)
		}
		if len(resp.Data) != 1 || resp.Usage.PromptTokens == 0 {
			t.Fatalf("%s: %s", format, resp.RawJSON())
		}
		// This SDK leaves base64 to its user, so compare with the model server's own answer.
		direct := testkit.Must(mock.New(mock.Config{}))(t)
		want := httptest.NewRecorder()
		direct.ServeHTTP(want, httptest.NewRequest(http.MethodPost, "/v1/embeddings", strings.NewReader(s.Seen.Last(t).Body)))
		if resp.RawJSON() != want.Body.String() {
			t.Errorf("%s: got %s, the model server says %s", format, resp.RawJSON(), want.Body)
		}
	}
}

func testAIModels(t *testing.T, c *openai.Client) {
	list := testkit.Must(c.Models.List(t.Context()))(t)
	var names []string
	for _, m := range list.Data {
		names = append(names, m.ID)
	}
	testkit.Same(t, []string{"gpt-4o", "gpt-4o-mini", "o4-mini", "omni-moderation-latest", "text-embedding-3-small"}, names, "models")
	if m, err := c.Models.Get(t.Context(), "gpt-4o"); err != nil || m.ID != "gpt-4o" || m.Object != "model" {
		t.Errorf("gpt-4o is %+v, %v", m, err)
	}
	// A model that only a pattern of the pool covers, with a slash in its name.
	if m, err := c.Models.Get(t.Context(), "meta/llama-3"); err != nil || m.ID != "meta/llama-3" {
		t.Errorf("meta/llama-3 is %+v, %v", m, err)
	}
}

// aiError is the error that openai-go made of a refusal.
func aiError(t *testing.T, err error) *openai.Error {
	t.Helper()
	e, ok := errors.AsType[*openai.Error](err)
	if !ok {
		t.Fatalf("not an API error: %v", err)
	}
	return e
}

// The SDK's own retry comes when it was told, and is served.
func TestOpenAIGo_RetryIsServed(t *testing.T) {
	s := sockets.New(t, sockets.World{
		Mock:    mock.Config{FirstToken: 200 * time.Millisecond},
		Tenants: []tenants.Tenant{sockets.Tenant("acme", func(t *tenants.Tenant) { t.Concurrency = 1 })},
	})
	// One call first, so that the gateway knows how long calls run.
	c := openAIGo(s, &sockets.Transport{}, "/v1")
	testkit.Must(c.Chat.Completions.New(t.Context(), aiChat(nil)))(t)
	s.WaitIdle()

	// One that holds the only slot until the second has been refused.
	ctx, release := context.WithCancel(t.Context())
	var held sync.WaitGroup
	held.Go(func() {
		_, _ = openAIGo(s, &sockets.Transport{Hook: `{"stall_after":0}`}, "/v1").Chat.Completions.New(ctx, aiChat(nil))
	})
	defer held.Wait()
	defer release()
	wantRunning(s)

	tr := &sockets.Transport{}
	retrying := openAIGo(s, tr, "/v1", option.WithMaxRetries(2), option.WithMiddleware(func(r *http.Request, next option.MiddlewareNext) (*http.Response, error) {
		resp, err := next(r)
		if err == nil && resp.StatusCode == http.StatusTooManyRequests {
			release()
			held.Wait()
		}
		return resp, err
	}))
	testkit.Must(retrying.Chat.Completions.New(t.Context(), aiChat(nil)))(t)
	all := tr.All()
	if len(all) != 2 || all[0].Status != http.StatusTooManyRequests || all[1].Status != http.StatusOK {
		t.Fatalf("%d attempts, want a 429 and a 200: %+v", len(all), all)
	}
	if n := all[1].Request.Get("X-Stainless-Retry-Count"); n != "1" {
		t.Errorf("the second attempt says retry %q", n)
	}
	promised := sockets.RetryAfter(t, all[0].Header)
	waited := all[1].Sent.Sub(all[0].Came)
	if waited < promised || promised > 2*time.Second {
		t.Errorf("came back after %s, was told %s", waited, promised)
	}
}

func TestOpenAIGo_Refusals(t *testing.T) {
	s := sockets.New(t, sockets.World{
		Pool:    sockets.Pool(func(p *tenants.Pool) { p.Models = []string{"gpt-4o", "o4-mini"} }),
		Tenants: []tenants.Tenant{sockets.Tenant("acme", func(t *tenants.Tenant) { t.Models = []string{"gpt-4o"} })},
	})
	c := openAIGo(s, &sockets.Transport{}, "/v1")
	for _, tc := range []struct {
		name   string
		call   func() error
		status int
		code   string
	}{
		{"model object not granted", func() error {
			_, err := c.Models.Get(t.Context(), "o4-mini")
			return err
		}, 404, "model_not_found"},
		{"route not granted", func() error {
			_, err := c.Files.List(t.Context(), openai.FileListParams{})
			return err
		}, 403, "route_not_allowed"},
		{"no such route", func() error {
			return c.Get(t.Context(), "organization/admin_api_keys", nil, nil)
		}, 404, "not_found"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if e := aiError(t, tc.call()); e.StatusCode != tc.status || e.Code != tc.code || e.Type == "" || e.Message == "" {
				t.Errorf("got %d %s (%s), want %d %s", e.StatusCode, e.Code, e.Message, tc.status, tc.code)
			}
		})
	}
	s.WantUnused("acme")
	if n := s.Seen.Count(); n != 0 {
		t.Errorf("the upstream saw %d of the refused calls", n)
	}
}

// What breaks in mid-stream of a response must not look like an end, either.
func TestOpenAIGo_BrokenResponse(t *testing.T) {
	for _, tc := range sdkBreaks {
		s := sockets.New(t, sockets.World{})
		stream := openAIGo(s, &sockets.Transport{Hook: tc.hook}, "/v1").Responses.NewStreaming(t.Context(), responses.ResponseNewParams{
			Model: "gpt-4o", Input: responses.ResponseNewParamsInputUnion{OfString: param.NewOpt("Say something.")},
		})
		defer stream.Close()
		last := ""
		for stream.Next() {
			last = stream.Current().Type
		}
		// This SDK hands a typed error event of /responses to its user as an event.
		if stream.Err() == nil && last != "error" || last == "response.completed" {
			t.Errorf("%s: it ended with event %q and error %v", tc.name, last, stream.Err())
		}
	}
}

// A plain call that is given up frees its slot as a stream does.
func TestOpenAIGo_AbortPlain(t *testing.T) {
	s := sockets.New(t, sockets.World{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	gone := make(chan error, 1)
	c := openAIGo(s, &sockets.Transport{Hook: sdkSlowHook}, "/v1")
	go func() {
		_, err := c.Chat.Completions.New(ctx, aiChat(nil))
		gone <- err
	}()
	wantRunning(s)
	cancel()
	wantCancelled(s)
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled call ended with %v", err)
	}
}

// wantRunning waits until one call runs, upstream too.
func wantRunning(s *sockets.Stack) {
	s.T.Helper()
	sockets.Eventually(s.T, sockets.Patience, "one call runs upstream and has one lease", func() bool {
		return s.Mock.Stats().Running == 1 && s.Leases() == 1
	})
}

// wantCancelled checks that the upstream hears that its caller went before its
// answer would have ended, and that nothing is held then, but something charged.
func wantCancelled(s *sockets.Stack) {
	s.T.Helper()
	sockets.Eventually(s.T, sockets.Patience, "the upstream counts one cancelled call and runs none", func() bool {
		resp := testkit.Must(s.Client.Get(s.Upstream.URL + "/_stats"))(s.T)
		defer resp.Body.Close()
		var st mock.Stats
		testkit.OK(s.T, json.NewDecoder(resp.Body).Decode(&st))
		return st.Cancelled == 1 && st.Running == 0
	})
	sockets.Eventually(s.T, sockets.Patience, "no lease is held", func() bool { return s.Leases() == 0 })
	s.WaitIdle()
	sockets.Eventually(s.T, sockets.Patience, "what was produced is charged", func() bool {
		return s.Charged("input") > 0 && s.Charged("output") > 0
	})
}
