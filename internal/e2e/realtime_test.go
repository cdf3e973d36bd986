package e2e

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/llmgov/llmgov/internal/mock"
	"github.com/llmgov/llmgov/tenants"
)

// phone is a client's side of a realtime session.
type phone struct {
	t    *testing.T
	conn *websocket.Conn
}

// event is what of an event the tests look at.
type event struct {
	Type  string
	Error struct{ Code, Message string }
	Delta string
}

func (s *sdkStack) dial(path string, header http.Header, protocols ...string) (*phone, *http.Response, error) {
	s.t.Helper()
	conn, resp, err := websocket.Dial(s.t.Context(), s.data.URL+path, &websocket.DialOptions{HTTPClient: s.client, HTTPHeader: header, Subprotocols: protocols})
	if err != nil {
		return nil, resp, err
	}
	conn.SetReadLimit(1 << 30)
	s.t.Cleanup(func() { _ = conn.CloseNow() })
	return &phone{s.t, conn}, resp, nil
}

func (s *sdkStack) phone(tenant string) *phone {
	s.t.Helper()
	p, _, err := s.dial("/v1/realtime?model=gpt-4o", http.Header{"Authorization": {"Bearer " + sdkKey(tenant)}})
	if err != nil {
		s.t.Fatal(err)
	}
	p.until("session.created")
	return p
}

func (p *phone) say(text string) {
	p.t.Helper()
	if err := p.conn.Write(p.t.Context(), websocket.MessageText, []byte(text)); err != nil {
		p.t.Fatal(err)
	}
}

func (p *phone) hear() (event, error) {
	ctx, cancel := context.WithTimeout(p.t.Context(), sdkPatience)
	defer cancel()
	_, text, err := p.conn.Read(ctx)
	var ev event
	if err == nil {
		err = json.Unmarshal(text, &ev)
	}
	return ev, err
}

// until reads up to an event of a type, and returns how many deltas came before.
func (p *phone) until(kind string) (deltas int) {
	p.t.Helper()
	for {
		ev, err := p.hear()
		if err != nil {
			p.t.Fatalf("waiting for %s: %v", kind, err)
		}
		if strings.HasSuffix(ev.Type, ".delta") {
			deltas++
		}
		if ev.Type == kind {
			return deltas
		}
	}
}

// over reads to the end, and returns the last error event and the close code.
func (p *phone) over() (last event, code websocket.StatusCode) {
	for {
		ev, err := p.hear()
		if err != nil {
			return last, websocket.CloseStatus(err)
		}
		if ev.Type == "error" {
			last = ev
		}
	}
}

const respond = `{"type":"response.create","response":{"max_output_tokens":25}}`

func realtimeStack(t *testing.T, edit func(*tenants.Tenant), w sdkWorld) *sdkStack {
	w.tenants = []tenants.Tenant{sdkTenant("acme", func(t *tenants.Tenant) {
		granted(t)
		if edit != nil {
			edit(t)
		}
	}), sdkTenant("plain", nil)}
	return newSDKStack(t, w)
}

func TestRealtimeIsChargedWhatWasProduced(t *testing.T) {
	s := realtimeStack(t, nil, sdkWorld{})
	p := s.phone("acme")
	if running, _ := s.gov.Leases(); running != 1 {
		t.Errorf("%d leases while a session is open, want 1", running)
	}
	p.say(`{"type":"conversation.item.create","item":{"type":"message","role":"user","content":[{"type":"input_text","text":"How long is a piece of string?"}]}}`)
	for range 3 {
		p.say(respond)
		if n := p.until("response.done"); n != 25 {
			t.Errorf("a response of %d deltas, want 25", n)
		}
	}
	if err := p.conn.Close(websocket.StatusNormalClosure, "bye"); err != nil {
		t.Error(err)
	}
	s.wantChargedAsProduced("acme")
	if used := s.used("acme"); used["requests"] != 4 {
		t.Errorf("a session with three responses counts as %d requests, want 4", used["requests"])
	}
}

