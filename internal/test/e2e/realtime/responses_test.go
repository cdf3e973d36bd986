package realtime

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf16"

	"github.com/coder/websocket"

	"github.com/llmgov/llmgov/internal/lab/mock"
	"github.com/llmgov/llmgov/internal/test/e2e/harness"
	"github.com/llmgov/llmgov/internal/test/e2e/harness/sockets"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/tenants"
)

const (
	speech  = `{"type":"input_audio_buffer.append","audio":"c29tZSBzb3VuZA=="}`
	silence = `{"type":"input_audio_buffer.append","audio":"AAAAAAAAAAA="}`
	settled = `{"type":"session.update","session":{"instructions":"x"}}` // its answer comes behind those to all before
)

// all says some events while it listens, and reads up to the answer to all of them and the end of the
// responses that have begun. It returns the codes
// of the error events, and how many deltas there were.
func all(p *sockets.Session, events ...string) (codes []string, deltas int) {
	p.T.Helper()
	var said sync.WaitGroup
	defer said.Wait()
	said.Go(func() {
		for _, event := range append(events, settled) {
			if err := p.Conn.Write(p.T.Context(), websocket.MessageText, []byte(event)); err != nil {
				p.T.Error(err)
			}
		}
	})
	answered := false
	open := 0 // responses that have begun and not ended
	for {
		ev := testkit.Must(p.Hear())(p.T)
		switch {
		case ev.Type == "error":
			codes = append(codes, ev.Error.Code)
		case strings.HasSuffix(ev.Type, ".delta"):
			deltas++
		case ev.Type == "response.created":
			open++
		case ev.Type == "response.done":
			open--
		case ev.Type == "session.updated":
			answered = true
		}
		if answered && open == 0 {
			return codes, deltas
		}
	}
}

// takeTurn reads up to the end of a response, or the error that there is instead.
func takeTurn(p *sockets.Session, patience time.Duration) (last sockets.Event) {
	p.T.Helper()
	ctx, cancel := context.WithTimeout(p.T.Context(), patience)
	defer cancel()
	for {
		_, text, err := p.Conn.Read(ctx)
		if err == nil {
			err = json.Unmarshal(text, &last)
		}
		if err != nil {
			p.T.Fatal(err)
		}
		if last.Type == "response.done" || last.Type == "error" {
			return last
		}
	}
}

// A server that detects voice activity starts responses by itself. They have the limits of all others.
func TestAudit_H3_VoiceActivity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		who := caller("a", 0)
		who.TPM = 1000
		s := harness.New(t, harness.World{Mock: mock.Config{OutputTokens: 550}, Pool: harness.Pool(1_000_000, 0, 4), Tenants: []tenants.Tenant{who}})
		p := &sockets.Session{T: t, Conn: s.OpenSession(t.Context(), "a")}
		codes, _ := all(p, slices.Repeat([]string{speech, speech, silence}, 50)...)
		time.Sleep(time.Second) // for the responses to turns that were not yet asked for
		later, _ := all(p)
		codes = append(codes, later...)
		if len(codes) == 0 || codes[0] != "rate_limit_exceeded" {
			t.Errorf("the client hears of %v", codes)
		}
		st := s.Mock.Stats()
		if st.OutputTokens == 0 || st.OutputTokens > 1000+550 {
			t.Errorf("50 turns took %d tokens, with a limit of 1000", st.OutputTokens)
		}
		if err := p.Conn.Close(websocket.StatusNormalClosure, ""); err != nil {
			t.Error(err)
		}
		s.CheckIdle()
		if in, out := s.Charged("", "input"), s.Charged("", "output"); in != st.PromptTokens || out != st.OutputTokens {
			t.Errorf("charged %d + %d tokens; the model server took %d and produced %d", in, out, st.PromptTokens, st.OutputTokens)
		}
	})
}

// While nothing is left of the minute, audio is held back and responses are refused; then the session
// goes on.
func TestAudit_H3_GoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		who := caller("a", 0)
		who.TPM = 1000
		s := harness.New(t, harness.World{Mock: mock.Config{OutputTokens: 1000}, Pool: harness.Pool(1_000_000, 0, 4), Tenants: []tenants.Tenant{who}})
		p := &sockets.Session{T: t, Conn: s.OpenSession(t.Context(), "a")}
		for range 3 {
			p.Say(`{"type":"response.create"}`)
			p.Until("response.done")
			events := slices.Repeat([]string{speech, silence}, 20)
			events = append(events, `{"type":"input_audio_buffer.commit"}`, `{"type":"response.create","response":{"max_output_tokens":500}}`)
			if codes, deltas := all(p, events...); len(codes) != 3 || deltas != 0 {
				t.Errorf("over the limit the client hears of %v, and %d deltas; want one for all audio, one for the commit and one for the response", codes, deltas)
			}
			time.Sleep(61 * time.Second)
		}
		_ = p.Conn.Close(websocket.StatusNormalClosure, "")
	})
}

