package admission

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmgov/llmgov/governor/tokens"
	"github.com/llmgov/llmgov/governor/tokens/bpe"
	"github.com/llmgov/llmgov/internal/lab/mock"
	"github.com/llmgov/llmgov/internal/test/e2e/harness"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/tenants"
)

// counter is a PromptCounter that says one number, and what it was asked about.
type counter struct {
	says  int64
	knows bool
	asked []string
}

func (c *counter) Count(model string, _ []byte, _ time.Duration) (int64, bool) {
	c.asked = append(c.asked, model)
	return c.says, c.knows
}

func (c *counter) Excerpt(string, tokens.Excerpt) (int64, bool) { return 0, false }
func (c *counter) AtLeast(string, []byte) int64                 { return 0 }

// A prompt is counted while little is learned of the tenant and the model; then the
// estimate is as good, and nobody counts. Where the counter does not know, or has to be
// asked in vain too often, the estimate holds.
func TestPromptsAreCountedUntilTheEstimateIsLearned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			name   string
			knows  bool
			usage  string // of the model server
			asked  int
			first  int64 // held of the first prompt
			spoken int64 // held of prompts of another tenant
		}{
			{"reported", true, mock.UsageChunk, 8, 17, 17},
			{"never reported", true, mock.UsageAbsent, 64, 17, 17},
			{"not known", false, mock.UsageChunk, 8, 0, 0},
		} {
			prompts := &counter{says: 17, knows: tt.knows}
			a := harness.Tenant("a", 1)
			a.TPM = 100_000
			p := harness.Pool(0, 0, 1000)
			p.Models = []string{"m"}
			p.Aliases = []tenants.Alias{{Name: "m", Model: "gpt-4o"}}
			s := harness.New(t, harness.World{
				Mock: mock.Config{Usage: tt.usage}, Pool: p, Prompts: prompts,
				Tenants: []tenants.Tenant{a, harness.Tenant("b", 1)},
			})
			held := func(tenant string) int64 {
				before := s.Charged(tenant, "held")
				s.Call(t.Context(), tenant, harness.Chat(true, 30, "")).WantOK(t)
				return s.Charged(tenant, "held") - before - 30
			}
			if got := held("a"); tt.knows && got != tt.first {
				t.Errorf("%s: the first prompt is held at %d tokens, counted are %d", tt.name, got, tt.first)
			}
			for range 80 {
				held("a")
			}
			if len(prompts.asked) != tt.asked || prompts.asked[0] != "gpt-4o" {
				t.Errorf("%s: it was counted %d times, want %d, as %q", tt.name, len(prompts.asked), tt.asked, prompts.asked[0])
			}
			real := mock.PromptTokens([]byte(harness.Chat(true, 30, "")), "/v1/chat/completions")
			if got := held("a"); tt.usage != mock.UsageAbsent && got != real {
				t.Errorf("%s: at last the prompt is held at %d tokens, and has %d", tt.name, got, real)
			}
			if got := held("b"); tt.knows && got != tt.spoken {
				t.Errorf("%s: another tenant's prompt is held at %d tokens, counted are %d", tt.name, got, tt.spoken)
			}
			prompts.says = 900 // of one that is a sixteenth of its tenant's minute, however much was learned
			before := s.Charged("a", "held")
			large := strings.Replace(harness.Chat(true, 30, ""), "How", strings.Repeat("How ", 20_000), 1)
			s.Call(t.Context(), "a", large).WantOK(t)
			if got := s.Charged("a", "held") - before - 30; tt.knows && got != 900 || !tt.knows && got < 7000 {
				t.Errorf("%s: a large prompt is held at %d tokens", tt.name, got)
			}
			s.Close()
		}
	})
}

// A prompt that has more tokens than the pool has in a minute is told so at once, also where
// no more than a little too many; one that fits is not, nor one that nobody can count.
func TestPromptsThatAreTooLongAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := harness.Pool(3000, 0, 0)
		p.Models = []string{"gpt-4o", "m"}
		s := harness.New(t, harness.World{Pool: p, Prompts: bpe.New(), Tenants: []tenants.Tenant{harness.Tenant("a", 1)}})
		for _, tt := range []struct {
			model, path string
			words       int
			want        int
		}{
			{"gpt-4o", "/chat/completions", 3100, http.StatusRequestEntityTooLarge},
			{"gpt-4o", "/messages", 3100, http.StatusRequestEntityTooLarge},
			{"gpt-4o", "/chat/completions", 20_000, http.StatusRequestEntityTooLarge},
			{"m", "/chat/completions", 6200, http.StatusRequestEntityTooLarge},
			{"m", "/chat/completions", 3100, http.StatusTooManyRequests},
			{"gpt-4o", "/chat/completions", 2800, http.StatusTooManyRequests}, // its turn comes
		} {
			body := fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":%q}],"max_tokens":5}`, tt.model, strings.Repeat("word ", tt.words))
			rsp := testkit.Must(s.PostTo(t.Context(), tt.path, "a", body))(t)
			text, _ := io.ReadAll(rsp.Body)
			rsp.Body.Close()
			if rsp.StatusCode != tt.want {
				t.Errorf("%d words for %s: status %d, want %d: %s", tt.words, tt.model, rsp.StatusCode, tt.want, text)
			}
			if tt.want == http.StatusRequestEntityTooLarge && !strings.Contains(string(text), "request_too_large") {
				t.Errorf("%d words: %s", tt.words, text)
			}
		}
	})
}

