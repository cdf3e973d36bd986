// Package realtime tests realtime sessions: their slots, limits and charges.
package realtime

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/llmgov/llmgov/internal/lab/mock"
	"github.com/llmgov/llmgov/internal/test/e2e/harness"
	"github.com/llmgov/llmgov/internal/test/e2e/harness/sockets"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/internal/test/testkit/leaktest"
	"github.com/llmgov/llmgov/tenants"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

const respond = `{"type":"response.create","response":{"max_output_tokens":25}}`

func realtimeStack(t *testing.T, edit func(*tenants.Tenant), w sockets.World) *sockets.Stack {
	w.Tenants = []tenants.Tenant{sockets.Tenant("acme", func(t *tenants.Tenant) {
		sockets.Granted(t)
		if edit != nil {
			edit(t)
		}
	}), sockets.Tenant("plain", nil)}
	return sockets.New(t, w)
}

func TestRealtimeIsChargedWhatWasProduced(t *testing.T) {
	s := realtimeStack(t, nil, sockets.World{})
	p := s.OpenSession("acme")
	if running, _ := s.Governor.Leases(); running != 1 {
		t.Errorf("%d leases while a session is open, want 1", running)
	}
	p.Say(`{"type":"conversation.item.create","item":{"type":"message","role":"user","content":[{"type":"input_text","text":"How long is a piece of string?"}]}}`)
	for range 3 {
		p.Say(respond)
		if n := p.Until("response.done"); n != 25 {
			t.Errorf("a response of %d deltas, want 25", n)
		}
	}
	if err := p.Conn.Close(websocket.StatusNormalClosure, "bye"); err != nil {
		t.Error(err)
	}
	s.WantChargedAsProduced("acme")
	if used := s.Used("acme"); used["requests"] != 4 {
		t.Errorf("a session with three responses counts as %d requests, want 4", used["requests"])
	}
}

// What a client sends has memory as bodies have, from its first bytes on: a tenant's sessions, however many, take no more than its part.
func TestRealtimeMessagesHaveMemory(t *testing.T) {
	const part = 300_000
	s := realtimeStack(t, nil, sockets.World{Config: func(c *tenants.Config) {
		c.MaxBody = 1 << 20
		c.BodyMemory = tenants.BodyMemory{Process: 4 << 20, Tenant: 1 << 20}
	}})
	var sessions []*sockets.Session
	for range 8 {
		p := s.OpenSession("acme")
		w := testkit.Must(p.Conn.Writer(t.Context(), websocket.MessageText))(t)
		_, _ = w.Write([]byte(`{"type":"conversation.item.create","x":"` + strings.Repeat("x", part)))
		sessions = append(sessions, p)
	}
	ended := 0
	for _, p := range sessions {
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		_, text, err := p.Conn.Read(ctx)
		waits := ctx.Err() != nil // for the rest
		stop()
		if waits {
			continue
		}
		ended++
		if err != nil {
			continue // an end with data unread resets the connection, which may take away the last word
		}
		if !strings.Contains(string(text), "rate_limit_exceeded") || !strings.Contains(string(text), "memory") {
			t.Errorf("told %s", text)
		}
	}
	if ended < 4 || ended == 8 { // three have what they need, and one may wait for more for a while
		t.Errorf("%d of 8 sessions ended that began messages of three tenths of the tenant's memory", ended)
	}
	for _, p := range sessions {
		_ = p.Conn.CloseNow()
	}
	s.WaitIdle()
	p := s.OpenSession("acme")
	p.Say(`{"type":"conversation.item.create","item":{"type":"message","role":"user","content":[{"type":"input_text","text":"` + strings.Repeat("x ", part) + `"}]}}`)
	p.Until("conversation.item.created")
}