// A session is a slot of the tenant's, whichever side ends it.
func TestRealtimeHoldsASlot(t *testing.T) {
	s := realtimeStack(t, func(t *tenants.Tenant) { t.Concurrency = 1 }, sdkWorld{})
	for _, end := range []func(p *phone){
		func(p *phone) { _ = p.conn.Close(websocket.StatusNormalClosure, "") },
		func(p *phone) { _ = p.conn.CloseNow() },
		func(p *phone) {
			p.say(`{"type":"mock.close","code":4321,"reason":"enough"}`)
			_, err := p.hear()
			if websocket.CloseStatus(err) != 4321 || !strings.Contains(err.Error(), "enough") {
				t.Errorf("the upstream's close arrives as %v", err)
			}
		},
	} {
		p := s.phone("acme")
		_, resp, err := s.dial("/v1/realtime?model=gpt-4o", http.Header{"Api-Key": {sdkKey("acme")}})
		if err == nil || resp == nil || resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") == "" {
			t.Fatalf("a second session: %v %v, want a 429 before the upgrade", resp, err)
		}
		end(p)
		s.waitIdle()
	}
}

func TestRealtimeRefusals(t *testing.T) {
	s := realtimeStack(t, func(t *tenants.Tenant) { t.Models = []string{"gpt-4o"} }, sdkWorld{})
	key := http.Header{"Authorization": {"Bearer " + sdkKey("acme")}}
	for _, tt := range []struct {
		path   string
		header http.Header
		want   int
	}{
		{"/v1/realtime?model=gpt-4o", nil, 401},
		{"/v1/realtime?model=gpt-4o", http.Header{"Authorization": {"Bearer x"}}, 401},
		{"/v1/realtime?model=gpt-4o", http.Header{"Authorization": {"Bearer " + sdkKey("plain")}}, 403},
		{"/v1/realtime?model=gpt-4o-mini", key, 403},
		{"/v1/realtime", key, 400},
		{"/v1/realtime?model=gpt-4o&model=gpt-4o-mini", key, 400},
		{"/v1/realtime?model=gpt-4o&call_id=rtc_1", key, 400},
		{"/v1/realtime/sessions", key, 404},
	} {
		_, resp, err := s.dial(tt.path, tt.header)
		if err == nil || resp == nil || resp.StatusCode != tt.want {
			t.Errorf("%s with %v: %v, want %d", tt.path, tt.header, resp, tt.want)
		}
	}
	if reply := s.do(s.request(http.MethodGet, "/v1/realtime?model=gpt-4o", "")); reply.status != http.StatusUpgradeRequired {
		t.Errorf("without an upgrade: %d %s", reply.status, reply.body)
	}
	p, resp, err := s.dial("/realtime?model=gpt-4o", nil, "realtime", "openai-insecure-api-key."+sdkKey("acme"))
	if err != nil {
		t.Fatal(resp, err)
	}
	if p.conn.Subprotocol() != "realtime" {
		t.Errorf("the subprotocol is %q", p.conn.Subprotocol())
	}
	p.until("session.created")
}

// A session stays with the model that it was let in with, and with its tenant's objects.
func TestRealtimeEventsThatAreRefused(t *testing.T) {
	s := realtimeStack(t, func(t *tenants.Tenant) { t.Models = []string{"gpt-4o", "whisper*"} }, sdkWorld{})
	for _, tt := range []struct {
		event string
		code  string // "" passes
	}{
		{`{"type":"session.update","session":{"instructions":"Be brief."}}`, ""},
		{`{"type":"session.update","session":{"model":"gpt-4o"}}`, ""},
		{`{"type":"session.update","session":{"audio":{"input":{"transcription":{"model":"whisper-1"}}}}}`, ""},
		{`{"type":"session.update","session":{"tools":[{"type":"function","parameters":{"properties":{"model":{"type":"string"}}}}]}}`, ""},
		{`{"type":"session.update","session":{"model":"gpt-5"}}`, "invalid_request_error"},
		{`{"type":"session.update","session":{"Model":"gpt-5"}}`, "invalid_request_error"},
		{`{"type":"session.update","session":{"model":"gpt-5","model":"gpt-4o"}}`, "invalid_request_error"},
		{`{"type":"session.update","session":{"mod\u0065l":"gpt-5"}}`, "invalid_request_error"},
		{`{"type":"session.update","model":"gpt-5"}`, "invalid_request_error"},
		{`{"type":"session.update","session":{"audio":{"input":{"transcription":{"model":"gpt-4o-transcribe"}}}}}`, "model_not_allowed"},
		{`{"type":"response.create","response":{"model":"gpt-5"}}`, "invalid_request_error"},
		{`{"type":"response.create","response":{"conversation":"conv_1"}}`, "invalid_request_error"},
		{`{"type":"response.create","response":{"conversation":{"id":"conv_1"}}}`, "invalid_request_error"},
		{`{"type":"conversation.item.create","item":{"content":[{"type":"input_image","file_id":"file-of-others"}]}}`, "not_found"},
		{`not json`, "invalid_request_error"},
		{`["session.update"]`, "invalid_request_error"},
	} {
		p := s.phone("acme")
		p.say(tt.event)
		if tt.code == "" {
			p.until("session.updated")
			_ = p.conn.CloseNow()
			continue
		}
		if last, code := p.over(); last.Error.Code != tt.code || code != websocket.StatusPolicyViolation {
			t.Errorf("%s: error %+v and close %d, want %s and %d", tt.event, last.Error, code, tt.code, websocket.StatusPolicyViolation)
		}
	}
	p := s.phone("acme") // JSON is JSON, in a binary frame too
	if err := p.conn.Write(t.Context(), websocket.MessageBinary, []byte(" {\"type\":\"session.update\",\"session\":{\"model\":\"gpt-5\"}}")); err != nil {
		t.Fatal(err)
	}
	if last, _ := p.over(); last.Error.Code == "" {
		t.Error("a binary frame switches the model")
	}
}

