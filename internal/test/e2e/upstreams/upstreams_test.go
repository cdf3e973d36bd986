package upstreams

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/internal/lab/mock"
	"github.com/llmgov/llmgov/internal/ops/admin"
	"github.com/llmgov/llmgov/internal/test/e2e/harness"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/tenants"
)

// A tenant's calls go only to the upstreams that it may reach, whatever becomes of them there, and count in the same pool.
func TestUpstreams_OfATenant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		eu := harness.NewUpstream(t, mock.Config{})
		spare := harness.NewUpstream(t, mock.Config{})
		p := harness.PoolOf(1)
		p.Upstreams = []tenants.PoolUpstream{{Name: "mock", Weight: 1}, {Name: "eu", Weight: 1}, {Name: "spare", Weight: 1, Order: 1}}
		bound := harness.Tenant("bound", 1)
		bound.Upstreams = []string{"eu"}
		team := harness.Tenant("bound/team", 1)
		team.Tier = ""
		far := harness.Tenant("far", 1)
		far.Upstreams = []string{"elsewhere"}
		elsewhere := harness.NewUpstream(t, mock.Config{})
		s := harness.New(t, harness.World{
			Pool: p, Tenants: []tenants.Tenant{bound, team, far, harness.Tenant("free", 1)},
			Upstreams: map[string]http.Handler{"eu": eu, "spare": spare, "elsewhere": elsewhere},
		})
		for i := range 20 {
			for _, who := range []string{"bound", "bound/team"} {
				s.Call(t.Context(), who, harness.Chat(i%2 == 0, 5, "")).WantOK(t, "call", i, "of", who)
			}
		}
		if n := eu.Calls.Load(); n != 40 {
			t.Errorf("%d of 40 calls went where they may", n)
		}
		eu.AnswerWith(harness.Status(429, "Retry-After", "7"))
		if ans := s.Call(t.Context(), "bound", harness.Chat(false, 5, "")); ans.Status != 429 || ans.Header.Get("Retry-After") != "7" {
			t.Errorf("while its upstream pauses, a call gets %d %s, Retry-After %s", ans.Status, ans.Body, ans.Header.Get("Retry-After"))
		}
		if ans := s.Call(t.Context(), "bound", harness.Chat(false, 5, "")); ans.Status != 429 {
			t.Errorf("the next one gets %d %s", ans.Status, ans.Body)
		}
		s.Call(t.Context(), "free", harness.Chat(false, 5, "")).WantOK(t, "a tenant that may go anywhere")
		ans := s.Call(t.Context(), "far", harness.Chat(false, 5, ""))
		if want := "Tenant far may reach no upstream of pool p."; ans.Status != 403 || !strings.Contains(ans.Body, want) {
			t.Errorf("a tenant that may reach none gets %d %s, want %s", ans.Status, ans.Body, want)
		}
		if n := spare.Calls.Load() + elsewhere.Calls.Load(); n != 0 {
			t.Errorf("%d calls went where they may not, or need not", n)
		}
		if n := s.Mock.Stats().Completed; n != 1 {
			t.Errorf("%d calls went to the first upstream, want that of the free tenant", n)
		}
	})
}