// A session is a slot of the tenant's, whichever side ends it.
func TestRealtimeHoldsASlot(t *testing.T) {
	s := realtimeStack(t, func(t *tenants.Tenant) { t.Concurrency = 1 }, sockets.World{})
	for _, end := range []func(p *sockets.Session){
		func(p *sockets.Session) { _ = p.Conn.Close(websocket.StatusNormalClosure, "") },
		func(p *sockets.Session) { _ = p.Conn.CloseNow() },
		func(p *sockets.Session) {
			p.Say(`{"type":"mock.close","code":4321,"reason":"enough"}`)
			_, err := p.Hear()
			if websocket.CloseStatus(err) != 4321 || !strings.Contains(err.Error(), "enough") {
				t.Errorf("the upstream's close arrives as %v", err)
			}
		},
	} {
		p := s.OpenSession("acme")
		_, resp, err := s.Dial("/v1/realtime?model=gpt-4o", http.Header{"Api-Key": {sockets.Key("acme")}})
		if err == nil || resp == nil || resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") == "" {
			t.Fatalf("a second session: %v %v, want a 429 before the upgrade", resp, err)
		}
		end(p)
		s.WaitIdle()
	}
}

func TestRealtimeRefusals(t *testing.T) {
	s := realtimeStack(t, func(t *tenants.Tenant) { t.Models = []string{"gpt-4o"} }, sockets.World{})
	key := http.Header{"Authorization": {"Bearer " + sockets.Key("acme")}}
	for _, tt := range []struct {
		path   string
		header http.Header
		want   int
	}{
		{"/v1/realtime?model=gpt-4o", nil, 401},
		{"/v1/realtime?model=gpt-4o", http.Header{"Authorization": {"Bearer x"}}, 401},
		{"/v1/realtime?model=gpt-4o", http.Header{"Authorization": {"Bearer " + sockets.Key("plain")}}, 403},
		{"/v1/realtime?model=gpt-4o-mini", key, 403},
		{"/v1/realtime", key, 400},
		{"/v1/realtime?model=gpt-4o&model=gpt-4o-mini", key, 400},
		{"/v1/realtime?model=gpt-4o&call_id=rtc_1", key, 400},
		{"/v1/realtime/sessions", key, 404},
	} {
		_, resp, err := s.Dial(tt.path, tt.header)
		if err == nil || resp == nil || resp.StatusCode != tt.want {
			t.Errorf("%s with %v: %v, want %d", tt.path, tt.header, resp, tt.want)
		}
	}
	if reply := s.Do(s.Request(http.MethodGet, "/v1/realtime?model=gpt-4o", "")); reply.Status != http.StatusUpgradeRequired {
		t.Errorf("without an upgrade: %d %s", reply.Status, reply.Body)
	}
	p, resp, err := s.Dial("/realtime?model=gpt-4o", nil, "realtime", "openai-insecure-api-key."+sockets.Key("acme"))
	if err != nil {
		t.Fatal(resp, err)
	}
	if p.Conn.Subprotocol() != "realtime" {
		t.Errorf("the subprotocol is %q", p.Conn.Subprotocol())
	}
	p.Until("session.created")
}

// A session stays with the model that it was let in with, and with its tenant's objects.
func TestRealtimeEventsThatAreRefused(t *testing.T) {
	s := realtimeStack(t, func(t *tenants.Tenant) { t.Models = []string{"gpt-4o", "whisper*"} }, sockets.World{})
	for _, tt := range []struct {
		event string
		code  string // "" passes
	}{
		{`{"type":"session.update","session":{"instructions":"Be brief."}}`, ""},
		{`{"type":"session.update","session":{"model":"gpt-4o"}}`, ""},
		{`{"type":"session.update","session":{"audio":{"input":{"transcription":{"model":"whisper-1"}}}}}`, ""},
		{`{"type":"session.update","session":{"tools":[{"type":"function","parameters":{"properties":{"model":{"type":"string"}}}}]}}`, ""},
		{`{"type":"session.update","session":{"tools":[{"type":"function","parameters":{"default":{"model":"gpt-5","file_id":"f"}}}]}}`, ""},
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
		p := s.OpenSession("acme")
		p.Say(tt.event)
		if tt.code == "" {
			p.Until("session.updated")
			_ = p.Conn.CloseNow()
			continue
		}
		if last, code := p.Over(); last.Error.Code != tt.code || code != websocket.StatusPolicyViolation {
			t.Errorf("%s: error %+v and close %d, want %s and %d", tt.event, last.Error, code, tt.code, websocket.StatusPolicyViolation)
		}
	}
}