// What came of a response whose client hangs up in the middle is charged.
func TestRealtimeHangUpIsCharged(t *testing.T) {
	s := realtimeStack(t, nil, sdkWorld{mock: mock.Config{TokensPerSecond: 100}})
	p := s.phone("acme")
	p.say(`{"type":"response.create","response":{"max_output_tokens":1000}}`)
	for range 20 {
		if _, err := p.hear(); err != nil {
			t.Fatal(err)
		}
	}
	_ = p.conn.CloseNow()
	s.waitIdle()
	if got, most := s.charged("output"), s.mock.Stats().OutputTokens; got < 19 || got > most+1 {
		t.Errorf("charged %d tokens; the client saw 19 and the model server produced %d", got, most)
	}
}

// So is the prompt of such a response, by estimate.
func TestRealtimeHangUpIsChargedItsPrompt(t *testing.T) {
	s := realtimeStack(t, nil, sdkWorld{mock: mock.Config{TokensPerSecond: 100}})
	p := s.phone("acme")
	p.say(`{"type":"conversation.item.create","item":{"type":"message","role":"user","content":[{"type":"input_text","text":"` + strings.Repeat("some words ", 10_000) + `"}]}}`)
	p.say(`{"type":"response.create","response":{"max_output_tokens":1000}}`)
	p.until("response.created")
	_ = p.conn.CloseNow()
	s.waitIdle()
	if got, took := s.charged("input"), s.mock.Stats().PromptTokens; got < took/2 || got > took*2 {
		t.Errorf("charged a prompt of %d tokens, the model server took %d", got, took)
	}
}

// Tokens count when they are used, and not all at the end, where nobody else could call
// for a minute. Above the limit there is no other response.
func TestRealtimeKeepsTheTenantsLimit(t *testing.T) {
	s := realtimeStack(t, func(t *tenants.Tenant) { t.TPM = 9000 }, sdkWorld{})
	p := s.phone("acme")
	for n := int64(1); n <= 3; n++ {
		p.say(`{"type":"response.create","response":{"max_output_tokens":2000}}`)
		p.until("response.done")
		sdkEventually(t, sdkPatience, "what a response took counts", func() bool { return s.used("acme")["tokens"] == 2000*n })
	}
	p.say(`{"type":"response.create","response":{"max_output_tokens":2000}}`)
	ev, err := p.hear()
	if err != nil || ev.Type != "error" || ev.Error.Code != "rate_limit_exceeded" {
		t.Fatalf("above the limit: %+v %v", ev, err)
	}
	p.say(`{"type":"session.update","session":{}}`) // it goes on
	p.until("session.updated")
	if err := p.conn.Close(websocket.StatusNormalClosure, ""); err != nil {
		t.Error(err)
	}
	s.wantChargedAsProduced("acme")
}

