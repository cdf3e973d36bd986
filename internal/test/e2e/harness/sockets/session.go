package sockets

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"
)

// Dial opens a websocket that the test's end closes.
func (s *Stack) Dial(path string, header http.Header, protocols ...string) (*Session, *http.Response, error) {
	s.T.Helper()
	conn, resp, err := websocket.Dial(s.T.Context(), s.Data.URL+path, &websocket.DialOptions{HTTPClient: s.Client, HTTPHeader: header, Subprotocols: protocols})
	if err != nil {
		return nil, resp, err
	}
	conn.SetReadLimit(1 << 30)
	s.T.Cleanup(func() { _ = conn.CloseNow() })
	return &Session{s.T, conn}, resp, nil
}

// OpenSession opens a realtime session as a tenant.
func (s *Stack) OpenSession(tenant string) *Session {
	s.T.Helper()
	p, _, err := s.Dial("/v1/realtime?model=gpt-4o", http.Header{"Authorization": {"Bearer " + Key(tenant)}})
	if err != nil {
		s.T.Fatal(err)
	}
	p.Until("session.created")
	return p
}

// Session is a client's side of a realtime session.
type Session struct {
	T    *testing.T
	Conn *websocket.Conn
}

// Say sends an event.
func (p *Session) Say(text string) {
	p.T.Helper()
	if err := p.Conn.Write(p.T.Context(), websocket.MessageText, []byte(text)); err != nil {
		p.T.Fatal(err)
	}
}

// Hear reads the next event.
func (p *Session) Hear() (Event, error) {
	ctx, cancel := context.WithTimeout(p.T.Context(), Patience)
	defer cancel()
	_, text, err := p.Conn.Read(ctx)
	var ev Event
	if err == nil {
		err = json.Unmarshal(text, &ev)
	}
	return ev, err
}

// Until reads up to an event of a type, and returns how many deltas came before.
func (p *Session) Until(kind string) (deltas int) {
	p.T.Helper()
	for {
		ev, err := p.Hear()
		if err != nil {
			p.T.Fatalf("waiting for %s: %v", kind, err)
		}
		if strings.HasSuffix(ev.Type, ".delta") {
			deltas++
		}
		if ev.Type == kind {
			return deltas
		}
	}
}

// Over reads to the end, and returns the last error event and the close code.
func (p *Session) Over() (last Event, code websocket.StatusCode) {
	for {
		ev, err := p.Hear()
		if err != nil {
			return last, websocket.CloseStatus(err)
		}
		if ev.Type == "error" {
			last = ev
		}
	}
}

// Event has the members of an event that tests check.
type Event struct {
	Type  string
	Error struct{ Code, Message string }
	Delta string
}