// What came of a response whose client hangs up in the middle is charged, and its prompt by estimate.
func TestRealtimeHangUpIsCharged(t *testing.T) {
	s := realtimeStack(t, nil, sockets.World{Mock: mock.Config{TokensPerSecond: 100}})
	p := s.OpenSession("acme")
	p.Say(`{"type":"conversation.item.create","item":{"type":"message","role":"user","content":[{"type":"input_text","text":"` + strings.Repeat("some words ", 10_000) + `"}]}}`)
	p.Until("conversation.item.created")
	p.Say(`{"type":"response.create","response":{"max_output_tokens":1000}}`)
	for range 20 {
		testkit.Must(p.Hear())(t)
	}
	_ = p.Conn.CloseNow()
	s.WaitIdle()
	took := s.Mock.Stats()
	if got := s.Charged("output"); got < 19 || got > took.OutputTokens+1 {
		t.Errorf("charged %d tokens; the client saw 19 and the model server produced %d", got, took.OutputTokens)
	}
	if got := s.Charged("input"); got < took.PromptTokens/2 || got > took.PromptTokens*2 {
		t.Errorf("charged a prompt of %d tokens, the model server took %d", got, took.PromptTokens)
	}
}

// Tokens count when they are used, and not all at the end, where nobody else could call
// for a minute. Above the limit there is no other response.
func TestRealtimeKeepsTheTenantsLimit(t *testing.T) {
	s := realtimeStack(t, func(t *tenants.Tenant) { t.TPM = 9000 }, sockets.World{})
	p := s.OpenSession("acme")
	for n := int64(1); n <= 3; n++ {
		p.Say(`{"type":"response.create","response":{"max_output_tokens":2000}}`)
		p.Until("response.done")
		sockets.Eventually(t, sockets.Patience, "what a response took counts", func() bool { return s.Used("acme")["tokens"] == 2000*n })
	}
	p.Say(`{"type":"response.create","response":{"max_output_tokens":2000}}`)
	ev, err := p.Hear()
	if err != nil || ev.Type != "error" || ev.Error.Code != "rate_limit_exceeded" {
		t.Fatalf("above the limit: %+v %v", ev, err)
	}
	p.Say(`{"type":"session.update","session":{}}`) // it goes on
	p.Until("session.updated")
	if err := p.Conn.Close(websocket.StatusNormalClosure, ""); err != nil {
		t.Error(err)
	}
	s.WantChargedAsProduced("acme")
}

// A session ends when its key could not open it any more.
func TestRealtimeEndsWithItsKey(t *testing.T) {
	for name, edit := range map[string]func(*tenants.Tenant){
		"key":   func(t *tenants.Tenant) { t.Keys = []tenants.Key{{Hash: tenants.HashKey("new")}} },
		"model": func(t *tenants.Tenant) { t.Models = []string{"gpt-5"} },
		"route": func(t *tenants.Tenant) { t.Routes = tenants.RouteInference },
	} {
		s := realtimeStack(t, nil, sockets.World{})
		p := s.OpenSession("acme")
		snap := testkit.Must(tenants.Build(*s.Gateway.Snapshot().Config(), []tenants.Tenant{sockets.Tenant("acme", func(t *tenants.Tenant) { sockets.Granted(t); edit(t) })}))(t)
		testkit.OK(t, s.Gateway.Apply(snap))
		p.Say(respond)
		if last, code := p.Over(); last.Error.Code != "invalid_api_key" || code != websocket.StatusPolicyViolation {
			t.Errorf("without its %s: %+v, close %d", name, last, code)
		}
	}
}

// A drain lets a response come to its end, and then says goodbye.
func TestRealtimeDrains(t *testing.T) {
	s := realtimeStack(t, nil, sockets.World{Mock: mock.Config{TokensPerSecond: 100}})
	busy := s.OpenSession("acme")
	resting := s.OpenSession("acme")
	busy.Say(respond)
	busy.Until("response.created")
	done := make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), sockets.Patience)
	defer cancel()
	go func() { done <- s.Gateway.Drain(ctx) }()
	if _, code := resting.Over(); code != websocket.StatusGoingAway {
		t.Errorf("a session at rest is closed with %d, want 1001", code)
	}
	if n := busy.Until("response.done"); n != 25 {
		t.Errorf("a response of %d deltas, want all 25", n)
	}
	if _, code := busy.Over(); code != websocket.StatusGoingAway {
		t.Errorf("a session that came to rest is closed with %d, want 1001", code)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	s.WantChargedAsProduced("acme")
}

