// Package sdk tests OpenAI's SDK for Go and go-openai against a gateway on real sockets, and the
// headers that they read.
package sdk

import (
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/llmgov/llmgov/internal/test/e2e/harness/sockets"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/internal/test/testkit/leaktest"
	"github.com/llmgov/llmgov/tenants"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestHeaders_Rates(t *testing.T) {
	s := sockets.New(t, sockets.World{Tenants: []tenants.Tenant{sockets.Tenant("acme", func(t *tenants.Tenant) { t.RPM = 5 })}})
	for i, tc := range []struct {
		name, path, body string
		status           int
	}{
		{"plain", "/v1/chat/completions", sockets.Chat(``), 200},
		{"stream", "/v1/chat/completions", sockets.Chat(`,"stream":true`), 200},
		{"embeddings", "/v1/embeddings", `{"model":"text-embedding-3-small","input":"x"}`, 200},
		{"an upstream's 400", "/v1/chat/completions", `{"model":"gpt-4o"}`, 400},
		{"an upstream's 500", "/v1/responses", `{"model":"gpt-4o","input":"x","mock":{"error_status":500}}`, 500},
		{"a refusal", "/v1/chat/completions", sockets.Chat(``), 429},
	} {
		reply := s.Post(tc.path, tc.body)
		if reply.Status != tc.status {
			t.Errorf("%s: status %d, want %d: %s", tc.name, reply.Status, tc.status, reply.Body)
		}
		sockets.WantRateHeaders(t, reply.Header)
		want := map[string]string{
			"X-Ratelimit-Limit-Requests": "5", "X-Ratelimit-Remaining-Requests": strconv.Itoa(max(0, 4-i)),
			"X-Ratelimit-Limit-Tokens": "1000000", "X-Ratelimit-Limit-Concurrent": "64",
		}
		for name, v := range want {
			if got := reply.Header.Get(name); got != v {
				t.Errorf("%s: %s is %s, want %s", tc.name, name, got, v)
			}
		}
	}
}

// The strictest of the tenant's and the pool's limits is told.
func TestHeaders_RatesOfThePool(t *testing.T) {
	s := sockets.New(t, sockets.World{
		Pool: sockets.Pool(func(p *tenants.Pool) {
			p.RPM = 3
			p.HeadroomPPM = 0
		}),
		Tenants: []tenants.Tenant{sockets.Tenant("acme", nil)},
	})
	h := s.Post("/v1/chat/completions", sockets.Chat(``)).Header
	if got := h.Get("X-Ratelimit-Limit-Requests"); got != "3" {
		t.Errorf("the limit is told as %s, the pool's is 3, the tenant's 1000", got)
	}
}

// An axis without a limit has no headers.
func TestHeaders_RatesOff(t *testing.T) {
	s := sockets.New(t, sockets.World{
		Pool: sockets.Pool(func(p *tenants.Pool) {
			p.TPM = 0
			p.RPM = 0
		}),
		Tenants: []tenants.Tenant{{Name: "acme", Keys: []tenants.Key{{Hash: tenants.HashKey(sockets.Key("acme"))}}}},
	})
	h := s.Post("/v1/chat/completions", sockets.Chat(``)).Header
	for _, name := range sockets.RateHeaders[:6] {
		if h.Get(name) != "" {
			t.Errorf("%s: %s, but nothing limits that", name, h.Get(name))
		}
	}
	if got := h.Get("X-Ratelimit-Limit-Concurrent"); got != "100" {
		t.Errorf("x-ratelimit-limit-concurrent is %q, want the pool's 100", got)
	}
}

// A stream's headers come when the upstream's do, not with the first word, and those about the connection to the upstream stay there.
func TestHeaders_BeforeTheFirstByte(t *testing.T) {
	release := make(chan struct{})
	s := sockets.New(t, sockets.World{Upstream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Vary"] = []string{"1", "2"}
		for name, value := range map[string]string{"Content-Type": "text/event-stream", "Connection": "x-hop", "X-Hop": "1", "Keep-Alive": "timeout=5"} {
			w.Header().Set(name, value)
		}
		w.WriteHeader(200)
		_ = http.NewResponseController(w).Flush()
		select {
		case <-release:
		case <-r.Context().Done():
		}
		_, _ = io.WriteString(w, "data: {\"choices\":[{\"text\":\"a\"}]}\n\ndata: [DONE]\n\n")
	})})
	resp := testkit.Must(s.Client.Do(s.Request(http.MethodPost, "/v1/chat/completions", sockets.Chat(`,"stream":true`))))(t)
	defer resp.Body.Close()
	sockets.WantRateHeaders(t, resp.Header)
	for name, want := range map[string][]string{"X-Hop": nil, "Keep-Alive": nil, "Connection": nil, "Vary": {"1", "2"}} {
		if got := resp.Header.Values(name); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	close(release)
	if body, err := io.ReadAll(resp.Body); err != nil || !strings.HasSuffix(string(body), "data: [DONE]\n\n") {
		t.Errorf("got %q, %v", body, err)
	}
}