// What may be tried elsewhere is, before a byte of it has reached the client, with the
// other upstream's key, and it is charged what it took, once.
func TestUpstreams_FailOver(t *testing.T) {
	hangUp := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	for name, c := range map[string]struct {
		mood  http.HandlerFunc
		class string
		lost  bool // the prompt may have been read
	}{
		"500": {mood: harness.Status(500)}, "502": {mood: harness.Status(502)}, "503": {mood: harness.Status(503)}, "504": {mood: harness.Status(504)}, "529": {mood: harness.Status(529)},
		"429": {mood: harness.Status(429, "Retry-After", "7")}, "401": {mood: harness.Status(401)},
		"402": {mood: harness.Status(402)}, "408": {mood: harness.Status(408)}, "498": {mood: harness.Status(498)}, "507": {mood: harness.Status(507)},
		"520": {mood: harness.Status(520)}, "527": {mood: harness.Status(527)}, "599": {mood: harness.Status(599)},
		"no credit":                   {mood: saying(400, `{"type":"error","error":{"message":"Your credit balance is too low to access the Anthropic API."}}`), class: "account"},
		"overdue":                     {mood: saying(400, `{"error":{"code":"Arrearage"}}`), class: "account"},
		"limit of a key":              {mood: saying(403, `{"error":{"message":"Key limit exceeded (total limit)","code":403}}`), class: "account"},
		"credits of a team":           {mood: saying(403, `{"code":"permission","error":"Your team has used all available credits."}`), class: "account"},
		"from here":                   {mood: saying(403, `{"error":{"code":"unsupported_country_region_territory"}}`), class: "account"},
		"error in place of an answer": {mood: saying(200, `{"error":{"message":"Provider returned error","code":502}}`), class: "502"},
		"error without a code":        {mood: saying(200, ` {"id":null,"error":"gone"}`), class: "502"},
		"error of another form":       {mood: saying(200, `{"code":"1301","msg":"x","success":false}`), class: "502"},
		"busy in place of an answer":  {mood: saying(200, `{"error":{"code":429}}`), class: "429"},
		"error beside no answer":      {mood: saying(200, `{"id":"x","choices":[],"error":{"message":"x","code":500}}`), class: "500"},
		"half of an answer":           {mood: saying(200, `{"id":"x","choi`), class: "unreadable"},
		"nothing":                     {mood: saying(200, ""), class: "unreadable"},
		"nothing, with a 204":         {mood: harness.Status(204), class: "unreadable"},
		"white space":                 {mood: saying(200, " \n"), class: "unreadable"},
		"null":                        {mood: saying(200, "null"), class: "unreadable"},
		"an empty object":             {mood: saying(200, "{}"), class: "unreadable"},
		"no choices":                  {mood: saying(200, `{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[],"usage":null}`), class: "unreadable"},
		"a choice of nothing":         {mood: saying(200, `{"choices":[{"message":{"role":"assistant","content":null}}]}`), class: "unreadable"},
		"error of a choice":           {mood: saying(200, `{"id":"x","object":"chat.completion","choices":[{"index":0,"finish_reason":"error","message":{"role":"assistant","content":""},"error":{"code":503,"message":"x"}}],"usage":{"prompt_tokens":9,"completion_tokens":0,"total_tokens":9}}`), class: "503"},
		"an error for the reason":     {mood: saying(200, `{"id":"x","choices":[{"index":0,"finish_reason":"error","message":{"role":"assistant","content":null}}]}`), class: "502"},
		"error beside a usage":        {mood: saying(200, `{"object":"chat.completion","error":{"code":"429","message":"x"},"usage":{"prompt_tokens":9}}`), class: "429"},
		"error in a list":             {mood: saying(200, `[{"error":{"code":503,"status":"UNAVAILABLE"}}]`), class: "503"},
		"a status in the error":       {mood: saying(200, `{"status":503,"message":"x"}`), class: "503"},
		"an end alone":                {mood: events("data: [DONE]\n\n"), class: "unreadable"},
		"a role and an end":           {mood: events(": ping\n\ndata: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\ndata: [DONE]\n\n"), class: "unreadable"},
		"comments":                    {mood: events(": ping\n\n: ping\n\n"), class: "unreadable"},
		"no events":                   {mood: events(""), class: "unreadable"},
		"error of a chunk's choice":   {mood: events("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\"},\"finish_reason\":\"error\",\"error\":{\"code\":503}}]}\n\n"), class: "503"},
		"error as a stream":           {mood: events(": PROCESSING\n\ndata: {\"error\":{\"message\":\"Provider returned error\",\"code\":502}}\n\n"), class: "502"},
		"error behind a role":         {mood: events("data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\"}}]}\n\ndata: {\"error\":{\"type\":\"overloaded_error\"}}\n\n"), class: "529"},
		"error behind a prompt":       {mood: events("event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":9}}}\n\nevent: ping\ndata: {\"type\":\"ping\"}\n\nevent: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\n\n"), class: "529"},
		"error in llama.cpp's field":  {mood: events("error: {\"code\":500,\"message\":\"x\"}\n\n"), class: "500"},
		"page as a stream":            {mood: events("<html>maintenance</html>"), class: "unreadable"},
		"page":                        {mood: saying(200, `<html>maintenance</html>`), class: "unreadable"},
		"key unknown to Google":       {mood: saying(400, `[{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT","details":[{"reason":"API_KEY_INVALID"}]}}]`), class: "400"},
		"key unknown to xAI":          {mood: saying(400, `{"code":"Client specified an invalid argument","error":"Incorrect API key provided: xa***12."}`), class: "400"},
		"location":                    {mood: saying(400, `{"error":{"code":400,"message":"User location is not supported for the API use.","status":"FAILED_PRECONDITION"}}`), class: "account"},
		"balance by number":           {mood: saying(403, `{"code":30001,"message":"Sorry, your account balance is insufficient"}`), class: "account"},
		"suspended by Google":         {mood: saying(403, `{"error":{"code":403,"message":"x","status":"PERMISSION_DENIED","details":[{"reason":"CONSUMER_SUSPENDED"}]}}`), class: "account"},
		"usage limit":                 {mood: saying(400, `{"type":"error","error":{"type":"invalid_request_error","message":"You have reached your specified API usage limits. You will regain access on 2026-12-01."}}`), class: "account"},
		"no model of a project":       {mood: saying(403, `{"error":{"message":"Project x does not have access to model y","code":"model_not_found"}}`), class: "403"},
		"no model, a bad request":     {mood: saying(400, `{"error":{"message":"x/y is not a valid model ID","code":400}}`), class: "400"},
		"no model at Google":          {mood: saying(404, `[{"error":{"code":404,"message":"models/m is not found for API version v1beta","status":"NOT_FOUND"}}]`), class: "404"},
		"no endpoint of a model":      {mood: saying(404, `{"error":{"message":"No endpoints found for m.","code":404}}`), class: "404"},
		"no model":                    {mood: saying(404, `{"error":{"code":"model_not_found"}}`), class: "404"},
		"no model at vLLM":            {mood: saying(404, `{"object":"error","message":"The model `+"`m`"+` does not exist.","type":"NotFoundError","code":404}`), class: "404"},
		"an error that is no JSON":    {mood: events("event: error\ndata: overloaded\n\n"), class: "unreadable"},
		"a text as a stream":          {mood: events("data: upstream connect error\n\n"), class: "unreadable"},
		"a complaint as a stream":     {mood: events("data: {\"success\":false,\"message\":\"x\"}\n\n"), class: "502"},
		"other words for an error":    {mood: saying(200, `{"errcode":40001,"errmsg":"x"}`), class: "502"},
		"billing":                     {mood: saying(400, `{"type":"error","error":{"type":"billing_error","message":"x"}}`), class: "account"},
		"no access":                   {mood: saying(403, `{"type":"error","error":{"type":"permission_error","message":"Your account does not have access to Claude."}}`), class: "account"},
		"no route":                    {mood: saying(404, `{"detail":"Not Found"}`), class: "404"},
		"no route at OpenAI":          {mood: saying(404, `{"error":{"message":"Invalid URL (POST /v1/chat/completions)","type":"invalid_request_error","code":null}}`), class: "404"},
		"no API":                      {mood: saying(404, "404 page not found\n"), class: "404"},
		"an edge that bars":           {mood: saying(403, "<html>Just a moment...</html>"), class: "403"},
		"405":                         {mood: harness.Status(405)}, "421": {mood: harness.Status(421)}, "451": {mood: harness.Status(451)},
		"cut before an event":  {mood: cut(""), class: "broken", lost: true},
		"cut behind a comment": {mood: cut(": ping\n\n"), class: "broken", lost: true},
		"cut behind a role":    {mood: cut("data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\"}}]}\n\n"), class: "broken", lost: true},
		"cut in an answer":     {mood: cut(`{"choices":`), class: "broken", lost: true},
		"reset":                {mood: hangUp, class: "broken", lost: true},
		"timeout":              {mood: harness.Silence, class: "timeout", lost: true},
		"refused":              {class: "connect"},
	} {
		for _, stream := range []bool{false, true} {
			testkit.Virtual(t, fmt.Sprint(name, " ", stream), func(t *testing.T) {
				bad := harness.NewUpstream(t, mock.Config{})
				others := map[string]http.Handler{"up1": bad}
				if c.mood == nil {
					others["up1"] = nil
				}
				bad.AnswerWith(c.mood)
				s := harness.New(t, harness.World{Pool: harness.PoolOf(1, 100), Tenants: []tenants.Tenant{harness.Tenant("a", 1)}, Upstreams: others})
				ans := s.Call(t.Context(), "a", harness.Chat(stream, 50, `,"mock":{"output_tokens":20}`))
				if ans.Status != 200 || stream && !strings.HasSuffix(ans.Body, "data: [DONE]\n\n") {
					t.Fatalf("got %d %s", ans.Status, ans.Body)
				}
				class := c.class
				if class == "" {
					class = name
				}
				if n := s.Sum("llmgov_upstream_errors_total", map[string]string{"pool": "p", "class": class}); n != 1 {
					t.Errorf("%d errors of class %s", n, class)
				}
				if _, leaked := bad.Keys.Load("Bearer upstream-key"); leaked {
					t.Error("an upstream got the key of another")
				}
				st := s.Mock.Stats()
				in := s.Charged("a", "input")
				out := s.Charged("a", "output")
				if !c.lost && (in != st.PromptTokens || out != st.OutputTokens) {
					t.Errorf("%d and %d tokens are charged, %d and %d were produced", in, out, st.PromptTokens, st.OutputTokens)
				}
				if c.lost && in <= st.PromptTokens {
					t.Errorf("%d input tokens are charged for two prompts of %d", in, st.PromptTokens)
				}
				if n := s.Sum("llmgov_requests_total", map[string]string{"tenant": "a"}); n != 1 {
					t.Errorf("it counts as %d requests", n)
				}
			})
		}
	}
}