// Responses wait for room as calls do, as long as the tenant may.
func TestAudit_H3_Waits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		who := caller("a", 90*time.Second)
		who.TPM = 1000
		who.Concurrency = 1
		s := harness.New(t, harness.World{Mock: mock.Config{OutputTokens: 900}, Pool: harness.Pool(1_000_000, 0, 4), Tenants: []tenants.Tenant{who}})
		p := &sockets.Session{T: t, Conn: s.OpenSession(t.Context(), "a")}
		for i := range 3 {
			began := time.Now()
			p.Say(`{"type":"response.create","response":{"max_output_tokens":900}}`)
			if last := takeTurn(p, 2*time.Minute); last.Type != "response.done" {
				t.Fatalf("response %d: %+v", i, last)
			}
			if waited := time.Since(began); (waited > 50*time.Second) != (i > 0) {
				t.Errorf("response %d waited for %v", i, waited)
			}
		}
		_ = p.Conn.Close(websocket.StatusNormalClosure, "")
	})
}

// A response whose client goes while it waits is not asked for.
func TestAudit_H3_GoesWhileItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		who := caller("a", 90*time.Second)
		who.TPM = 1000
		s := harness.New(t, harness.World{Mock: mock.Config{OutputTokens: 900}, Pool: harness.Pool(1_000_000, 0, 4), Tenants: []tenants.Tenant{who}})
		p := &sockets.Session{T: t, Conn: s.OpenSession(t.Context(), "a")}
		p.Say(`{"type":"response.create","response":{"max_output_tokens":900}}`)
		takeTurn(p, time.Minute)
		p.Say(`{"type":"response.create","response":{"max_output_tokens":900}}`)
		time.Sleep(time.Second)
		_ = p.Conn.Close(websocket.StatusNormalClosure, "")
		time.Sleep(time.Second)
		s.CheckIdle()
		time.Sleep(2 * time.Minute)
		if n := s.Mock.Stats().OutputTokens; n != 900 {
			t.Errorf("%d tokens were produced, want those of the first response", n)
		}
	})
}

// A server that responds to turns by itself, whatever it is told, is not asked a second time.
func TestAudit_H3_RespondsByItself(t *testing.T) {
	said := make(chan string, 10)
	s := realtimeStack(t, nil, sockets.World{Upstream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		vad := `"session":{"audio":{"input":{"turn_detection":{"type":"server_vad"}}}}`
		for _, event := range []string{
			`"session.created",` + vad, `"session.updated",` + vad, `"input_audio_buffer.speech_stopped"`, `"input_audio_buffer.committed"`,
			`"response.created","response":{"id":"one"}`, `"response.done","response":{"id":"one","usage":{"input_tokens":1,"output_tokens":1}}`,
		} {
			_ = conn.Write(r.Context(), websocket.MessageText, []byte(`{"type":`+event+`}`))
		}
		for {
			_, text, err := conn.Read(r.Context())
			if err != nil {
				return
			}
			said <- string(text)
		}
	})})
	p := s.OpenSession("acme")
	takeTurn(p, sockets.Patience)
	p.Say(settled)
	if greeting := <-said; !strings.Contains(greeting, `"create_response":false`) {
		t.Errorf("the upstream is first told %s", greeting)
	}
	if event := <-said; event != settled {
		t.Errorf("then it is told %s", event)
	}
	_ = p.Conn.Close(websocket.StatusNormalClosure, "")
}