func TestHeaders_RequestID(t *testing.T) {
	s := sockets.New(t, sockets.World{})
	for _, tc := range []struct {
		name, sent string
		kept       bool
	}{
		{"a caller's", "trace-42/a.b:c", true},
		{"none", "", false},
		{"as long as may be", strings.Repeat("i", 128), true},
		{"too long", strings.Repeat("i", 129), false},
		{"with a space", "a b", false},
		{"not ASCII", "é", false},
	} {
		for _, body := range []string{sockets.Chat(``), `{`} { // answered and refused
			reply := s.Post("/v1/chat/completions", body, "X-Request-Id", tc.sent)
			got := reply.Header["X-Request-Id"]
			if len(got) != 1 || got[0] == "" || (got[0] == tc.sent) != tc.kept {
				t.Errorf("%s: sent %q, got %q", tc.name, tc.sent, got)
				continue
			}
			if body == `{` {
				continue
			}
			if up := s.Seen.Last(t).Header.Get("X-Request-Id"); up != got[0] {
				t.Errorf("%s: the upstream was told %q, the caller %q", tc.name, up, got[0])
			}
			if reply.Header.Get("X-Upstream-Request-Id") == "" {
				t.Errorf("%s: the upstream's own id is lost", tc.name)
			}
		}
	}
	a := s.Post("/v1/x", "").Header.Get("X-Request-Id")
	b := s.Post("/v1/x", "").Header.Get("X-Request-Id")
	if a == b {
		t.Errorf("two requests have the id %s", a)
	}
}

// What the upstream says of its own limits and account stays apart.
func TestHeaders_OfTheUpstream(t *testing.T) {
	s := sockets.New(t, sockets.World{Upstream: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h.Set("Content-Type", "application/json")
		h.Set("X-Ratelimit-Limit-Requests", "7")
		h.Set("X-Ratelimit-Reset-Tokens", "6m0s")
		h.Set("Ratelimit", `"default";r=50;t=30`)
		h.Set("Ratelimit-Policy", `"default";q=100;w=60`)
		h.Set("X-Request-Id", "req_upstream")
		h.Set("Retry-After", "17")
		h.Set("Retry-After-Ms", "16500")
		h.Set("X-Should-Retry", "false")
		h.Set("Openai-Processing-Ms", "12")
		h.Set("Openai-Organization", "org-operator")
		h.Set("Openai-Project", "proj-operator")
		h.Set("Set-Cookie", "__cf_bm=1")
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = io.WriteString(w, `{"error":{"message":"slow down","type":"requests","param":null,"code":"rate_limit_exceeded"}}`)
	})})
	reply := s.Post("/v1/chat/completions", sockets.Chat(``))
	if reply.Status != http.StatusTooManyRequests || !strings.Contains(reply.Body, "slow down") {
		t.Errorf("got %d %s, want the upstream's own 429", reply.Status, reply.Body)
	}
	sockets.WantRateHeaders(t, reply.Header)
	got := map[string]string{}
	for name := range reply.Header {
		got[name] = reply.Header.Get(name)
	}
	for _, name := range append([]string{"Date", "Content-Length", "Content-Type", "X-Request-Id"}, sockets.RateHeaders...) {
		delete(got, name)
	}
	if diff := cmp.Diff(map[string]string{
		"X-Upstream-Ratelimit": `"default";r=50;t=30`, "X-Upstream-Ratelimit-Policy": `"default";q=100;w=60`,
		"X-Upstream-Ratelimit-Limit-Requests": "7", "X-Upstream-Ratelimit-Reset-Tokens": "6m0s", "X-Upstream-Request-Id": "req_upstream",
		"Retry-After": "17", "Retry-After-Ms": "16500", "Openai-Processing-Ms": "12", "X-Should-Retry": "false",
	}, got); diff != "" {
		t.Errorf("headers taken over (-want +got):\n%s", diff)
	}
	if reply.Header.Get("X-Ratelimit-Limit-Requests") != "1000" || reply.Header.Get("X-Request-Id") == "req_upstream" {
		t.Errorf("the upstream's headers hide the gateway's: %v", reply.Header)
	}
}

