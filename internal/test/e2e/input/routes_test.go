package input

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/tidwall/gjson"

	"github.com/llmgov/llmgov/internal/lab/mock"
	"github.com/llmgov/llmgov/internal/proxy/gateway/dialect"
	"github.com/llmgov/llmgov/internal/proxy/gateway/route"
	"github.com/llmgov/llmgov/internal/test/e2e/harness"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/tenants"
)

// hidden is a call whose size stands somewhere. Each costs the provider some 1000 tokens or more.
type hidden struct {
	name  string
	route string // as the gateway lists it
	body  string
	kind  string // the Content-Type, if it is not JSON
	// instant answers come at once, and so all but together.
	instant bool
	// first is sent once before, and its id takes the place of ID in the body.
	firstPath, firstBody, firstKind string
	// events are said in a realtime session, instead of a body.
	events []string
	// worth is how many tokens a batch takes, which counts in budgets alone.
	worth int64
}

const (
	formKind = "multipart/form-data; boundary=b"
	// unknown is what the provider's answers have, where nothing bounds them, and the gateway's
	// default for these.
	unknown = 1000
)

// asForm is a form of a file with 80 kB, and fields.
func asForm(file string, fields ...string) string {
	text := ""
	for i := 0; i+1 < len(fields); i += 2 {
		text += "--b\nContent-Disposition: form-data; name=\"" + fields[i] + "\"\n\n" + fields[i+1] + "\n"
	}
	text += "--b\nContent-Disposition: form-data; name=\"" + file + "\"; filename=\"a.bin\"\n\n"
	return harness.CRLF(text) + strings.Repeat("QUFB", 20_000) + harness.CRLF("\n--b--\n")
}