// Fifty sessions at once take no more than the limit and one call's debt.
func TestAudit_H3_FiftyAtOnce(t *testing.T) {
	for name, begin := range map[string][]string{
		"asked for": {`{"type":"response.create","response":{"max_output_tokens":100}}`},
		"by voice":  {`{"type":"session.update","session":{"max_output_tokens":100}}`, speech, silence},
	} {
		t.Run(name, func(t *testing.T) {
			s := realtimeStack(t, func(t *tenants.Tenant) { t.TPM = 1000 }, sockets.World{Mock: mock.Config{OutputTokens: 100, TokensPerSecond: 1000}})
			var phones []*sockets.Session
			for range 50 {
				phones = append(phones, s.OpenSession("acme"))
			}
			var all sync.WaitGroup
			for _, p := range phones {
				all.Go(func() {
					for _, event := range begin {
						if err := p.Conn.Write(t.Context(), websocket.MessageText, []byte(event)); err != nil {
							t.Error(err)
						}
					}
				})
			}
			all.Wait()
			for _, p := range phones {
				takeTurn(p, sockets.Patience)
			}
			if took := s.Mock.Stats().OutputTokens; took < 500 || took > 1000+100 {
				t.Errorf("50 sessions took %d tokens, with a limit of 1000", took)
			}
		})
	}
}

// A server that begins responses whatever it is told is told to cancel those for which there is no room.
func TestAudit_H3_Uninvited(t *testing.T) {
	cancelled := make(chan string, 10)
	s := realtimeStack(t, func(t *tenants.Tenant) { t.TPM = 1000 }, sockets.World{Upstream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		for _, event := range []string{`"session.created"`, `"response.created","response":{"id":"one"}`, `"response.created","response":{"id":"two"}`} {
			_ = conn.Write(r.Context(), websocket.MessageText, []byte(`{"type":`+event+`}`))
		}
		for {
			_, text, err := conn.Read(r.Context())
			if err != nil {
				return
			}
			cancelled <- string(text)
		}
	})})
	p := s.OpenSession("acme")
	if last := takeTurn(p, sockets.Patience); last.Error.Code != "rate_limit_exceeded" {
		t.Errorf("the client hears of %+v", last)
	}
	if event := <-cancelled; !strings.Contains(event, "response.cancel") || !strings.Contains(event, `"response_id":"two"`) {
		t.Errorf("the upstream is told %s", event)
	}
	_ = p.Conn.Close(websocket.StatusNormalClosure, "")
}

// What is ambiguous is refused in events as it is in bodies.
func TestAudit_H3_AmbiguousEvents(t *testing.T) {
	s := realtimeStack(t, nil, sockets.World{})
	for _, event := range []string{
		`{"type":"session.update","type":"response.create"}`,
		`{"type":"session.update","ty\u0070e":"response.create"}`,
		`{"type":"session.update","Type":"response.create"}`,
		`{"TYPE":"response.create"}`,
		`{"type":["response.create"]}`,
		`{"type":"response.create","response":{},"response":{"max_output_tokens":9}}`,
		`{"type":"response.create","response":{"max_output_tokens":9,"max_output_tokens":9999}}`,
		`{"type":"response.create","response":{"Max_Output_Tokens":9999}}`,
		`{"type":"response.create","response":{"max_output_tokens":"9999"}}`,
		`{"type":"response.create","response":{"max_output_tokens":-1}}`,
		`{"type":"response.create","response":[{"max_output_tokens":9999}]}`,
		`{"type":"session.update","session":{},"\u0073ession":{}}`,
		`{"type":"session.update","session":{"turn_detection":null,"turn_detection":{}}}`,
	} {
		p := s.OpenSession("acme")
		p.Say(event)
		if last, code := p.Over(); last.Error.Code != "invalid_request_error" || code != websocket.StatusPolicyViolation {
			t.Errorf("%s: error %+v and close %d", event, last.Error, code)
		}
	}
}

// A binary frame is an event as any other, or refused.
func TestAudit_H3_BinaryFrames(t *testing.T) {
	s := realtimeStack(t, nil, sockets.World{})
	var wide []byte
	for _, unit := range utf16.Encode([]rune(`{"type":"response.create"}`)) {
		wide = append(wide, byte(unit), byte(unit>>8))
	}
	for _, frame := range []string{`[{"type":"response.create"}]`, "\xef\xbb\xbf" + `[{"type":"response.create"}]`, string(wide), "sound", "", `{"type":"response.create"}{}`} {
		p := s.OpenSession("acme")
		testkit.OK(t, p.Conn.Write(t.Context(), websocket.MessageBinary, []byte(frame)))
		if last, code := p.Over(); last.Error.Code != "invalid_request_error" || code != websocket.StatusPolicyViolation {
			t.Errorf("%q: error %+v and close %d", frame, last.Error, code)
		}
	}
	p := s.OpenSession("acme")
	testkit.OK(t, p.Conn.Write(t.Context(), websocket.MessageBinary, []byte(respond)))
	if n := p.Until("response.done"); n != 25 {
		t.Errorf("a response of %d deltas, want 25", n)
	}
}