// Nobody counts a prompt with a file of text, and none is refused for how long its file is taken to be.
//
// Seen to fail with: files that are text like any other.
func TestFilesOfTextAreNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		prompts := &counter{says: 17, knows: true}
		p := harness.Pool(3000, 0, 0)
		p.Models = []string{"gpt-4o"}
		s := harness.New(t, harness.World{Pool: p, Prompts: prompts, Tenants: []tenants.Tenant{harness.Tenant("a", 1)}})
		time.Sleep(time.Second) // releases what the short one takes
		for _, tt := range []struct{ words, want int }{{10, http.StatusOK}, {40_000, http.StatusTooManyRequests}} {
			file := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("zqxj ", tt.words)))
			body := `{"model":"gpt-4o","max_tokens":5,"messages":[{"role":"user","content":[{"type":"file","file":{"file_data":"data:text/plain;base64,` + file + `"}}]}]}`
			rsp := testkit.Must(s.PostTo(t.Context(), "/chat/completions", "a", body))(t)
			text, _ := io.ReadAll(rsp.Body)
			rsp.Body.Close()
			if rsp.StatusCode != tt.want {
				t.Errorf("a file of %d words: status %d, want %d: %s", tt.words, rsp.StatusCode, tt.want, text)
			}
		}
		if len(prompts.asked) > 0 {
			t.Errorf("they are counted %d times", len(prompts.asked))
		}
	})
}

// llmgov_estimate_error_ratio has each call that told what it took, once: plain answers
// and streams, and not what broke off, or did not tell.
func TestEstimateErrorsAreObserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := harness.New(t, harness.World{Pool: harness.Pool(0, 0, 1000), Tenants: []tenants.Tenant{harness.Tenant("a", 1)}})
		observed := func() uint64 {
			families := testkit.Must(prometheus.Gatherers{s.Metrics.Registry()}.Gather())(t)
			for _, f := range families {
				if f.GetName() == "llmgov_estimate_error_ratio" {
					return f.GetMetric()[0].GetHistogram().GetSampleCount()
				}
			}
			return 0
		}
		for _, tt := range []struct {
			name, body string
			want       uint64
		}{
			{"plain", harness.Chat(false, 30, ""), 1},
			{"stream", harness.Chat(true, 30, ""), 1},
			{"stream that asks for its usage", harness.Chat(true, 30, `,"stream_options":{"include_usage":true}`), 1},
			{"stream that tells nothing", harness.Chat(true, 30, `,"mock":{"usage":"absent"}`), 0},
			{"stream that breaks off", harness.Chat(true, 30, `,"mock":{"hangup_after":5}`), 0},
			{"refused upstream", harness.Chat(false, 30, `,"mock":{"error_status":503}`), 0},
		} {
			before := observed()
			s.Call(t.Context(), "a", tt.body)
			synctest.Wait()
			if got := observed() - before; got != tt.want {
				t.Errorf("%s: observed %d times, want %d", tt.name, got, tt.want)
			}
		}
	})
}