// cut answers every call with a part of an answer, behind which its connection ends.
func cut(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if text == "" || text[0] != '{' {
			w.Header().Set("Content-Type", "text/event-stream")
		}
		w.Header().Set("Content-Length", "1000")
		_, _ = io.WriteString(w, text)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

// events answers every call with a stream, whose events come one after the other.
func events(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for event := range strings.SplitAfterSeq(text, "\n\n") {
			_, _ = io.WriteString(w, event)
			_ = http.NewResponseController(w).Flush()
			select {
			case <-time.After(time.Second):
			case <-r.Context().Done():
				return
			}
		}
	}
}

// saying answers every call with a status and a body.
func saying(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// A refusal stops what it is about: calls of the same model, or on the same route, or of the same tier. Only one that is of the
// account stops all, of all tenants.
func TestUpstreams_RefusalsApart(t *testing.T) {
	vectors := `{"model":"emb","input":"x"}`
	limited := harness.Status(429, "Retry-After", "60")
	for name, c := range map[string]struct {
		path, body string
		mood       http.HandlerFunc
		stops      bool // chat of m
		again      int  // the status of the same call afterwards; 0 is any
	}{
		"counting":             {path: "/v1/messages/count_tokens", body: `{"model":"m","messages":[{"role":"user","content":"x"}]}`, again: 200},
		"objects":              {path: "/v1/batches", body: `{"endpoint":"/v1/chat/completions","completion_window":"24h"}`},
		"another model":        {path: "/v1/embeddings", body: vectors, again: 429},
		"another route":        {path: "/v1/embeddings", body: `{"model":"m","input":"x"}`, again: 429},
		"a third model":        {path: "/v1/responses", body: `{"model":"n","input":"x","store":false}`, again: 429},
		"flex":                 {path: "/v1/chat/completions", body: `{"model":"m","service_tier":"flex","messages":[]}`, again: 429},
		"a made-up tier":       {path: "/v1/chat/completions", body: `{"model":"m","service_tier":"x1","messages":[]}`, stops: true, again: 429},
		"a tier that shares":   {path: "/v1/chat/completions", body: `{"model":"m","service_tier":"priority","messages":[]}`, stops: true, again: 429},
		"overloaded":           {path: "/v1/completions", body: `{"model":"n","prompt":"x"}`, mood: harness.Status(529, "Retry-After", "60"), again: 429},
		"loading":              {path: "/v1/completions", body: `{"model":"n","prompt":"x"}`, mood: harness.Status(503, "Retry-After", "60"), again: 429},
		"capacity":             {path: "/v1/chat/completions", body: `{"model":"m","service_tier":"flex","messages":[]}`, mood: harness.Status(498, "Retry-After", "60"), again: 429},
		"too large":            {path: "/v1/chat/completions", body: `{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("many words ", 4000) + `"}]}`, mood: harness.Status(429, "Retry-After", "60", "X-Ratelimit-Limit-Tokens", "5000"), again: 200},
		"long context":         {path: "/v1/messages", body: `{"model":"m","max_tokens":5,"messages":[]}`, mood: saying(429, `{"error":{"message":"Extra usage is required for long context requests."}}`), again: 200},
		"the same model":       {path: "/v1/responses", body: `{"model":"m","input":"x","store":false}`, stops: true, again: 429},
		"the account":          {path: "/v1/embeddings", body: vectors, mood: saying(429, `{"error":{"message":"This request would exceed your account's rate limit. Please try again later."}}`), stops: true, again: 429},
		"the account, by code": {path: "/v1/embeddings", body: vectors, mood: saying(429, `{"error":{"code":"AccountRateLimitExceeded","message":"x"}}`), stops: true, again: 429},
		"mentions the account": {path: "/v1/embeddings", body: vectors, mood: saying(429, `{"error":{"code":"ModelAccountRpmRateLimitExceeded","message":"Rate limit reached for emb. Please add a payment method to your account to increase your rate limit."}}`), again: 429},
	} {
		for _, used := range []bool{true, false} { // before
			testkit.Virtual(t, fmt.Sprint(name, " ", used), func(t *testing.T) {
				up := harness.NewUpstream(t, mock.Config{})
				who := harness.Tenant("a", 1)
				who.Routes = tenants.RouteInference | tenants.RouteBatches
				who.DefaultPool = "p"
				p := harness.PoolOf(0, 1)
				p.Upstreams = []tenants.PoolUpstream{{Name: "up1", Weight: 1}}
				s := harness.New(t, harness.World{Pool: p, Tenants: []tenants.Tenant{who, harness.Tenant("b", 1)}, Upstreams: map[string]http.Handler{"up1": up}})
				defer s.Close()
				if used {
					s.Call(t.Context(), "b", harness.Chat(false, 5, ""))
				}
				post := func() (int, string) {
					req, _ := http.NewRequestWithContext(t.Context(), "POST", "http://gateway"+c.path, strings.NewReader(c.body))
					req.Header.Set("Authorization", "Bearer a")
					resp := testkit.Must(s.Client.Do(req))(t)
					defer harness.ReadAll(resp)
					return resp.StatusCode, resp.Header.Get("Retry-After")
				}
				up.AnswerWith(c.mood)
				if c.mood == nil {
					up.AnswerWith(limited)
				}
				if status, _ := post(); status < 429 {
					t.Fatalf("got %d", status)
				}
				up.AnswerWith(func(w http.ResponseWriter, _ *http.Request) {
					_, _ = io.WriteString(w, `{"choices":[],"usage":{"prompt_tokens":1}}`)
				})
				want := 200
				if c.stops {
					want = 429
				}
				if ans := s.Call(t.Context(), "b", harness.Chat(false, 5, "")); ans.Status != want {
					t.Errorf("chat of m gets %d %s", ans.Status, ans.Body)
				}
				if status, after := post(); c.again != 0 && status != c.again || status == 429 && after == "" {
					t.Errorf("the same call again gets %d, Retry-After %s", status, after)
				}
				s.CheckIdle()
			})
		}
	}
}

// Who may wait for the end of a model's pause does, and holds nothing meanwhile: calls of other models have all slots.
func TestUpstreams_WaitsForItsModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := harness.NewUpstream(t, mock.Config{})
		who := harness.Tenant("a", 1)
		who.MaxWait = time.Minute
		p := harness.PoolAt("up1")
		p.Concurrency = 4
		s := harness.New(t, harness.World{Pool: p, Tenants: []tenants.Tenant{who}, Upstreams: map[string]http.Handler{"up1": up}})
		other := strings.Replace(harness.Chat(false, 5, ""), `"m"`, `"n"`, 1)
		s.Call(t.Context(), "a", other)
		up.AnswerWith(harness.Status(429, "Retry-After", "20"))
		began := time.Now()
		var waiting sync.WaitGroup
		for range 10 {
			waiting.Go(func() {
				if ans := s.Call(t.Context(), "a", harness.Chat(false, 5, "")); ans.Status != 200 || time.Since(began) < 20*time.Second {
					t.Errorf("after %v: %d %s", time.Since(began), ans.Status, ans.Body)
				}
			})
		}
		time.Sleep(time.Second)
		up.AnswerWith(nil)
		before := up.Calls.Load()
		for range 10 {
			if ans := s.Call(t.Context(), "a", other); ans.Status != 200 || ans.Header.Get("X-Llmgov-Queue-Ms") != "" {
				t.Errorf("a call of another model gets %d %s after %s ms", ans.Status, ans.Body, ans.Header.Get("X-Llmgov-Queue-Ms"))
			}
		}
		if n := up.Calls.Load() - before; n != 10 {
			t.Errorf("%d calls reach the upstream, want those 10 of the other model", n)
		}
		waiting.Wait()
		if d := time.Since(began); d > 25*time.Second {
			t.Errorf("served after %v", d)
		}
	})
}