// hiding are the ways to hide a size, by the route on which they can be taken.
func hiding() []hidden {
	base64 := strings.Repeat("QUFB", 20_000)
	said := func(text string) string {
		return `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":` + text + `}]}`
	}
	asked := func(text string) string {
		return `{"model":"m","max_output_tokens":1,"input":[{"role":"user","content":` + text + `}]}`
	}
	plain := func(text string) string { return said(`"` + text + `"`) }
	upload := harness.CRLF("--b\nContent-Disposition: form-data; name=\"purpose\"\n\nuser_data\n--b\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\n\n") +
		strings.Repeat("word ", 2000) + harness.CRLF("\n--b--\n")
	batch := func(worth int64, name, line string) hidden {
		line = `{"custom_id":"1","method":"POST","url":"/v1/chat/completions","body":{"model":"m","messages":[{"role":"user","content":"a"}]` + line + `}}` + "\n"
		return hidden{
			name: name, route: "/batches", body: `{"input_file_id":"ID","endpoint":"/v1/chat/completions","completion_window":"24h"}`, worth: worth,
			firstPath: "/files", firstBody: harness.BatchForm(strings.Repeat(line, 10)), firstKind: formKind,
		}
	}
	const chat, messages, responses = "/chat/completions", "/messages", "/responses"
	return []hidden{
		{name: "spaces", route: chat, body: plain(strings.Repeat("word, ", 4000))},
		{name: "hyphens", route: chat, body: plain(strings.Repeat("word-", 4000))},
		{name: "underscores", route: chat, body: plain(strings.Repeat("word_", 4000))},
		{name: "no gaps", route: chat, body: plain(strings.Repeat("Word", 4000))},
		{name: "escapes", route: chat, body: plain(strings.Repeat(`\u0077\u006f\u0072\u0064\u002d`, 4000))},
		{name: "another script", route: chat, body: plain(strings.Repeat("敏捷的棕色狐狸", 800))},
		{name: "escapes of another script", route: chat, body: plain(strings.Repeat(`\u654f\u6377\u7684`, 2000))},
		{name: "base64 that is none", route: chat, body: plain("data:image/png;base64," + base64)},
		{name: "a text part that looks like an image", route: chat, body: said(`[{"type":"text","text":"data:image/png;base64,` + base64 + `"}]`)},
		{name: "images inline", route: chat, body: said(`[{"type":"image_url","image_url":{"url":"data:image/png;base64,` + base64 + `"}},{"type":"image_url","image_url":{"url":"data:image/png;base64,QUFB"}}]`)},
		{name: "images by address", route: chat, body: said(`[` + strings.Repeat(`{"type":"image_url","image_url":{"url":"https://a/b"}},`, 9) + `{"type":"text","text":"a"}]`)},
		{name: "images by an escaped address", route: chat, body: said(`[` + strings.Repeat(`{"type":"im\u0061ge_url","image\u005furl":{"url":"http\u0073\u003a//a/b"}},`, 9) + `{"type":"text","text":"a"}]`)},
		{name: "sound", route: chat, body: said(`[{"type":"input_audio","input_audio":{"data":"` + strings.Repeat(base64, 15) + `","format":"mp3"}}]`)},
		{name: "a document", route: chat, body: said(`[{"type":"file","file":{"file_data":"data:application/pdf;base64,` + base64 + `"}}]`)},
		{name: "many answers", route: chat, body: `{"model":"m","max_tokens":100,"n":10,"messages":[{"role":"user","content":"a"}]}`},
		{name: "a bound of another route", route: chat, body: `{"model":"m","max_output_tokens":1,"messages":[{"role":"user","content":"a"}]}`},
		{name: "no bound", route: chat, body: `{"model":"m","messages":[{"role":"user","content":"a"}]}`},
		{name: "a stream without a bound", route: chat, body: `{"model":"m","stream":true,"messages":[{"role":"user","content":"a"}]}`},
		{name: "a tool of the provider", route: chat, body: `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"a"}],"tools":[{"type":"web_search"}]}`},
		{
			name: "a file by its id", route: chat, body: said(`[{"type":"file","file":{"file_id":"ID"}}]`),
			firstPath: "/files", firstBody: upload, firstKind: formKind,
		},

		{name: "many prompts", route: "/completions", body: `{"model":"m","max_tokens":100,"prompt":["a"` + strings.Repeat(`,"a"`, 9) + `]}`},
		{name: "hyphens", route: "/completions", body: `{"model":"m","max_tokens":1,"prompt":"` + strings.Repeat("word-", 4000) + `"}`},

		{
			name: "an earlier response", route: responses, body: `{"model":"m","max_output_tokens":1,"input":"x","previous_response_id":"ID"}`,
			firstPath: responses, firstBody: `{"model":"m","max_output_tokens":1000,"input":"` + strings.Repeat("word ", 4000) + `"}`,
		},
		{name: "a stored prompt", route: responses, body: `{"model":"m","max_output_tokens":1,"input":"x","prompt":{"id":"pmpt_1"}}`},
		{name: "images inline", route: responses, body: asked(`[{"type":"input_image","image_url":"data:image/png;base64,` + base64 + `"},{"type":"input_image","image_url":"https://a/b"}]`)},
		{name: "a document", route: responses, body: asked(`[{"type":"input_file","file_data":"data:text/plain;base64,` + base64 + `"}]`)},
		{name: "a document by its address", route: responses, body: asked(`[{"type":"input_file","file_url":"https://a/b"}]`)},
		{name: "a file by its id", route: responses, body: asked(`[{"type":"input_file","file_id":"ID"}]`), firstPath: "/files", firstBody: upload, firstKind: formKind},
		{name: "a tool of the provider", route: responses, body: `{"model":"m","max_output_tokens":1,"input":"x","tools":[{"type":"file_search","vector_store_ids":[]}]}`},
		{name: "in the background", route: responses, instant: true, body: `{"model":"m","max_output_tokens":1000,"background":true,"input":"x"}`},
		{name: "in the background, streamed", route: responses, instant: true, body: `{"model":"m","max_output_tokens":1000,"background":true,"stream":true,"mock":{"usage":"absent"},"input":"x"}`},

		{name: "hyphens", route: messages, body: plain(strings.Repeat("word-", 4000))},
		{name: "images", route: messages, body: said(`[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + base64 + `"}},{"type":"image","source":{"type":"url","url":"https://a/b"}}]`)},
		{name: "images of a tool", route: messages, body: said(`[{"type":"tool_result","content":[{"type":"image","source":{"type":"url","url":"https://a/b"}},{"type":"image","source":{"type":"url","url":"https://a/b"}}]}]`)},
		{name: "a document", route: messages, body: said(`[{"type":"document","source":{"type":"base64","media_type":"text/plain","data":"` + base64 + `"}}]`)},
		{name: "a document by its address", route: messages, body: said(`[{"type":"document","source":{"type":"url","url":"https://a/b"}}]`)},
		{name: "base64 that is none", route: messages, body: said(`[{"type":"text","text":"` + base64 + `"}]`)},

		{name: "hyphens", route: "/embeddings", body: `{"model":"m","input":["` + strings.Repeat("word-", 4000) + `"]}`},
		{name: "many inputs", route: "/embeddings", body: `{"model":"m","input":["a"` + strings.Repeat(`,"word-word"`, 1000) + `]}`},
		{name: "hyphens", route: "/moderations", body: `{"input":"` + strings.Repeat("word-", 4000) + `"}`},
		{name: "images", route: "/moderations", body: `{"input":[{"type":"image_url","image_url":{"url":"https://a/b"}},{"type":"image_url","image_url":{"url":"https://a/b"}}]}`},

		{name: "documents", route: "/rerank", body: `{"model":"m","query":"a","documents":["a"` + strings.Repeat(`,"word-word"`, 1000) + `]}`},
		{name: "a query", route: "/rerank", body: `{"query":"` + strings.Repeat("word-", 4000) + `","documents":["a"],"model":"m"}`},
		{name: "a conversation", route: "/responses/compact", body: `{"model":"m","input":"` + strings.Repeat("word-", 4000) + `"}`},
		{name: "what becomes of it", route: "/responses/compact", body: `{"model":"m","max_output_tokens":1,"input":"a"}`},

		{name: "what it draws", route: "/images/generations", body: `{"model":"m","prompt":"a"}`},
		{name: "ten at once", route: "/images/generations", body: `{"model":"m","prompt":"a","n":10}`},
		{name: "what it draws", route: "/images/edits", kind: formKind, body: asForm("image", "model", "m", "prompt", "a")},
		{name: "ten at once", route: "/images/edits", kind: formKind, body: asForm("image", "model", "m", "prompt", "a", "n", "10")},
		{name: "what it draws", route: "/images/variations", kind: formKind, body: asForm("image", "model", "m")},
		{name: "what it says", route: "/audio/speech", body: `{"model":"m","input":"a","stream_format":"sse"}`},
		{name: "what it hears", route: "/audio/transcriptions", kind: formKind, body: asForm("file", "model", "m")},
		{name: "what it hears", route: "/audio/translations", kind: formKind, body: asForm("file", "model", "m")},

		batch(10*500, "many lines", `,"max_tokens":500`),
		batch(10*unknown, "lines without a bound", ``),
		batch(10*3*500, "lines of many answers", `,"max_tokens":500,"n":3`),

		{name: "a response", route: realtimeRoute, events: []string{`{"type":"response.create","response":{"max_output_tokens":1000}}`}},
		{name: "a response without a bound", route: realtimeRoute, events: []string{`{"type":"response.create"}`}},
		{name: "hyphens", route: realtimeRoute, events: []string{
			`{"type":"conversation.item.create","item":{"type":"message","content":[{"type":"input_text","text":"` + strings.Repeat("word-", 4000) + `"}]}}`,
			`{"type":"response.create","response":{"max_output_tokens":1}}`,
		}},
	}
}

const realtimeRoute = "GET /realtime"

// tokenless are the routes on which calls take no tokens, and why: those of objects by what their
// paths begin with.
var tokenless = map[string]string{
	"/messages/count_tokens":  "it only counts them",
	"/responses/input_tokens": "nor does this",
	"/responses":              "a response is charged for when it is made, or seen done",
	"/files":                  "no model reads a file when it comes",
	"/uploads":                "nor its parts",
	"/fine_tuning":            "jobs are not metered",
	"/vector_stores":          "nor is what is searched",
}

// Calls at once of five times a limit, on each route and with the size of each hidden in each way, never take more
// than the limit and what one of them owes. A new route needs a case.
func TestAudit_FiveTimesTheLimitAtOnce(t *testing.T) {
	tried := map[string]bool{}
	for _, h := range hiding() {
		tried[h.route] = true
		t.Run(h.route+"/"+h.name, func(t *testing.T) {
			one := h.run(t, 1e12, 1)
			if one < unknown*7/10 {
				t.Fatalf("one of these costs %d tokens: too few to tell anything", one)
			}
			fit := testkit.Rounds(2, 10)
			limit := int64(fit) * one
			if took := h.run(t, limit, 5*fit); took > limit+one || took < one {
				t.Errorf("%d at once took %d tokens of a limit of %d, and one takes %d", 5*fit, took, limit, one)
			}
		})
	}
	routes := dialect.InferencePaths()
	for _, route := range route.ToObjects() {
		if route != realtimeRoute {
			_, path, _ := strings.Cut(route, " /")
			first, _, _ := strings.Cut(path, "/")
			route = "/" + first
		}
		routes = append(routes, route)
	}
	for _, route := range routes {
		if !tried[route] && tokenless[route] == "" {
			t.Errorf("nothing tries %s: add a case for each way to hide a size there", route)
		}
	}
}

// run sends the call so often at once, and returns how many tokens the provider counts.
func (h hidden) run(t *testing.T, limit int64, calls int) (took int64) {
	synctest.Test(t, func(t *testing.T) {
		a := harness.Tenant("a", 1)
		a.TPM = limit
		a.Routes = tenants.DefaultRoutes | tenants.RouteFiles | tenants.RouteBatches | tenants.RouteRealtime | tenants.RouteResponses
		a.DefaultPool = "p"
		if h.worth > 0 {
			a.TPM = 1e12
			a.Budgets = []tenants.Budget{{Unit: tenants.Tokens, Limit: limit, Per: tenants.Month}}
		}
		w := harness.World{Pool: harness.Pool(1e12, 0, 0), Tenants: []tenants.Tenant{a}, Mock: mock.Config{TPM: 1 << 50, OutputTokens: unknown, FirstToken: 10 * time.Second}}
		if h.instant {
			w.Mock.FirstToken = 0
		}
		w.Pool.Burst = time.Minute
		w.Pool.BurstSet = true
		w.Pool.DefaultMaxOutput = unknown
		s := harness.New(t, w)
		time.Sleep(time.Minute) // so that the pool has all of its minute
		body := h.body
		if h.firstPath != "" {
			first := s.CallTo(t.Context(), h.firstPath, "a", h.firstBody, h.header(h.firstKind)...)
			id := gjson.Get(first.Body, "id").Str
			if first.Status != http.StatusOK || id == "" {
				t.Fatalf("what it refers to: %d %s", first.Status, first.Body)
			}
			body = strings.ReplaceAll(body, "ID", id)
			time.Sleep(2 * time.Minute)
		}
		before := s.Mock.Stats().TokensProduced
		var statuses map[int]int
		if h.events != nil {
			statuses = h.sessions(s, calls)
		} else {
			statuses = atOnce(s, calls, h.route, body, h.header(h.kind)...)
		}
		took = s.Mock.Stats().TokensProduced - before + h.worth*int64(statuses[http.StatusOK])
		if statuses[http.StatusOK] == 0 || statuses[http.StatusOK]+statuses[http.StatusTooManyRequests] != calls {
			t.Errorf("the answers were %v", statuses)
		}
	})
	return took
}

// sessions says the events in so many sessions at once, each up to the end of a response or an error,
// and counts these as if they were answers.
func (h hidden) sessions(s *harness.Stack, calls int) map[int]int {
	var mu sync.Mutex
	statuses := map[int]int{}
	var all sync.WaitGroup
	for range calls {
		conn := s.OpenSession(s.T.Context(), "a")
		all.Go(func() {
			status := h.session(s.T.Context(), conn)
			mu.Lock()
			statuses[status]++
			mu.Unlock()
			_ = conn.Close(websocket.StatusNormalClosure, "")
		})
	}
	all.Wait()
	return statuses
}

// session says the events in one session.
func (h hidden) session(ctx context.Context, conn *websocket.Conn) (status int) {
	for _, event := range h.events {
		if conn.Write(ctx, websocket.MessageText, []byte(event)) != nil {
			return 0
		}
	}
	for {
		_, text, err := conn.Read(ctx)
		switch kind := gjson.GetBytes(text, "type").Str; {
		case err != nil:
			return 0
		case kind == "response.done":
			return http.StatusOK
		case kind == "error" && gjson.GetBytes(text, "error.code").Str == "rate_limit_exceeded":
			return http.StatusTooManyRequests
		case kind == "error":
			return http.StatusBadRequest
		}
	}
}

func (h hidden) header(kind string) []string {
	if kind == "" {
		return nil
	}
	return []string{"Content-Type", kind}
}
