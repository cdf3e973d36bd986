package gateway

import (
	"crypto/sha1"
	"encoding/base64"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

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