// An upstream that refuses stream_options gets calls of that model without it: the refused one at once, and later ones from the
// beginning. Only what the gateway has added is left out, and only if that helps.
func TestUpstreams_RefusesStreamOptions(t *testing.T) {
	const refusal = `{"object":"error","message":{"detail":[{"type":"extra_forbidden","loc":["body","stream_options"],"msg":"Extra inputs are not permitted"}]}}`
	const rest = `"max_tokens":50,"messages":[{"role":"user","content":"a"}]}`
	for name, c := range map[string]struct {
		more    string // in the body
		rest    string // of it, if it is another
		refuses string // bodies that contain this
		model   string // by which the upstream knows it, if by another name
		by      int    // the status of that refusal, if it is another than 422
		status  int
		tries   int64 // of three calls, the last one after a day
		sent    string
	}{
		"added":                {refuses: "stream_options", status: 200, tries: 5, sent: `{"model":"m","stream":true,` + rest},
		"by a crash":           {refuses: "stream_options", by: 500, status: 200, tries: 5, sent: `{"model":"m","stream":true,` + rest},
		"by lack of it":        {refuses: "stream_options", by: 501, status: 200, tries: 5, sent: `{"model":"m","stream":true,` + rest},
		"added, under a name":  {refuses: "stream_options", model: "other", status: 200, tries: 5, sent: `{"model":"other","stream":true,` + rest},
		"null":                 {more: `"stream_options":null,`, refuses: "include_usage", status: 200, tries: 5, sent: `{"stream_options":null,"model":"m","stream":true,` + rest},
		"the caller's":         {more: `"stream_options":{"include_usage":true},`, refuses: "stream_options", status: 422, tries: 3},
		"part of the caller's": {more: `"stream_options":{"include_usage":false},`, refuses: "stream_options", status: 422, tries: 3},
		"words of no addition": {refuses: "model", status: 422, tries: 6},
		"words of a prompt":    {more: `"user":"https://x/stream_options",`, refuses: "model", status: 422, tries: 3},
		"in other letters":     {more: `"user":"https://x/\u0073tream_options",`, refuses: "model", status: 422, tries: 3},
		"a bound": {
			rest: `"messages":[{"role":"user","content":"a"}]}`, refuses: "max_completion_tokens", status: 200, tries: 5,
			sent: `{"max_tokens":50,"stream_options":{"include_usage":true},"model":"m","stream":true,"messages":[{"role":"user","content":"a"}]}`,
		},
	} {
		for _, limited := range []int64{0, 1000} {
			testkit.Virtual(t, fmt.Sprint(name, " ", limited), func(t *testing.T) {
				up := harness.NewUpstream(t, mock.Config{})
				var last string
				strict := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					b, _ := io.ReadAll(r.Body)
					last = string(b)
					r.Body = io.NopCloser(bytes.NewReader(b))
					if strings.Contains(last, c.refuses) {
						up.Calls.Add(1)
						told := refusal
						if c.rest != "" {
							told = strings.Replace(told, "stream_options", c.refuses, 1)
						}
						saying(cmp.Or(c.by, http.StatusUnprocessableEntity), told)(w, r)
						return
					}
					up.ServeHTTP(w, r)
				})
				p := harness.PoolAt("up1")
				p.Upstreams[0].RPM = limited
				if c.model != "" {
					p.Upstreams[0].Models = map[string]string{"m": c.model}
				}
				who := harness.Tenant("a", 1)
				who.MaxOutputTokens = 50
				s := harness.New(t, harness.World{Pool: p, Tenants: []tenants.Tenant{who}, Upstreams: map[string]http.Handler{"up1": strict}})
				defer s.Close()
				for i := range 3 {
					time.Sleep(time.Duration(i) * 12 * time.Hour)
					ans := s.Call(t.Context(), "a", `{`+c.more+`"model":"m","stream":true,`+cmp.Or(c.rest, rest))
					if ans.Status != c.status || c.status == 200 && (last != c.sent || !strings.HasSuffix(ans.Body, "data: [DONE]\n\n") || strings.Contains(ans.Body, `"usage":{`)) {
						t.Errorf("got %d %s; the upstream got %s", ans.Status, ans.Body, last)
					}
				}
				if n := up.Calls.Load(); n != c.tries {
					t.Errorf("the upstream got %d calls, want %d", n, c.tries)
				}
				if got := s.Charged("a", "output"); (got > 0) != (c.status == 200) {
					t.Errorf("%d tokens are charged", got)
				}
				s.CheckIdle()
			})
		}
	}
}

// A stream is metered as one, whatever its label says, also beside a call that asked for none.
func TestUpstreams_Mislabelled(t *testing.T) {
	for _, label := range []string{"application/json", "text/plain; charset=utf-8", "application/octet-stream", ""} {
		synctest.Test(t, func(t *testing.T) {
			up := harness.NewUpstream(t, mock.Config{})
			labelling := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { up.ServeHTTP(labelled{w, label}, r) })
			s := harness.New(t, harness.World{Pool: harness.PoolOf(0, 1), Tenants: []tenants.Tenant{harness.Tenant("a", 1)}, Upstreams: map[string]http.Handler{"up1": labelling}})
			defer s.Close()
			ans := s.Call(t.Context(), "a", harness.Chat(true, 50, `,"mock":{"output_tokens":20}`))
			if ans.Status != 200 || !strings.HasSuffix(ans.Body, "data: [DONE]\n\n") || strings.Contains(ans.Body, `"usage":{`) {
				t.Errorf("%q: got %d %s", label, ans.Status, ans.Body)
			}
			if got := s.Charged("a", "output"); got != 20 {
				t.Errorf("%q: %d tokens are charged, 20 were produced", label, got)
			}
			s.CheckIdle()
		})
	}
}

// labelled labels an answer otherwise.
type labelled struct {
	http.ResponseWriter
	label string
}