// The tenant's max_output_tokens holds for every response of a session.
func TestAudit_H3_Clamp(t *testing.T) {
	s := realtimeStack(t, func(t *tenants.Tenant) { t.MaxOutputTokens = 100 }, sockets.World{Mock: mock.Config{OutputTokens: 3000}})
	create := func(response string) []string { return []string{`{"type":"response.create"` + response + `}`} }
	update := func(session string) []string {
		return []string{`{"type":"session.update","session":{` + session + `}}`, `{"type":"response.create"}`}
	}
	for _, tt := range []struct {
		events []string
		want   int
	}{
		{create(``), 100},
		{create(`,"response":null`), 100},
		{create(`,"response":{}`), 100},
		{create(`,"response":{"instructions":"x"}`), 100},
		{create(`,"response":{"max_output_tokens":3000}`), 100},
		{create(`,"response":{"max_output_tokens":"inf"}`), 100},
		{create(`,"response":{"max_response_output_tokens":3000}`), 100},
		{create(`,"response":{"max_output_tokens":30}`), 30},
		{update(`"max_output_tokens":3000`), 100},
		{update(`"max_response_output_tokens":"inf"`), 100},
		{update(`"max_output_tokens":20`), 20},
		{[]string{speech, silence}, 100},
		{append(update(`"max_output_tokens":3000`)[:1], speech, silence), 100},
	} {
		p := s.OpenSession("acme")
		for _, event := range tt.events {
			p.Say(event)
		}
		if n := p.Until("response.done"); n != tt.want {
			t.Errorf("%v: a response of %d tokens, want %d", tt.events, n, tt.want)
		}
		_ = p.Conn.CloseNow()
	}
}

// A session whose budget is spent ends, whoever asks for its responses.
func TestAudit_H3_BudgetEnds(t *testing.T) {
	for name, turn := range map[string][]string{
		"asked for": {`{"type":"response.create","response":{"max_output_tokens":200}}`},
		"by voice":  {speech, silence},
	} {
		s := realtimeStack(t, func(t *tenants.Tenant) {
			t.Budgets = []tenants.Budget{{Unit: tenants.Tokens, Limit: 1000, Per: tenants.Day}}
		}, sockets.World{Mock: mock.Config{OutputTokens: 200}})
		p := s.OpenSession("acme")
		last := sockets.Event{Type: "response.done"}
		for last.Type == "response.done" {
			for _, event := range turn {
				p.Say(event)
			}
			last = takeTurn(p, sockets.Patience)
		}
		_, code := p.Over()
		if last.Error.Code != "insufficient_quota" || code != websocket.StatusPolicyViolation {
			t.Errorf("%s: a spent budget: %+v, close %d", name, last, code)
		}
		s.WaitIdle()
		if took := s.Mock.Stats().OutputTokens; took > 1000+200+20 {
			t.Errorf("%s: %d tokens were taken of a budget of 1000", name, took)
		}
	}
}

// What an upstream says in a session does not show its key either.
func TestAudit_M7_Sessions(t *testing.T) {
	s := realtimeStack(t, nil, sockets.World{Upstream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		said := fmt.Sprintf(`{"type":"error","error":{"message":%q}}`, r.Header.Get("Authorization"))
		_ = conn.Write(r.Context(), websocket.MessageText, []byte(said))
		_ = conn.Close(4000, r.Header.Get("Authorization"))
	})})
	p, _, err := s.Dial("/v1/realtime?model=gpt-4o", http.Header{"Authorization": {"Bearer " + sockets.Key("acme")}})
	if err != nil {
		t.Fatal(err)
	}
	_, text, err := p.Conn.Read(t.Context())
	if err != nil || strings.Contains(string(text), sockets.UpstreamKey) || !strings.Contains(string(text), "Bearer ****") {
		t.Errorf("the client hears %s (%v)", text, err)
	}
	_, _, err = p.Conn.Read(t.Context())
	if websocket.CloseStatus(err) != 4000 || strings.Contains(err.Error(), sockets.UpstreamKey) {
		t.Errorf("the session ends with %v", err)
	}
}