// The upstream learns neither who calls nor what only the gateway is told.
func TestHeaders_ToTheUpstream(t *testing.T) {
	s := sockets.New(t, sockets.World{})
	for _, door := range sdkDoors {
		header := []string{
			"X-Llmgov-Max-Wait", "1s", "X-Llmgov-Priority", "interactive", "X-Llmgov-Tenant", "other",
			"Cookie", "session=1", "OpenAI-Organization", "org-tenant", "OpenAI-Project", "proj-tenant",
			"X-Tenant-Id", "other", "X-Bf-Vk", "vk", "X-Forwarded-For", "10.0.0.1", "Forwarded", "for=10.0.0.1",
			"Idempotency-Key", "once", "OpenAI-Beta", "assistants=v2", "User-Agent", "test/1", "Accept-Encoding", "gzip",
		}
		if door.header != "" {
			header = append(header, "Authorization", "", door.header, sockets.Key("acme"))
		}
		s.Post(door.prefix+"/chat/completions", sockets.Chat(``), header...).WantOK(t, door.name)
		req := s.Seen.Last(t)
		if got := req.Header["Authorization"]; len(got) != 1 || got[0] != "Bearer "+sockets.UpstreamKey {
			t.Errorf("%s: the upstream's key is %q", door.name, got)
		}
		if req.Path != "/v1/chat/completions" {
			t.Errorf("%s: the upstream's path is %s", door.name, req.Path)
		}
		for name, values := range req.Header {
			if strings.Contains(strings.Join(values, " "), sockets.KeyPrefix) {
				t.Errorf("%s: the upstream sees the tenant's key in %s", door.name, name)
			}
			if strings.HasPrefix(name, "X-Llmgov-") {
				t.Errorf("%s: the upstream sees %s", door.name, name)
			}
		}
		for _, name := range []string{"X-Api-Key", "Api-Key", "Cookie", "Openai-Organization", "Openai-Project", "X-Tenant-Id", "X-Bf-Vk", "X-Forwarded-For", "Forwarded"} {
			if v, ok := req.Header[name]; ok {
				t.Errorf("%s: the upstream sees %s: %q", door.name, name, v)
			}
		}
		for name, want := range map[string]string{"Idempotency-Key": "", "Openai-Beta": "assistants=v2", "User-Agent": "test/1", "Content-Type": "application/json", "Accept-Encoding": "identity"} {
			if got := req.Header.Get(name); got != want {
				t.Errorf("%s: the upstream is told %s: %q, want %q", door.name, name, got, want)
			}
		}
	}
}

// A body in which nothing is governed arrives as it was sent.
func TestBytes_Request(t *testing.T) {
	s := sockets.New(t, sockets.World{})
	const msgs = `"messages":[{"role":"user","content":"x"}]`
	for _, body := range []string{
		`{"model":"gpt-4o",` + msgs + `}`,
		" \r\n{\t\"model\" :\n\"gpt-4o\" ,  " + msgs + " }\n\n ",
		`{"zzz":{"b":1,"a":2},` + msgs + `,"model":"gpt-4o","aaa":[1.0,1e2,-0.0,12345678901234567890]}`,
		`{"model":"gpt\u002d4o","messages":[{"role":"user","content":"\u00e9\ud83d\ude00 \/ é <>&\u2028"}]}`,
		`{"seed":1,"seed":2,"model":"gpt-4o",` + msgs + `}`,
		`{"model":"gpt-4o","max_tokens":9,"max_completion_tokens":7,"n":2,` + msgs + `,"stream":false}`,
		`{"model":"gpt-4o","stream":true,"stream_options" : {"include_usage" :true, "x":null},` + msgs + `}`,
	} {
		reply := s.Post("/v1/chat/completions", body)
		if reply.Status != 200 {
			t.Errorf("%q: %d %s", body, reply.Status, reply.Body)
			continue
		}
		if got := s.Seen.Last(t).Body; got != body {
			t.Errorf("the upstream got\n%q, sent was\n%q", got, body)
		}
	}
}