func (w labelled) WriteHeader(status int) {
	w.Header()["Content-Type"] = []string{w.label}
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController flush.
func (w labelled) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// What must not be tried again is not: where the client has seen a part of it, where it
// would be there twice, and what is the caller's own fault.
func TestUpstreams_NoFailOver(t *testing.T) {
	hangUp := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	for name, c := range map[string]struct {
		path, body string
		mood       http.HandlerFunc
		status     int
		says       string
		free       bool
	}{
		"mid-stream":     {body: harness.Chat(true, 50, `,"mock":{"hangup_after":3}`), status: 200, says: `"code":"upstream_error"`},
		"own fault":      {body: harness.Chat(false, 50, `,"mock":{"error_status":400}`), status: 400},
		"too large":      {body: harness.Chat(false, 50, ``), mood: harness.Status(429, "X-Should-Retry", "false"), status: 429},
		"not there":      {body: harness.Chat(false, 50, ``), mood: harness.Status(501), status: 501},
		"of a model":     {body: harness.Chat(false, 50, ``), mood: saying(400, `{"error":{"message":"This model's maximum context length is 8192 tokens.","code":"context_length_exceeded"}}`), status: 400},
		"quotes":         {body: harness.Chat(false, 50, ``), mood: saying(400, `{"error":{"code":"x","message":"No such tool: Your credit balance is too low"}}`), status: 400},
		"wrong stream":   {body: harness.Chat(true, 50, ``), mood: events("data: {\"error\":{\"type\":\"invalid_request_error\"}}\n\n"), status: 400, free: true},
		"failed stream":  {path: "/v1/responses", body: `{"model":"m","input":"x","stream":true}`, mood: events("data: {\"type\":\"response.failed\",\"response\":{\"error\":{\"code\":\"x\"}}}\n\n"), status: 200, free: true},
		"wrong call":     {body: harness.Chat(false, 50, ``), mood: saying(200, `{"error":{"code":400}}`), status: 400, free: true},
		"nothing to say": {body: harness.Chat(false, 50, ``), mood: saying(200, `{"choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":""}}]}`), status: 200, says: "stop"},
		"nothing to stream": {
			body: harness.Chat(true, 50, ``), mood: events("data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\"}}]}\n\ndata: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"),
			status: 200, says: "data: [DONE]",
		},
		"a tool alone":    {body: harness.Chat(false, 50, ``), mood: saying(200, `{"choices":[{"index":0,"message":{"content":null,"tool_calls":[{"function":{"name":"error","arguments":"{\"error\":1}"}}]},"error":null}]}`), status: 200, says: "tool_calls"},
		"filtered":        {body: harness.Chat(false, 50, ``), mood: saying(200, `{"choices":[],"usage":{"prompt_tokens":9}}`), status: 200, says: "choices"},
		"a part":          {body: harness.Chat(false, 50, ``), mood: saying(200, `{"choices":[{"index":0,"finish_reason":"error","message":{"content":"x"}}],"usage":{"completion_tokens":1}}`), status: 200, says: "choices"},
		"an answer later": {path: "/v1/responses", body: `{"model":"m","input":"x"}`, mood: saying(200, `{"object":"response","status":"queued","output":[]}`), status: 200, says: "queued"},
		"failed behind its beginning": {
			path: "/v1/responses", body: `{"model":"m","input":"x","stream":true}`, status: 200, free: true,
			mood: events("data: {\"type\":\"response.created\",\"response\":{\"id\":\"r\"}}\n\ndata: {\"type\":\"response.in_progress\",\"response\":{\"id\":\"r\"}}\n\ndata: {\"type\":\"response.failed\",\"response\":{\"error\":{\"code\":\"server_error\"},\"usage\":null}}\n\n"),
		},
		"failed answer": {path: "/v1/responses", body: `{"model":"m","input":"x"}`, mood: saying(200, `{"object":"response","error":{"code":"x"},"output":[]}`), status: 200, free: true},
		"a tier":        {body: harness.Chat(false, 50, ``), mood: saying(403, `{"error":{"message":"Your account does not have access to the priority tier."}}`), status: 403},
		"no object":     {body: harness.Chat(false, 50, ``), mood: saying(404, `{"error":{"code":"not_found"}}`), status: 404},
		"makes":         {path: "/v1/batches", body: `{"endpoint":"/v1/chat/completions","completion_window":"24h"}`, mood: harness.Status(500), status: 500},
		"kept response": {path: "/v1/responses", body: `{"model":"m","input":"x"}`, mood: hangUp, status: 502},
	} {
		testkit.Virtual(t, name, func(t *testing.T) {
			first := harness.NewUpstream(t, mock.Config{})
			second := harness.NewUpstream(t, mock.Config{})
			first.AnswerWith(c.mood)
			p := harness.PoolOf(1, 1, 1)
			p.Upstreams = []tenants.PoolUpstream{{Name: "up1", Weight: 100}, {Name: "up2", Weight: 1}}
			who := harness.Tenant("a", 1)
			who.Routes = tenants.RouteInference | tenants.RouteBatches
			s := harness.New(t, harness.World{Pool: p, Tenants: []tenants.Tenant{who}, Upstreams: map[string]http.Handler{"up1": first, "up2": second}})
			path := c.path
			if path == "" {
				path = "/v1/chat/completions"
			}
			req, _ := http.NewRequestWithContext(t.Context(), "POST", "http://gateway"+path, strings.NewReader(c.body))
			req.Header.Set("Authorization", "Bearer a")
			resp := testkit.Must(s.Client.Do(req))(t)
			text := harness.ReadAll(resp)
			if resp.StatusCode != c.status || !strings.Contains(text, c.says) || resp.ContentLength >= 0 && resp.ContentLength != int64(len(text)) {
				t.Errorf("got %d, %d bytes of %d: %s", resp.StatusCode, len(text), resp.ContentLength, text)
			}
			if took := s.Charged("a", "input") + s.Charged("a", "output"); c.free && took != 0 {
				t.Errorf("%d tokens are charged", took)
			}
			if n := second.Calls.Load(); n != 0 {
				t.Errorf("the other upstream got %d calls", n)
			}
		})
	}
}

// snapshot is GET /api/v1/snapshot.
func snapshot(s *harness.Stack) (v struct {
	Pools []struct {
		RateRatio float64    `json:"rate_ratio"`
		HeldUntil *time.Time `json:"held_until"`
		Upstreams []struct {
			Name, State string
			Until       *time.Time
			TPM         *int64 `json:"declared_tpm"`
		}
	}
},
) {
	rec := httptest.NewRecorder()
	req := httptest.NewRequest("GET", "http://localhost/api/v1/snapshot", nil)
	s.AdminAPI(admin.Options{}).ServeHTTP(rec, req)
	testkit.OK(s.T, json.Unmarshal(rec.Body.Bytes(), &v))
	return v
}

// An upstream that fails is left out after some calls, gets one call at a time when its
// pause is over, and its part of the calls again when that one went well.
func TestUpstreams_Breaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := harness.NewUpstream(t, mock.Config{})
		p := harness.PoolOf(1, 1)
		p.TPM = 1_000_000
		p.Concurrency = 0
		s := harness.New(t, harness.World{Pool: p, Tenants: []tenants.Tenant{harness.Tenant("a", 1)}, Upstreams: map[string]http.Handler{"up1": bad}})
		call := func(n int) {
			t.Helper()
			for range n {
				s.Call(t.Context(), "a", harness.Chat(false, 5, "")).WantOK(t)
			}
		}
		bad.AnswerWith(harness.Status(500))
		call(40)
		if n := bad.Calls.Load(); n != 5 {
			t.Fatalf("the upstream that fails got %d of 40 calls, want 5", n)
		}
		if v := snapshot(s).Pools[0]; v.Upstreams[1].State != "open" || v.RateRatio != 0.5 {
			t.Errorf("the snapshot shows %+v", v)
		}
		time.Sleep(5 * time.Second)
		call(10)
		if n := bad.Calls.Load(); n != 6 {
			t.Errorf("after a probe that failed it has %d calls, want 6", n)
		}
		bad.AnswerWith(nil)
		time.Sleep(9 * time.Second)
		call(10)
		if n := bad.Calls.Load(); n != 6 {
			t.Errorf("before a pause of twice the length is over it has %d calls, want 6", n)
		}
		time.Sleep(time.Second)
		call(41)
		if n := bad.Calls.Load(); n < 25 || n > 27 {
			t.Errorf("when it works again it has %d calls, want half of 41 more", n)
		}
		if v := snapshot(s).Pools[0]; v.Upstreams[1].State != "up" || v.RateRatio != 1 {
			t.Errorf("the snapshot shows %+v", v)
		}
	})
}