// A session that the governor ends is told so, and is charged what was produced; its lease
// ends once.
func TestRealtimeInterrupted(t *testing.T) {
	s := realtimeStack(t, nil, sockets.World{Mock: mock.Config{TokensPerSecond: 100}})
	busy := s.OpenSession("acme")
	resting := s.OpenSession("acme")
	busy.Say(respond)
	busy.Until("response.created")
	if n := s.Governor.Interrupt(s.Governor.State().Pools[0].Config.Name, harness.ErrOperator); n != 2 {
		t.Errorf("%d of two sessions were asked to end", n)
	}
	for _, p := range []*sockets.Session{busy, resting} {
		last, code := p.Over()
		if last.Error.Code != "store_unavailable" || !strings.Contains(last.Error.Message, "had to end the call early") || code != websocket.StatusGoingAway {
			t.Errorf("a session that was ended early hears %+v, and is closed with %d, want 1001", last, code)
		}
	}
	s.WaitIdle()
}

func TestRealtimeEndsWhenNothingIsSaid(t *testing.T) {
	s := realtimeStack(t, nil, sockets.World{Config: func(c *tenants.Config) { c.Timeouts.StreamIdle = 100 * time.Millisecond }})
	if _, code := s.OpenSession("acme").Over(); code != websocket.StatusGoingAway {
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
		s := realtimeStack(t, nil, sockets.World{Upstream: tt.upstream})
		_, resp, err := s.Dial("/v1/realtime?model=gpt-4o", http.Header{"Authorization": {"Bearer " + sockets.Key("acme")}})
		if err == nil || resp == nil || resp.StatusCode != tt.want {
			t.Errorf("%v, want %d", resp, tt.want)
		}
	}
}

// Large messages pass, both ways, as they are.
func TestRealtimePassesLargeMessages(t *testing.T) {
	s := realtimeStack(t, nil, sockets.World{})
	p := s.OpenSession("acme")
	text := strings.Repeat("x", 1<<20)
	p.Say(`{"type":"conversation.item.create","item":{"id":"` + text + `"}}`)
	ctx, cancel := context.WithTimeout(t.Context(), sockets.Patience)
	defer cancel()
	if _, got, err := p.Conn.Read(ctx); err != nil || !strings.Contains(string(got), text) {
		t.Errorf("%d bytes came back, %v", len(got), err)
	}
}

// dialRealtime opens a session, hears its first event, and hangs up.
func dialRealtime(s *harness.Stack, ctx context.Context, tenant string) (*http.Response, error) {
	conn, resp, err := openRealtime(s, ctx, tenant)
	if err == nil {
		_ = conn.Close(websocket.StatusNormalClosure, "")
	}
	return resp, err
}

// openRealtime opens a session, and hears its first event.
func openRealtime(s *harness.Stack, ctx context.Context, tenant string) (*websocket.Conn, *http.Response, error) {
	conn, resp, err := websocket.Dial(ctx, "http://gateway/v1/realtime?model=m", &websocket.DialOptions{
		HTTPClient: s.Client, HTTPHeader: http.Header{"Authorization": {"Bearer " + tenant}},
	})
	if err != nil {
		return nil, resp, err
	}
	_, first, err := conn.Read(ctx)
	if err == nil && !strings.Contains(string(first), "session.created") {
		s.T.Errorf("a session begins with %s", first)
	}
	return conn, resp, err
}

