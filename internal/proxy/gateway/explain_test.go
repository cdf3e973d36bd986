package gateway

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgov/llmgov/internal/lib/bearer"
	"github.com/llmgov/llmgov/internal/ops/admin"
	"github.com/llmgov/llmgov/internal/ops/adminapi"
	"github.com/llmgov/llmgov/internal/run/admission/ask"
	"github.com/llmgov/llmgov/internal/run/explain"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// Limits come with the strictest first: what stands in the way by how long, the rest
// by what is left for what is asked; and each says whose it is and where it is from.
func TestExplain_Limits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newExplainSite(t, `pools: {p: {models: [{m: real}], tpm: 20000, rpm: 6000, budgets: [{tokens: 5000000, per: month}]}}
prices: {m: {input: 1, output: 1000}}`, `  org:
    rpm: 1
    tpm: 9000
    budgets: [{requests: 1, per: day}]
    teams:
      x:
        shadow: true
        max_output_tokens: 200
        max_wait: 90s
        priority: background
        pools: {p: {itpm: 4000}}
        concurrency: 3
        budgets: [{usd: 12.5, per: week}]
        keys: [KEY(a)]`)
		s.done("a")
		x := s.explain("tenant=org/x&model=m&input=1000&max_wait=1m30.5s")
		var got []string
		for i, l := range x.Limits {
			got = append(got, fmt.Sprintf("%s %s %s|%s %v: %v of %v, %v asked, %v left, wait %v, %s",
				l.Of, l.Kind, l.Pool, l.Key, l.Axis, *l.Used, l.Limit, l.Asked, *l.Left, *l.Wait > 0, strings.TrimPrefix(l.From, s.dir)))
			if i > 0 && *l.Wait > *x.Limits[i-1].Wait {
				t.Errorf("%d waits longer than those before", i)
			}
		}
		want := []string{
			"org budget |budgets[0] requests per day: 1 of 1, 1 asked, 0 left, wait true, tenants/a.yaml:5:15",
			"org limit |rpm requests: 1 of 1, 1 asked, 0 left, wait true, tenants/a.yaml:3:10",
			"org/x limit |concurrency concurrency: 0 of 3, 1 asked, 3 left, wait false, tenants/a.yaml:13:22",
			"org/x limit p|pools.p.itpm input_tokens: 10 of 4000, 1000 asked, 3990 left, wait false, tenants/a.yaml:12:27",
			"org limit |tpm tokens: 20 of 9000, 1200 asked, 8980 left, wait false, tenants/a.yaml:4:10",
			"p pool p|tpm tokens: 20 of 19800, 1200 asked, 19780 left, wait false, llmgov.yaml:2:39",
			"org/x budget |budgets[0] usd per week: 0.01001 of 12.5, 0.201 asked, 12.48999 left, wait false, tenants/a.yaml:14:19",
			"p budget p|budgets[0] tokens per month: 20 of 5e+06, 1200 asked, 4.99998e+06 left, wait false, llmgov.yaml:2:67",
			"p pool p|rpm requests: 1 of 5940, 1 asked, 5939 left, wait false, llmgov.yaml:2:51",
		}
		testkit.Same(t, want, got, "limits")
		if x.Decision.Outcome != adminapi.OutcomeAdmit || x.Decision.Limit != nil {
			t.Errorf("a shadow gets %+v", x.Decision)
		}
		if d := x.WithoutShadow; d == nil || d.Outcome != adminapi.OutcomeRefuse || d.Code != ask.CodeBudget || *d.Limit != 0 {
			t.Errorf("without shadow %+v", d)
		}
		x.Limits = nil
		x.Decision = nil
		x.WithoutShadow = nil
		if diff := cmp.Diff(&adminapi.Explanation{
			Tenant: "org/x", Pool: "p", Model: "m", TenantLimits: "leased", Upstream: "u", UpstreamModel: "real", Tokens: 1200, Input: 1000, Output: 200,
			Priority: "background", MaxWait: 90, Shadow: true, PolicyHash: s.gateway.Snapshot().Hash(),
		}, x); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// The answer's bound is that which a call would have.
func TestExplain_Tokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newExplainSite(t, `pools: {p: {models: [m], rpm: 60, default_max_output: 700}}`,
			"  free: {keys: [KEY(a)]}\n  cut: {max_output_tokens: 500, keys: [KEY(b)]}")
		for query, want := range map[string]string{
			"free":                      "0 700",
			"free&input=30":             "30 700",
			"free&tokens=1000":          "0 1000",
			"free&tokens=1000&input=30": "30 970",
			"free&output=40&input=30":   "30 40",
			"free&tokens=0":             "0 0",
			"cut":                       "0 500",
			"cut&tokens=400":            "0 400",
			"cut&tokens=1000&input=30":  "30 500",
		} {
			x := s.explain("model=m&tenant=" + query)
			if got := fmt.Sprint(x.Input, x.Output); got != want || x.Tokens != x.Input+x.Output {
				t.Errorf("%s asks for %s of %d, want %s", query, got, x.Tokens, want)
			}
		}
	})
}