// Where something is governed, only that is changed.
func TestBytes_GovernedRequest(t *testing.T) {
	s := sockets.New(t, sockets.World{Tenants: []tenants.Tenant{sockets.Tenant("acme", func(t *tenants.Tenant) { t.MaxOutputTokens = 20 })}})
	const rest = `"model" : "gpt-4o", "messages":[{"role":"user","content":"\u00e9"}],"prompt":"p","input":"i" , "odd":1.0}`
	for _, tc := range []struct{ path, body, want string }{
		{"/chat/completions", `{` + rest, `{"max_completion_tokens":20,` + rest},
		{"/completions", `{` + rest, `{"max_tokens":20,` + rest},
		{"/responses", `{` + rest, `{"max_output_tokens":20,` + rest},
		{"/embeddings", `{` + rest, `{` + rest},
		{"/chat/completions", `{"max_tokens": 21 ,` + rest, `{"max_tokens": 20 ,` + rest},
		{"/chat/completions", `{"max_tokens": 20 ,` + rest, `{"max_tokens": 20 ,` + rest},
		{"/chat/completions", `{"max_tokens":3,"max_completion_tokens":500,` + rest, `{"max_tokens":3,"max_completion_tokens":20,` + rest},
		{"/chat/completions", `{"max_tokens":5,"stream":true,` + rest, `{"stream_options":{"include_usage":true},"max_tokens":5,"stream":true,` + rest},
		{"/chat/completions", `{"max_tokens":5,"stream":true,"stream_options":{"include_usage":false},` + rest, `{"max_tokens":5,"stream":true,"stream_options":{"include_usage":true},` + rest},
		{"/chat/completions", `{"stream":true,` + rest, `{"max_completion_tokens":20,"stream_options":{"include_usage":true},"stream":true,` + rest},
		{"/responses", `{"stream":true,"max_output_tokens":5,` + rest, `{"stream":true,"max_output_tokens":5,` + rest},
	} {
		reply := s.Post("/v1"+tc.path, tc.body)
		if reply.Status != 200 {
			t.Errorf("%s %s: %d %s", tc.path, tc.body, reply.Status, reply.Body)
			continue
		}
		if got := s.Seen.Last(t).Body; got != tc.want {
			t.Errorf("%s: the upstream got\n%s, want\n%s", tc.path, got, tc.want)
		}
	}
}

// Answers arrive as the upstream sent them, but for the usage chunk that nobody
// asked for.
func TestBytes_Response(t *testing.T) {
	const chunk = `data: {"choices":[{"index":0,"delta":{"content":"\u00e9 "},"finish_reason":null}] ,"odd":1.0}`
	const end = `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
	const usage = `data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}`
	for _, tc := range []struct {
		name, kind, body, request, want string
	}{
		{"plain", "application/json", " {\"z\" :1.0,\n\t\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":2}, \"a\":\"\\u00e9\"}\n", sockets.Chat(``), ""},
		{"JSON of another form", "application/json", "[1]", sockets.Chat(``), ""},
		{"binary", "audio/mpeg", "\x00\xff\r\n\x01", `{"model":"gpt-4o","input":"x"}`, ""},
		{
			"stream with usage asked for", "text/event-stream; charset=utf-8",
			": hi\n\nevent: x\r\nid: 1\r\n" + chunk + "\r\n\r\n" + end + "\n\n" + usage + "\n\n: late\n\ndata: [DONE]\n\n",
			sockets.Chat(`,"stream":true,"stream_options":{"include_usage":true}`), "",
		},
		{
			"stream", "text/event-stream",
			": hi\n\n" + chunk + "\r\n\r\n" + end + "\n\n" + usage + "\n\n: late\n\ndata: [DONE]\n\n",
			sockets.Chat(`,"stream":true`), ": hi\n\n" + chunk + "\r\n\r\n" + end + "\n\n: late\n\ndata: [DONE]\n\n",
		},
		{
			"stream with usage beside the end", "text/event-stream",
			chunk + "\n\n" + strings.TrimSuffix(end, "}") + `,"usage":{"prompt_tokens":1,"completion_tokens":2}}` + "\n\ndata: [DONE]\n\n",
			sockets.Chat(`,"stream":true`), "",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := sockets.New(t, sockets.World{Upstream: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", tc.kind)
				_, _ = io.WriteString(w, tc.body)
			})})
			want := tc.want
			if want == "" {
				want = tc.body
			}
			path := "/v1/chat/completions"
			if tc.name == "binary" {
				path = "/v1/audio/speech"
			}
			reply := s.Post(path, tc.request)
			if reply.Status != 200 || reply.Err != nil || reply.Body != want {
				t.Errorf("got %d %q (%v), want %q", reply.Status, reply.Body, reply.Err, want)
			}
			if got := reply.Header.Get("Content-Type"); got != tc.kind {
				t.Errorf("Content-Type is %q, want %q", got, tc.kind)
			}
		})
	}
}