// A message waits a moment for memory, whatever its tenant's max_wait is, because its session ends otherwise.
func TestRealtimeMessageWaitsForMemory(t *testing.T) {
	for wait, ok := range map[time.Duration]bool{time.Second: true, 3 * time.Second: false} {
		testkit.Virtual(t, wait.String(), func(t *testing.T) {
			s := harness.New(t, harness.World{Pool: harness.Pool(0, 0, 10), Tenants: []tenants.Tenant{caller("a", 0)}, Tune: func(c *tenants.Config) {
				c.MaxBody = 1 << 20
				c.BodyMemory = tenants.BodyMemory{Process: 4 << 20, Tenant: 1 << 20}
			}})
			text := []byte(`{"type":"conversation.item.create","item":{"type":"message","role":"user","content":[{"type":"input_text","text":"` + strings.Repeat("x", 800_000) + `"}]}}`)
			large, _, err := openRealtime(s, t.Context(), "a")
			testkit.OK(t, err)
			w := testkit.Must(large.Writer(t.Context(), websocket.MessageText))(t)
			testkit.Must(w.Write(text[:800_000]))(t)
			synctest.Wait()
			other, _, err := openRealtime(s, t.Context(), "a")
			testkit.OK(t, err)
			other.SetReadLimit(2 << 20)
			time.AfterFunc(wait, func() { _ = large.CloseNow() })
			go func() { _ = other.Write(t.Context(), websocket.MessageText, text) }()
			_, said, err := other.Read(t.Context())
			if testkit.OK(t, err); strings.Contains(string(said), "conversation.item.created") != ok {
				t.Errorf("behind another message that goes after %v one is told %.200s", wait, said)
			}
			_ = other.CloseNow()
			time.Sleep(wait)
		})
	}
}

// caller is a tenant that may open sessions.
func caller(name string, wait time.Duration) tenants.Tenant {
	t := harness.Tenant(name, 1)
	t.MaxWait = wait
	t.Routes = tenants.RouteInference | tenants.RouteRealtime
	return t
}

// A session goes to another upstream as calls do, and waits as they do.
func TestUpstreams_Realtime(t *testing.T) {
	hangUp := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	for name, mood := range map[string]http.HandlerFunc{
		"500": harness.Status(500), "401": harness.Status(401), "429": harness.Status(429, "Retry-After", "7"), "reset": hangUp, "late": harness.Silence, "refused": nil,
	} {
		testkit.Virtual(t, name, func(t *testing.T) {
			bad := harness.NewUpstream(t, mock.Config{})
			others := map[string]http.Handler{"up1": bad}
			if bad.AnswerWith(mood); mood == nil {
				others["up1"] = nil
			}
			s := harness.New(t, harness.World{Pool: harness.PoolOf(1, 100), Tenants: []tenants.Tenant{caller("a", 0)}, Upstreams: others})
			if resp, err := dialRealtime(s, t.Context(), "a"); err != nil {
				t.Errorf("%v %v", resp, err)
			}
			synctest.Wait()
			if n := s.Sum("llmgov_requests_total", map[string]string{"outcome": "ok"}); n != 1 {
				t.Errorf("%d sessions are counted", n)
			}
		})
	}
}

// Where all ask for a pause, a session that may wait does; who may not is told when to
// come back; who goes away has cancelled.
func TestUpstreams_RealtimeWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := harness.NewUpstream(t, mock.Config{})
		up.AnswerWith(harness.Status(429, "Retry-After", "20"))
		s := harness.New(t, harness.World{Pool: harness.PoolAt("up1"), Tenants: []tenants.Tenant{caller("a", time.Minute), caller("b", 0)}, Upstreams: map[string]http.Handler{"up1": up}})
		resp, err := dialRealtime(s, t.Context(), "b")
		if err == nil || resp == nil || resp.StatusCode != 429 || resp.Header.Get("Retry-After") != "20" {
			t.Fatalf("who does not wait: %v %v", resp, err)
		}
		time.Sleep(20 * time.Second)
		ctx, leave := context.WithTimeout(t.Context(), 5*time.Second)
		defer leave()
		if _, err := dialRealtime(s, ctx, "a"); err == nil {
			t.Error("who went away has a session")
		}
		synctest.Wait()
		s.CheckIdle()
		if n := s.Sum("llmgov_requests_total", map[string]string{"outcome": "cancelled"}); n != 1 {
			t.Errorf("%d are counted as cancelled", n)
		}
		time.Sleep(15 * time.Second)
		time.AfterFunc(time.Second, func() { up.AnswerWith(nil) })
		began := time.Now()
		if resp, err := dialRealtime(s, t.Context(), "a"); err != nil || time.Since(began) != 20*time.Second {
			t.Errorf("after %v: %v %v", time.Since(began), resp, err)
		}
		synctest.Wait()
	})
}