// Where no upstream answers, callers are told so at once, and when to come back.
func TestUpstreams_NoneAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := harness.New(t, harness.World{Pool: harness.PoolAt("gone"), Tenants: []tenants.Tenant{harness.Tenant("a", 1)}, Upstreams: map[string]http.Handler{"gone": nil}})
		for range 5 {
			if ans := s.Call(t.Context(), "a", harness.Chat(false, 5, "")); ans.Status != 502 {
				t.Fatalf("%d %s", ans.Status, ans.Body)
			}
		}
		ans := s.Call(t.Context(), "a", harness.Chat(false, 5, ""))
		if ans.Status != 503 || harness.ErrorCode(ans.Body) != "upstream_error" || ans.Header.Get("Retry-After") != "5" {
			t.Errorf("%d %v %s", ans.Status, ans.Header, ans.Body)
		}
		time.Sleep(5 * time.Second)
		if ans := s.Call(t.Context(), "a", harness.Chat(false, 5, "")); ans.Status != 502 {
			t.Errorf("the probe is answered %d %s", ans.Status, ans.Body)
		}
	})
}

// An upstream that answers, if with errors, is asked for its answer where there is no
// other: nobody can shut a pool by calls that make it fail.
func TestUpstreams_ErrorsShutNobodyOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := harness.New(t, harness.World{Pool: harness.Pool(0, 0, 100), Tenants: []tenants.Tenant{harness.Tenant("a", 1), harness.Tenant("b", 1)}})
		for range 20 {
			if ans := s.Call(t.Context(), "a", harness.Chat(false, 5, `,"mock":{"error_status":500}`)); ans.Status != 500 {
				t.Fatalf("%d %s", ans.Status, ans.Body)
			}
		}
		s.Call(t.Context(), "b", harness.Chat(false, 5, "")).WantOK(t)
	})
}

// A provider whose limit is lower than the pool's is not hammered: who may wait waits
// for as long as it says, and is served; who may not gets its answer, with its time.
func TestUpstreams_BusyIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		patient := harness.Tenant("patient", 1)
		hasty := harness.Tenant("hasty", 1)
		patient.MaxWait = 3 * time.Minute
		s := harness.New(t, harness.World{Mock: mock.Config{RPM: 10}, Pool: harness.Pool(0, 0, 100), Tenants: []tenants.Tenant{patient, hasty}})
		// Whoever counts tokens, which nothing pauses, keeps nobody from being waited for.
		count, _ := http.NewRequestWithContext(t.Context(), "POST", "http://gateway/v1/messages/count_tokens", strings.NewReader(`{"model":"m","messages":[{"role":"user","content":"x"}]}`))
		count.Header.Set("Authorization", "Bearer hasty")
		harness.ReadAll(testkit.Must(s.Client.Do(count))(t))
		s.Mock.ResetStats()
		var all sync.WaitGroup
		began := time.Now()
		for range 25 {
			all.Go(func() {
				s.Call(t.Context(), "patient", harness.Chat(false, 5, "")).WantOK(t)
			})
		}
		time.Sleep(time.Second)
		ans := s.Call(t.Context(), "hasty", harness.Chat(false, 5, ""))
		if ms, _ := strconv.Atoi(ans.Header.Get("Retry-After-Ms")); ans.Status != 429 || ms < 55_000 || ms > 60_000 || ans.Header.Get("Retry-After") == "" {
			t.Errorf("who does not wait: %d %v %s", ans.Status, ans.Header, ans.Body)
		}
		if v := snapshot(s).Pools[0]; v.RateRatio != 0 || v.HeldUntil == nil || v.Upstreams[0].State != "busy" {
			t.Errorf("the snapshot shows %+v", v)
		}
		all.Wait()
		if d := time.Since(began); d < 2*time.Minute || d > 3*time.Minute {
			t.Errorf("25 calls at 10 a minute took %v", d)
		}
		if refused := s.Mock.Stats().Refused; refused > 60 {
			t.Errorf("the provider refused %d calls", refused)
		}
		st := s.Mock.Stats()
		if in, out := s.Charged("", "input"), s.Charged("", "output"); in != st.PromptTokens || out != st.OutputTokens {
			t.Errorf("%d and %d tokens are charged, %d and %d were produced", in, out, st.PromptTokens, st.OutputTokens)
		}
	})
}

// A 429 that is waited out too long, or is not to be waited for, is passed on with its
// time, as it is said in whatever way.
func TestUpstreams_BusyIsPassedOn(t *testing.T) {
	for name, c := range map[string]struct {
		header []string
		body   string
		ms     int
	}{
		"seconds": {[]string{"Retry-After", "7"}, "", 7000},
		"ms":      {[]string{"Retry-After", "1", "Retry-After-Ms", "350"}, "", 350},
		"reset":   {[]string{"X-Ratelimit-Remaining-Tokens", "0", "X-Ratelimit-Reset-Tokens", "1m2s", "X-Ratelimit-Remaining-Requests", "5", "X-Ratelimit-Reset-Requests", "1h"}, "", 59_999},
		"unknown": {[]string{"X-Ratelimit-Remaining-Tokens", "-1", "X-Ratelimit-Reset-Tokens", "1m2s"}, "", 1000},
		"clock":   {[]string{"Retry-After", "Fri, 05 Jan 2046 12:00:20 GMT"}, "", 1000},
		"text":    {nil, `{"error":{"message":"upstream says 429: Please try again in 6.5s.","code":"c"}}`, 6500},
		"delay":   {nil, `[{"error":{"code":429,"message":"upstream says 429: Quota exceeded.","details":[{"@type":"google.rpc.Help"},{"@type":"google.rpc.RetryInfo","retryDelay":"13s"}]}}]`, 13_000},
		"list":    {nil, `[{"error":{"code":429,"message":"upstream says 429. Please retry in 5.25s."}}]`, 5250},
		"both":    {[]string{"Retry-After", "7"}, `{"message":"upstream says 429. Try again in 9 seconds."}`, 7000},
		"nothing": {nil, "", 1000},
	} {
		testkit.Virtual(t, name, func(t *testing.T) {
			up := harness.Status(429, c.header...)
			if c.body != "" {
				up = func(w http.ResponseWriter, _ *http.Request) {
					for i := 0; i+1 < len(c.header); i += 2 {
						w.Header().Set(c.header[i], c.header[i+1])
					}
					w.WriteHeader(429)
					_, _ = io.WriteString(w, c.body)
				}
			}
			s := harness.New(t, harness.World{Pool: harness.PoolAt("up1"), Tenants: []tenants.Tenant{harness.Tenant("a", 1)}, Upstreams: map[string]http.Handler{"up1": up}})
			ans := s.Call(t.Context(), "a", harness.Chat(true, 5, ""))
			if ms, _ := strconv.Atoi(ans.Header.Get("Retry-After-Ms")); ans.Status != 429 || ms != c.ms || ans.Header.Get("Retry-After") == "" || !strings.Contains(ans.Body, "upstream says 429") {
				t.Errorf("%d %v %s", ans.Status, ans.Header, ans.Body)
			}
			ans = s.Call(t.Context(), "a", harness.Chat(true, 5, ""))
			if ms, _ := strconv.Atoi(ans.Header.Get("Retry-After-Ms")); ans.Status != 429 || ms != c.ms || harness.ErrorCode(ans.Body) != "rate_limit_exceeded" {
				t.Errorf("the next one: %d %v %s", ans.Status, ans.Header, ans.Body)
			}
		})
	}
}