// A session ends when its key could not open it any more.
func TestRealtimeEndsWithItsKey(t *testing.T) {
	for name, edit := range map[string]func(*tenants.Tenant){
		"key":   func(t *tenants.Tenant) { t.Keys = []tenants.Key{{Hash: tenants.HashKey("new")}} },
		"model": func(t *tenants.Tenant) { t.Models = []string{"gpt-5"} },
		"route": func(t *tenants.Tenant) { t.Routes = tenants.RouteInference },
	} {
		s := realtimeStack(t, nil, sdkWorld{})
		p := s.phone("acme")
		snap, err := tenants.Build(*s.gw.Snapshot().Config(), []tenants.Tenant{sdkTenant("acme", func(t *tenants.Tenant) { granted(t); edit(t) })})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.gw.Apply(snap); err != nil {
			t.Fatal(err)
		}
		p.say(respond)
		if last, code := p.over(); last.Error.Code != "invalid_api_key" || code != websocket.StatusPolicyViolation {
			t.Errorf("without its %s: %+v, close %d", name, last, code)
		}
	}
}

// A drain lets a response come to its end, and then says goodbye.
func TestRealtimeDrains(t *testing.T) {
	s := realtimeStack(t, nil, sdkWorld{mock: mock.Config{TokensPerSecond: 100}})
	busy := s.phone("acme")
	resting := s.phone("acme")
	busy.say(respond)
	busy.until("response.created")
	done := make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), sdkPatience)
	defer cancel()
	go func() { done <- s.gw.Drain(ctx) }()
	if _, code := resting.over(); code != websocket.StatusGoingAway {
		t.Errorf("a session at rest is closed with %d, want 1001", code)
	}
	if n := busy.until("response.done"); n != 25 {
		t.Errorf("a response of %d deltas, want all 25", n)
	}
	if _, code := busy.over(); code != websocket.StatusGoingAway {
		t.Errorf("a session that came to rest is closed with %d, want 1001", code)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	s.wantChargedAsProduced("acme")
}

// A session that the governor ends is told so, and is charged what was produced; its lease
// ends once.
func TestRealtimeInterrupted(t *testing.T) {
	s := realtimeStack(t, nil, sdkWorld{mock: mock.Config{TokensPerSecond: 100}})
	busy := s.phone("acme")
	resting := s.phone("acme")
	busy.say(respond)
	busy.until("response.created")
	if n := s.gov.Interrupt(s.gov.State().Pools[0].Config.Name, errOfOperator); n != 2 {
		t.Errorf("%d of two sessions were asked to end", n)
	}
	for _, p := range []*phone{busy, resting} {
		last, code := p.over()
		if last.Error.Code != "store_unavailable" || !strings.Contains(last.Error.Message, "had to end the call early") || code != websocket.StatusGoingAway {
			t.Errorf("a session that was ended early hears %+v, and is closed with %d, want 1001", last, code)
		}
	}
	s.waitIdle()
}

func TestRealtimeEndsWhenNothingIsSaid(t *testing.T) {
	s := realtimeStack(t, nil, sdkWorld{config: func(c *tenants.Config) { c.Timeouts.StreamIdle = 100 * time.Millisecond }})
	if _, code := s.phone("acme").over(); code != websocket.StatusGoingAway {
		t.Errorf("a silent session is closed with %d, want 1001", code)
	}
}

func TestRealtimeUpstreamFails(t *testing.T) {
	for _, tt := range []struct {
		upstream http.HandlerFunc
		want     int
	}{
		{func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }, 502},
		{func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) }, 404},
		{func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 502},
	} {
		s := realtimeStack(t, nil, sdkWorld{upstream: tt.upstream})
		_, resp, err := s.dial("/v1/realtime?model=gpt-4o", http.Header{"Authorization": {"Bearer " + sdkKey("acme")}})
		if err == nil || resp == nil || resp.StatusCode != tt.want {
			t.Errorf("%v, want %d", resp, tt.want)
		}
	}
}

// Large messages pass, both ways, as they are.
func TestRealtimePassesLargeMessages(t *testing.T) {
	s := realtimeStack(t, nil, sdkWorld{})
	p := s.phone("acme")
	text := strings.Repeat("x", 1<<20)
	p.say(`{"type":"conversation.item.create","item":{"id":"` + text + `"}}`)
	ctx, cancel := context.WithTimeout(t.Context(), sdkPatience)
	defer cancel()
	if _, got, err := p.conn.Read(ctx); err != nil || !strings.Contains(string(got), text) {
		t.Errorf("%d bytes came back, %v", len(got), err)
	}
}