// What nobody could ask for, and calls that nobody makes, are said to be so.
func TestExplain_Refuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newExplainSite(t, `pools: {p: {models: [m, large], rpm: 60}}`,
			"  acme: {models: [m], keys: [KEY(a)]}\n  idle: {keys: []}\n  org: {teams: {x: {keys: [KEY(b)]}}}")
		for _, tc := range []struct {
			query  string
			status int
			code   string
			what   string
		}{
			{"model=m", 400, "invalid_request_error", "Whose call is it"},
			{"tenant=acme", 400, "invalid_request_error", "Whose call is it"},
			{"tenant=acme&model=m&token=3", 400, "invalid_request_error", `There is no parameter "token"`},
			{"tenant=acme&model=m&model=m", 400, "invalid_request_error", `"model" is given twice`},
			{"tenant=acme&model=m&tokens=1e3", 400, "invalid_request_error", `tokens must be a whole number, not "1e3".`},
			{"tenant=acme&model=m&input=-1", 400, "invalid_request_error", "input must be from 0 to 1000000000, not -1."},
			{"tenant=acme&model=m&tokens=3&output=3", 400, "invalid_request_error", "either that or output"},
			{"tenant=acme&model=m&tokens=3&input=4", 400, "invalid_request_error", "not be less than input"},
			{"tenant=acme&model=m&priority=low", 400, "invalid_request_error", `interactive, background or 0 to 9, not "low".`},
			{"tenant=acme&model=m&max_wait=3", 400, "invalid_request_error", `such as 500ms or 3s, not "3".`},
			{"tenant=acme&model=m&max_wait=-3s", 400, "invalid_request_error", "must not be negative"},
			{"tenant=acne&model=m", 404, "tenant_not_found", `There is no tenant "acne"; did you mean "acme"?`},
			{"tenant=acme&model=lage", 404, "model_not_found", `No pool serves the model "lage"; did you mean "large"?`},
			{"tenant=acme&model=large", 403, "model_not_allowed", `Tenant "acme" may not use the model "large"; of its models known are m.`},
			{"tenant=idle&model=m", 409, "tenant_without_keys", "make one with llmgov keys new."},
			{"tenant=org&model=m", 409, "tenant_without_keys", "its teams do: org/x."},
		} {
			w := s.ask(tc.query)
			var e struct {
				Error struct{ Code, Message string }
			}
			_ = json.Unmarshal(w.Body.Bytes(), &e)
			if w.Code != tc.status || e.Error.Code != tc.code || !strings.Contains(e.Error.Message, tc.what) {
				t.Errorf("%s: %d %s %q", tc.query, w.Code, e.Error.Code, e.Error.Message)
			}
		}
	})
}

// By the files alone there are the same limits as by a gateway that runs on them,
// and nothing of use.
func TestExplainFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newExplainSite(t, `pools: {p: {models: [m], tpm: 20000, concurrency: 4}}`, "  a: {rpm: 1, budgets: [{tokens: 90000, per: day}], keys: [KEY(a)]}")
		live := s.explain("tenant=a&model=m&tokens=15000")
		n := int64(15000)
		alone := testkit.Must(explain.Files(s.gateway.Snapshot(), &adminapi.Question{Tenant: "a", Model: "m", Tokens: &n}))(t)
		for i := range live.Limits {
			live.Limits[i].Used = nil
			live.Limits[i].Left = nil
			live.Limits[i].Wait = nil
		}
		live.Decision = nil
		testkit.Same(t, live, alone, "(-live +files)")
	})
}

// Between the governor's new policy and the gateway's there is nothing to be told: who
// asks then waits for the rest.
func TestExplain_WhileAPolicyIsTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newExplainSite(t, roomyPool, `  a: {keys: [KEY(a)]}`)
		next := newExplainSite(t, roomyPool, `  b: {keys: [KEY(b)]}`).gateway
		s.gateway.telling.Lock() // which taking over the policy waits for
		go func() {
			if err := s.gateway.Apply(next.Snapshot()); err != nil {
				t.Error(err)
			}
		}()
		for known := false; !known; {
			_, known = s.gov.TenantState("b")
			runtime.Gosched()
		}
		answer := make(chan *httptest.ResponseRecorder)
		go func() { answer <- s.ask("tenant=a&model=m") }()
		for range 1000 {
			runtime.Gosched() // so that it comes in between
		}
		s.gateway.telling.Unlock()
		if w := <-answer; w.Code != http.StatusNotFound {
			t.Errorf("%d: %s", w.Code, w.Body)
		}
	})
}