// When a provider that asked for a pause is back, who waited shares it by weight, not by
// who had more calls refused.
func TestUpstreams_PauseEndsInFairOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := harness.NewUpstream(t, mock.Config{FirstToken: time.Second})
		up.AnswerWith(harness.Status(429, "Retry-After", "10"))
		many := harness.Tenant("many", 1)
		few := harness.Tenant("few", 1)
		many.MaxWait = 5 * time.Minute
		few.MaxWait = 5 * time.Minute
		p := harness.PoolAt("up1")
		p.Concurrency = 4
		s := harness.New(t, harness.World{Pool: p, Tenants: []tenants.Tenant{many, few}, Upstreams: map[string]http.Handler{"up1": up}})
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		var served [2]atomic.Int64
		for i, n := range []int{40, 8} {
			for range n {
				all.Go(func() {
					for ctx.Err() == nil {
						if ans := s.Call(ctx, []string{"many", "few"}[i], harness.Chat(false, 5, "")); ans.Status == 200 {
							served[i].Add(1)
						} else if ctx.Err() == nil {
							t.Errorf("%d %s", ans.Status, ans.Body)
						}
					}
				})
			}
		}
		time.Sleep(5 * time.Second)
		up.AnswerWith(nil)
		time.Sleep(65 * time.Second)
		stop()
		all.Wait()
		m := served[0].Load()
		f := served[1].Load()
		if m+f < 220 || f < m*9/10 || f > m*11/10 {
			t.Errorf("after the pause %d calls of the one and %d of the other were served", m, f)
		}
	})
}

// A longer pause that is asked for during a shorter one holds the pool for longer too.
func TestUpstreams_LongerPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := harness.NewUpstream(t, mock.Config{})
		var n atomic.Int64
		up.AnswerWith(func(w http.ResponseWriter, r *http.Request) {
			switch n.Add(1) {
			case 1:
				time.Sleep(100 * time.Millisecond) // until both are there
				harness.Status(429, "Retry-After", "1")(w, r)
			case 2:
				time.Sleep(500 * time.Millisecond)
				harness.Status(429, "Retry-After", "20")(w, r)
			default:
				up.Mock.ServeHTTP(w, r)
			}
		})
		who := harness.Tenant("a", 1)
		who.MaxWait = time.Minute
		s := harness.New(t, harness.World{Pool: harness.PoolAt("up1"), Tenants: []tenants.Tenant{who}, Upstreams: map[string]http.Handler{"up1": up}})
		began := time.Now()
		testkit.AtOnce(2, func(_ int) {
			if ans := s.Call(t.Context(), "a", harness.Chat(false, 5, "")); ans.Status != 200 || ans.Header.Get("X-Llmgov-Queue-Ms") == "" {
				t.Errorf("%d %v %s", ans.Status, ans.Header, ans.Body)
			}
		})
		if d := time.Since(began); d != 20500*time.Millisecond || n.Load() != 4 {
			t.Errorf("served after %v and %d tries, want 20.5 s and 4", d, n.Load())
		}
	})
}

// Of two upstreams one may be busy: its calls go to the other, and the pool hands out
// only what that has.
func TestUpstreams_OneIsBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy := harness.NewUpstream(t, mock.Config{})
		p := harness.PoolOf(1, 3)
		p.TPM = 1_000_000
		p.Concurrency = 0
		s := harness.New(t, harness.World{Pool: p, Tenants: []tenants.Tenant{harness.Tenant("a", 1)}, Upstreams: map[string]http.Handler{"up1": busy}})
		busy.AnswerWith(harness.Status(429, "Retry-After", "20"))
		for range 20 {
			s.Call(t.Context(), "a", harness.Chat(false, 5, "")).WantOK(t)
		}
		if n := busy.Calls.Load(); n != 1 {
			t.Errorf("the busy upstream got %d calls", n)
		}
		if v := snapshot(s).Pools[0]; v.RateRatio != 0.25 || v.HeldUntil != nil || v.Upstreams[1].State != "busy" {
			t.Errorf("the snapshot shows %+v", v)
		}
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if v := snapshot(s).Pools[0]; v.RateRatio != 1 || v.Upstreams[1].State != "up" {
			t.Errorf("20 s later it shows %+v", v)
		}
	})
}

// A limit that the provider declares lowers the pool's, and goes when it is not said any
// more.
func TestUpstreams_DeclaredLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := harness.Pool(600_000, 0, 0)
		p.HeadroomPPM = 0
		s := harness.New(t, harness.World{Mock: mock.Config{TPM: 200_000}, Pool: p, Tenants: []tenants.Tenant{harness.Tenant("a", 1)}})
		limit := func() int64 { return s.Governor.State().Pools[0].Axes[escrow.Tokens].Limit }
		for range 3 {
			s.Call(t.Context(), "a", harness.Chat(false, 5, ""))
		}
		if limit() != 200_000 {
			t.Errorf("the limit is %d, and the provider declared 200000", limit())
		}
		if v := snapshot(s).Pools[0].Upstreams[0]; v.TPM == nil || *v.TPM != 200_000 {
			t.Errorf("the snapshot shows %+v", v)
		}
		time.Sleep(4 * time.Minute)
		s.Call(t.Context(), "a", harness.Chat(false, 5, ""))
		time.Sleep(4 * time.Minute)
		if limit() != 200_000 {
			t.Errorf("four minutes after it was said again the limit is %d", limit())
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if limit() != 600_000 {
			t.Errorf("five minutes after it was said last the limit is %d", limit())
		}
	})
}

