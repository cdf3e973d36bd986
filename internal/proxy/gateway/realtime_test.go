package gateway

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha1"
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/llmgov/llmgov/internal/proxy/gateway/route"
	"github.com/llmgov/llmgov/internal/run/admission/ask"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/internal/test/testkit/admissiontest"
	"github.com/llmgov/llmgov/tenants"
)

// answerSocket accepts websockets, and says nothing on them.
func answerSocket(r *http.Request) (*http.Response, error) {
	sum := sha1.Sum([]byte(r.Header.Get("Sec-Websocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	_, far := net.Pipe()
	return &http.Response{
		StatusCode: http.StatusSwitchingProtocols, Request: r, Body: far,
		Header: http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Accept": {base64.StdEncoding.EncodeToString(sum[:])}},
	}, nil
}

// A handshake that turns out to be wrong when the upstream has answered leaves no slot taken.
func TestRealtime_WrongHandshakeLeavesNothing(t *testing.T) {
	rules := before
	rules.routes = tenants.RouteInference | tenants.RouteRealtime
	g := newGateway(t, rules, answerSocket)
	r := httptest.NewRequest(http.MethodGet, "/v1/realtime?model=m", nil)
	r.Header.Set("Authorization", "Bearer acme")
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", "websocket")
	r.Header.Set("Sec-Websocket-Version", "13") // but no Sec-WebSocket-Key
	w := httptest.NewRecorder()
	g.ServeHTTP(w, r)
	st, _ := g.gov.TenantState("acme")
	if w.Code != http.StatusBadRequest || st.Running != 0 {
		t.Errorf("answered %d %s, %d calls are running", w.Code, w.Body, st.Running)
	}
}

// A session goes on as long as its token lasts.
func TestRealtime_Token(t *testing.T) {
	private := testkit.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	key := jose.JSONWebKey{Key: private, KeyID: "1", Algorithm: "ES256"}
	public := string(testkit.Must(json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{key.Public()}}))(t))
	signer := testkit.Must(jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, nil))(t)
	claims := testkit.Must(json.Marshal(map[string]any{"iss": "https://id", "aud": "llmgov", "sub": "ann", "org": "acme", "exp": time.Now().Add(time.Hour).Unix()}))(t)
	token := testkit.Must(testkit.Must(signer.Sign(claims))(t).CompactSerialize())(t)

	cfg := tenants.DefaultConfig()
	cfg.Upstreams = []tenants.Upstream{{Name: "up", BaseURL: "http://up/v1"}}
	pool := tenants.DefaultPool("p")
	pool.Models = []string{"*"}
	pool.TPM = 1000
	cfg.Pools = []tenants.Pool{pool}
	cfg.Identity = tenants.Identity{Tenant: "{org}", Issuers: []tenants.Issuer{{Issuer: "https://id", Audience: "llmgov", JWKS: "keys.json", Keys: public, Algorithms: []string{"ES256"}}}}
	build := func() *tenants.Snapshot {
		return testkit.Must(tenants.Build(cfg, []tenants.Tenant{{Name: "acme", Keys: []tenants.Key{{Hash: tenants.HashKey("sk-1")}}, Routes: tenants.RouteInference | tenants.RouteRealtime}}))(t)
	}
	ctl := admissiontest.New(t, build())
	g := testkit.Must(New(Options{Admission: ctl, Log: slog.New(slog.DiscardHandler), Transport: transport(answerSocket)}))(t)
	r := httptest.NewRequest(http.MethodGet, "/v1/realtime?model=m", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	c := g.begin(httptest.NewRecorder(), r)
	defer c.Close()
	c.at = route.Find(r)
	c.route = c.at.Route
	if f := c.authenticate(); f != nil {
		t.Fatal(f)
	}
	c.head = &c.room
	if f := (realtimeCall{c}).Revoked(); f != nil {
		t.Error("while the token is valid:", f.Message)
	}
	testkit.OK(t, ctl.Override([]tenants.Override{{Tenant: "acme", RPM: new(int64(0))}}))
	if f := (realtimeCall{c}).Revoked(); f == nil || f.Code != ask.CodeTenantBlocked {
		t.Errorf("of a tenant who was blocked meanwhile: %+v", f)
	}
	testkit.OK(t, ctl.Override(nil))
	cfg.Identity = tenants.Identity{}
	testkit.OK(t, ctl.Apply(build()))
	if f := (realtimeCall{c}).Revoked(); f == nil {
		t.Error("a session goes on though its issuer does not count any more")
	}
}