// oneTokenStreams are streams of each dialect, from a server that speaks it and produces a token
// every 20 ms: what they begin with, a token, and what they end with.
var oneTokenStreams = []struct{ path, body, begin, token, end string }{
	{
		path: "/v1/completions", body: `{"model":"m","prompt":"How long is a piece of string?","stream":true,"max_tokens":300}`,
		token: `data: {"object":"text_completion","choices":[{"index":0,"text":"a","finish_reason":null}]}`,
		end: `data: {"choices":[{"index":0,"text":"","finish_reason":"length"}]}` + "\n\n" +
			`data: {"choices":[],"usage":{"prompt_tokens":11,"completion_tokens":%d}}` + "\n\ndata: [DONE]",
	},
	{
		path: "/v1/responses", body: `{"model":"m","input":"How long is a piece of string?","stream":true,"max_output_tokens":300}`,
		begin: `data: {"type":"response.created","response":{"id":"resp_1","status":"in_progress"}}`,
		token: `data: {"type":"response.output_text.delta","item_id":"msg_1","delta":"a"}`,
		end:   `data: {"type":"response.completed","response":{"id":"resp_1","status":"completed","usage":{"input_tokens":11,"output_tokens":%d}}}`,
	},
	{
		path: "/v1/messages", body: `{"model":"m","messages":[{"role":"user","content":"How long is a piece of string?"}],"stream":true,"max_tokens":300}`,
		begin: "event: message_start\n" + `data: {"type":"message_start","message":{"id":"msg_1","usage":{"input_tokens":11,"output_tokens":1}}}`,
		token: "event: content_block_delta\n" + `data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}`,
		end: "event: message_delta\n" + `data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":%d}}` + "\n\n" +
			"event: message_stop\n" + `data: {"type":"message_stop"}`,
	},
}

// dialectServer speaks a dialect: the header says after how many tokens the connection
// breaks, 0 for never. Each token counts as two, as where deltas have more than one.
type dialectServer struct {
	begin, token, end string
	prompts, tokens   int64
}

func (d *dialectServer) RoundTrip(r *http.Request) (*http.Response, error) {
	pr, pw := io.Pipe()
	after := 0
	_, _ = fmt.Sscan(r.Header.Get("X-Title"), &after)
	d.prompts += 11
	go func() {
		if d.begin != "" {
			_, _ = io.WriteString(pw, d.begin+"\n\n")
		}
		for i := range 60 {
			if after > 0 && i == after {
				_ = pw.CloseWithError(io.ErrUnexpectedEOF)
				return
			}
			select {
			case <-time.After(20 * time.Millisecond):
			case <-r.Context().Done():
				_ = pw.CloseWithError(r.Context().Err())
				return
			}
			if _, err := io.WriteString(pw, d.token+"\n\n"); err != nil {
				return
			}
			d.tokens += 2
		}
		_, _ = fmt.Fprintf(pw, d.end+"\n\n", 120)
		_ = pw.Close()
	}()
	return &http.Response{
		StatusCode: http.StatusOK, ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: pr, ContentLength: -1,
	}, nil
}

// In every dialect, what a stream that was cut off, or whose client went, is charged is
// what was produced: the deltas that came, by how many tokens a delta has, which the
// first whole streams told. Three tenants have them: what breaks off by its caller teaches no less than what is assumed of a new one.
func TestBrokenStreamsOfEachDialect(t *testing.T) {
	for _, d := range oneTokenStreams {
		testkit.Virtual(t, d.path[4:], func(t *testing.T) {
			server := &dialectServer{begin: d.begin, token: d.token, end: d.end}
			s := harness.New(t, harness.World{
				Pool: harness.Pool(0, 0, 1000), Tenants: []tenants.Tenant{harness.Tenant("a", 1), harness.Tenant("b", 1), harness.Tenant("c", 1)},
				Wrap: func(http.RoundTripper) http.RoundTripper { return server },
			})
			ask := func(as string, breaksAfter, leavesAfter int) {
				req := testkit.Must(http.NewRequestWithContext(t.Context(), http.MethodPost, "http://gateway"+d.path, strings.NewReader(d.body)))(t)
				req.Header.Set("Authorization", "Bearer "+as)
				req.Header.Set("X-Title", fmt.Sprintf("%04d", breaksAfter))
				resp, err := s.Client.Do(req)
				if err != nil || resp.StatusCode != http.StatusOK {
					t.Fatal(resp, err)
				}
				if leavesAfter > 0 {
					_, _ = io.CopyN(io.Discard, resp.Body, int64(len(d.begin)+leavesAfter*len(d.token)))
				} else {
					_, _ = io.Copy(io.Discard, resp.Body)
				}
				_ = resp.Body.Close()
				synctest.Wait()
			}
			for _, tenant := range []string{"c", "b", "a"} {
				ask(tenant, 0, 0) // a whole one, which calibrates
			}
			for i := 1; i < 40; i += 3 {
				ask("a", i, 0)
				ask("a", 0, i)
			}
			s.CheckIdle()
			in := s.Charged("", "input")
			out := s.Charged("", "output")
			t.Logf("charged %d + %d, produced %d + %d", in, out, server.prompts, server.tokens)
			if in != server.prompts || out != server.tokens {
				t.Errorf("charged %d + %d tokens, produced %d + %d", in, out, server.prompts, server.tokens)
			}
		})
	}
}
