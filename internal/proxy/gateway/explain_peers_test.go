package gateway

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/llmgov/llmgov/internal/lib/bearer"
	"github.com/llmgov/llmgov/internal/ops/admin"
	"github.com/llmgov/llmgov/internal/ops/adminapi"
)

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