// peerSite is one of several gateways with a tenant that may call once a minute.
func peerSite(t *testing.T, node, token string, peers ...adminapi.Peer) (s *explainSite, at adminapi.Peer) {
	s = newQuickSite(t, "pools: {p: {models: [m], rpm: 6000}}", "  a: {rpm: 1, keys: [KEY(a)]}")
	s.admin = adminSide(s.gateway, admin.Options{Node: node, Token: token, Peers: func() []adminapi.Peer { return peers }})
	server := httptest.NewServer(s.admin)
	t.Cleanup(server.Close)
	return s, adminapi.Peer{Name: node, Address: strings.TrimPrefix(server.URL, "http://")}
}

// askAs asks for a refusal with headers, as another gateway or an operator does.
func (s *explainSite) askAs(id string, header ...string) (int, string) {
	r := httptest.NewRequest(http.MethodGet, "/api/v1/explain?request="+id, http.NoBody)
	r.Host = "localhost"
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	s.admin.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// Whichever gateway is asked, the one that refused a call explains it. Without an answer it is said who knows nothing, and who
// did not answer.
func TestExplain_OtherGateways(t *testing.T) {
	for _, token := range []string{"", "secret"} {
		refuses, two := peerSite(t, "two", token)
		_, three := peerSite(t, "three", "another")
		gone := adminapi.Peer{Name: "gone", Address: "127.0.0.1:1"}
		one, _ := peerSite(t, "one", token, gone, adminapi.Peer{Name: "far"}, three, two)
		refuses.takes = 0
		for range 2 {
			refuses.call("a", `{"model":"m","messages":[]}`, "x-request-id", "req-1")
		}
		code, text := one.askAs("req-1", "Authorization", "Bearer "+token)
		if code != http.StatusOK || !strings.Contains(text, `"node": "two"`) || !strings.Contains(text, `"code": "rate_limit_exceeded"`) {
			t.Errorf("token %q: %d %s", token, code, text)
		}
		code, text = one.askAs("req-2", "Authorization", "Bearer "+token)
		for _, says := range []string{
			"Gateway gone may: it was asked, but 127.0.0.1:1 does not answer", "Gateway far may: it was asked, but its admin side",
			"Gateway three may: it was asked, but it has another admin token", "Gateway two does not know it either.",
		} {
			if code != http.StatusNotFound || !strings.Contains(text, says) {
				t.Errorf("token %q: %d %s, not %q", token, code, text, says)
			}
		}
	}
}

// Another gateway never gets the admin token, and may ask for nothing but the explanation that it proves to want.
func TestExplain_PeersGetNoToken(t *testing.T) {
	const token = "secret"
	asked := make(chan *http.Request, 1)
	spy := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked <- r }))
	defer spy.Close()
	one, _ := peerSite(t, "one", token, adminapi.Peer{Name: "spy", Address: strings.TrimPrefix(spy.URL, "http://")})
	one.askAs("req-1", "Authorization", "Bearer "+token)
	got := <-asked
	proof := got.Header.Get("X-Llmgov-Peer")
	for name, values := range got.Header {
		if strings.Contains(strings.Join(values, " "), token) {
			t.Errorf("%s: %q", name, values)
		}
	}
	for uri, want := range map[string]int{
		"/api/v1/explain?request=req-1": http.StatusNotFound, "/api/v1/explain?request=req-2": http.StatusUnauthorized,
		"/api/v1/keys": http.StatusUnauthorized, "/api/v1/snapshot": http.StatusUnauthorized,
	} {
		for _, p := range []string{proof, bearer.NewToken("").Proof(uri), ""} {
			r := httptest.NewRequest(http.MethodGet, uri, http.NoBody)
			r.Header.Set("X-Llmgov-Peer", p)
			w := httptest.NewRecorder()
			one.admin.ServeHTTP(w, r)
			if p != proof {
				want = http.StatusUnauthorized
			}
			if w.Code != want {
				t.Errorf("%s with %q: %d, want %d", uri, p, w.Code, want)
			}
		}
	}
	if len(asked) > 0 {
		t.Error("a gateway that was asked by another has asked on")
	}
	if own := bearer.NewToken(token); own.Proves(own.Proof("a"), "b") || !own.Proves(own.Proof("/api/v1/keys"), "/api/v1/keys") {
		t.Error("a proof is of another text")
	}
}