// Azure counts requests in ten seconds: a pool of what it grants a minute keeps all of it, and a lower limit is the sixfold of what is said.
func TestUpstreams_DeclaredByAzure(t *testing.T) {
	for said, want := range map[string]int64{"20": 120, "15": 90, "-1": 120} {
		testkit.Virtual(t, said, func(t *testing.T) {
			w := harness.World{Pool: harness.PoolAt("azure"), Tenants: []tenants.Tenant{harness.Tenant("a", 1)}, Upstreams: map[string]http.Handler{
				"azure": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("X-Ratelimit-Limit-Requests", said)
					_, _ = io.WriteString(w, `{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}`)
				}),
			}}
			w.Pool.RPM = 120
			w.Pool.HeadroomPPM = 0
			w.Tune = func(cfg *tenants.Config) { cfg.Upstreams[1].Kind = tenants.Azure }
			s := harness.New(t, w)
			for range 4 {
				s.Call(t.Context(), "a", harness.Chat(false, 5, "")).WantOK(t)
				time.Sleep(time.Second)
			}
			if got := s.Governor.State().Pools[0].Axes[escrow.Requests].Limit; got != want {
				t.Errorf("the limit is %d, want %d", got, want)
			}
		})
	}
}

// Over a storm of failures what is charged is what was produced, and nothing is held
// when it is over.
func TestUpstreams_Storm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := harness.NewUpstream(t, mock.Config{TPM: 60_000, FirstToken: 100 * time.Millisecond, TokensPerSecond: 200, Seed: 2})
		c := harness.NewUpstream(t, mock.Config{ErrorRate: .2, RPM: 300, FirstToken: 100 * time.Millisecond, TokensPerSecond: 200, Seed: 3})
		patient := harness.Tenant("patient", 2)
		hasty := harness.Tenant("hasty", 1)
		patient.MaxWait = 20 * time.Second
		p := harness.PoolOf(1, 2, 1)
		p.TPM = 300_000
		p.Concurrency = 64
		s := harness.New(t, harness.World{
			Mock: mock.Config{ErrorRate: .3, FirstToken: 100 * time.Millisecond, TokensPerSecond: 200},
			Pool: p, Tenants: []tenants.Tenant{patient, hasty}, Upstreams: map[string]http.Handler{"up1": b, "up2": c, "up3": nil},
		})
		var all sync.WaitGroup
		var good atomic.Int64
		callers := testkit.Rounds(40, 60)
		for i := range callers {
			all.Go(func() {
				for range 20 {
					ans := s.Call(t.Context(), []string{"patient", "hasty"}[i%2], harness.Chat(i%3 == 0, 100, ""))
					switch ans.Status {
					case 200:
						good.Add(1)
					case 429, 500:
						time.Sleep(time.Second)
					default:
						t.Errorf("%d %s", ans.Status, ans.Body)
					}
				}
			})
		}
		all.Wait()
		prompt := int64(0)
		output := int64(0)
		for _, m := range []*mock.Server{s.Mock, b.Mock, c.Mock} {
			st := m.Stats()
			prompt = prompt + st.PromptTokens
			output = output + st.OutputTokens
			if st.Running != 0 || st.Queued != 0 {
				t.Errorf("a model server still runs %d", st.Running)
			}
		}
		if in, out := s.Charged("", "input"), s.Charged("", "output"); in != prompt || out != output {
			t.Errorf("%d and %d tokens are charged, %d and %d were produced", in, out, prompt, output)
		}
		if calls := int64(callers) * 20; good.Load() < calls*7/10 { // usually a little above three quarters; which goroutine goes first decides
			t.Errorf("%d of %d calls were served", good.Load(), calls)
		}
		t.Logf("%d served", good.Load())
	})
}

// What an upstream keeps is asked for where it is, and what refers to it goes there; what
// is made anew is made at the first.
func TestUpstreams_ObjectsStayWhereTheyAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := harness.NewUpstream(t, mock.Config{Seed: 2})
		who := harness.Tenant("a", 1)
		who.Routes = tenants.RouteInference | tenants.RouteResponses | tenants.RouteVectorStores
		s := harness.New(t, harness.World{Pool: harness.PoolOf(1, 1), Tenants: []tenants.Tenant{who}, Upstreams: map[string]http.Handler{"up1": b}})
		ask := func(method, path, body string) (int, string) {
			t.Helper()
			req, _ := http.NewRequestWithContext(t.Context(), method, "http://gateway/v1"+path, strings.NewReader(body))
			req.Header.Set("Authorization", "Bearer a")
			resp := testkit.Must(s.Client.Do(req))(t)
			return resp.StatusCode, harness.ReadAll(resp)
		}
		id := func(body string) string {
			var v struct{ ID string }
			_ = json.Unmarshal([]byte(body), &v)
			return v.ID
		}
		var made []string
		for range 6 {
			status, text := ask("POST", "/responses", `{"model":"m","input":"x","max_output_tokens":3}`)
			if status != 200 {
				t.Fatalf("%d %s", status, text)
			}
			made = append(made, id(text))
		}
		if n := b.Calls.Load(); n != 3 {
			t.Fatalf("one of two upstreams made %d of 6 responses", n)
		}
		for _, one := range made {
			if status, text := ask("GET", "/responses/"+one, ""); status != 200 {
				t.Errorf("%d %s", status, text)
			}
		}
		before := b.Calls.Load()
		for range 3 { // the second was made there
			if status, text := ask("POST", "/responses", `{"model":"m","input":"x","max_output_tokens":3,"previous_response_id":"`+made[1]+`"}`); status != 200 {
				t.Errorf("%d %s", status, text)
			}
		}
		there := b.Calls.Load() - before
		if there != 0 && there != 3 {
			t.Errorf("of 3 calls that refer to a response %d went to one upstream", there)
		}
		before = b.Calls.Load()
		for range 3 {
			if status, text := ask("POST", "/vector_stores", `{"name":"x"}`); status != 200 {
				t.Errorf("%d %s", status, text)
			}
		}
		if status, text := ask("GET", "/vector_stores", ""); status != 200 || strings.Count(text, `"vector_store"`) != 3 || b.Calls.Load() != before {
			t.Errorf("of 3 vector stores the list has %d %s", status, text)
		}
	})
}

// Upstreams and their weights change while calls run.
func TestUpstreams_Reload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := harness.NewUpstream(t, mock.Config{})
		w := harness.World{Pool: harness.PoolAt("mock"), Tenants: []tenants.Tenant{harness.Tenant("a", 1)}, Upstreams: map[string]http.Handler{"up1": b}}
		s := harness.New(t, w)
		for _, c := range []struct {
			pool  tenants.Pool
			there int64 // of 8 calls
		}{{harness.PoolAt("mock"), 0}, {harness.PoolOf(1, 1), 4}, {harness.PoolOf(1, 3), 6}, {harness.PoolAt("up1"), 8}} {
			w.Pool = c.pool
			snap := testkit.Must(tenants.Build(w.Config(), w.Tenants))(t)
			testkit.OK(t, s.Gateway.Apply(snap))
			before := b.Calls.Load()
			for range 8 {
				s.Call(t.Context(), "a", harness.Chat(false, 5, "")).WantOK(t)
			}
			if n := b.Calls.Load() - before; n != c.there {
				t.Errorf("of 8 calls %d went there, want %d", n, c.there)
			}
		}
	})
}
