package input

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/internal/lib/connections"
	"github.com/llmgov/llmgov/internal/ops/admin"
	"github.com/llmgov/llmgov/internal/ops/telemetry"
	"github.com/llmgov/llmgov/internal/proxy/gateway"
	"github.com/llmgov/llmgov/internal/test/e2e/harness"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/internal/test/testkit/pipenet"
	"github.com/llmgov/llmgov/tenants"
)

// newLog is a log in memory.
func newLog() (*bytes.Buffer, slog.Handler) {
	text := &bytes.Buffer{}
	return text, slog.NewJSONHandler(text, nil)
}

// Calls without a valid key write a few lines a second and are counted, in the log and in the metrics;
// calls with a key each have their line.
func TestAudit_L8_CallsWithoutKeyFillNoLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text, handler := newLog()
		w := bodies(harness.Tenant("acme", 1))
		w.Log = handler
		s := harness.New(t, w)
		for range 100 {
			if a := s.Call(t.Context(), "nobody", "{}"); a.Status != http.StatusUnauthorized {
				t.Fatalf("%d %s", a.Status, a.Body)
			}
		}
		if n := strings.Count(text.String(), "invalid_api_key"); n == 0 || n > 10 {
			t.Errorf("100 calls without a key wrote %d lines", n)
		}
		time.Sleep(time.Second)
		s.Call(t.Context(), "nobody", "{}")
		if !strings.Contains(text.String(), `"unlogged":95`) {
			t.Errorf("the calls without a line are not counted:\n%s", text)
		}
		if n := s.Sum("llmgov_requests_total", map[string]string{"reason": "invalid_api_key"}); n != 101 {
			t.Errorf("%d are counted", n)
		}
		text.Reset()
		for range 20 {
			s.Call(t.Context(), "acme", "{")
		}
		if n := strings.Count(text.String(), `"tenant":"acme"`); n != 20 {
			t.Errorf("20 calls with a key wrote %d lines", n)
		}
	})
}

// explained asks the admin side why a call was refused.
func explained(s *harness.Stack, query string) (status int, body string) {
	w := httptest.NewRecorder()
	s.AdminAPI(admin.Options{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost/api/v1/explain?"+query, nil))
	return w.Code, w.Body.String()
}

// A tenant's many refusals leave what is remembered of others alone, and an id that several tenants
// use leads to nobody else's call.
func TestAudit_L8_RefusalsOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := harness.New(t, bodies(harness.Tenant("acme", 1), harness.Tenant("loud", 1)))
		refuse := func(tenant, id, body string) {
			if a := s.Call(t.Context(), tenant, body, "X-Request-Id", id); a.Status != http.StatusBadRequest || a.Header.Get("X-Request-Id") != id {
				t.Fatalf("%d %s %v", a.Status, a.Body, a.Header)
			}
		}
		refuse("acme", "mine", `{`)
		refuse("loud", "mine", `{"model":5}`)
		for i := range 2100 {
			refuse("loud", fmt.Sprint(i), `[]`)
		}
		if status, body := explained(s, "request=mine"); status != http.StatusOK || !strings.Contains(body, `"tenant": "acme"`) {
			t.Errorf("%d %s", status, body)
		}
		refuse("loud", "mine", `[]`)
		refuse("loud", "mine", `{"model":5}`)
		if status, body := explained(s, "request=mine"); status != http.StatusConflict || !strings.Contains(body, "acme, loud") {
			t.Errorf("an id of two tenants: %d %s", status, body)
		}
		if status, body := explained(s, "request=mine&tenant=loud"); status != http.StatusOK || !strings.Contains(body, "model must be") {
			t.Errorf("the newest of the tenant: %d %s", status, body)
		}
		if status, body := explained(s, "request=mine&tenant=acme"); status != http.StatusOK || !strings.Contains(body, "not valid JSON") {
			t.Errorf("the other tenant's: %d %s", status, body)
		}
	})
}

// adminSide serves a gateway's admin side, as serve does, and returns a dialer.
func adminSide(s *harness.Stack, token string) *pipenet.Listener {
	l := pipenet.Listen()
	s.Serve(&http.Server{
		Handler:           s.AdminAPI(admin.Options{Token: token}),
		ReadHeaderTimeout: 10 * time.Second,
	}, l)
	return l
}

// A client of the admin side that drips its body is cut off, with a token or without.
func TestAudit_L4_AdminBodiesEnd(t *testing.T) {
	for _, head := range []string{
		"GET /livez HTTP/1.1", "GET /metrics HTTP/1.1", "POST /api/v1/reload HTTP/1.1",
		"POST /api/v1/keys HTTP/1.1\r\nAuthorization: Bearer the-token-of-this-gateway",
	} {
		synctest.Test(t, func(t *testing.T) {
			s := harness.New(t, bodies(harness.Tenant("acme", 1)))
			conn := testkit.Must(adminSide(s, "the-token-of-this-gateway").Dial(t.Context(), "", ""))(t)
			began := time.Now()
			go func() {
				fmt.Fprintf(conn, "%s\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n", head)
				for {
					if _, err := conn.Write([]byte("x")); err != nil {
						return
					}
					time.Sleep(time.Second)
				}
			}()
			_, _ = io.Copy(io.Discard, conn)
			conn.Close()
			if took := time.Since(began); took > 15*time.Second {
				t.Errorf("%s held its connection for %s", head, took)
			}
			time.Sleep(2 * time.Second) // until both sides have noticed
		})
	}
}

// Wrong tokens are in the log, and cannot fill it.
func TestAudit_L4_WrongTokensAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text, handler := newLog()
		w := bodies(harness.Tenant("acme", 1))
		w.Log = handler
		s := harness.New(t, w)
		admin := s.AdminAPI(admin.Options{Token: "the-token-of-this-gateway"})
		for range 50 {
			r := httptest.NewRequest(http.MethodGet, "http://localhost/metrics", nil)
			r.Header.Set("Authorization", "Bearer guess")
			admin.ServeHTTP(httptest.NewRecorder(), r)
		}
		if n := strings.Count(text.String(), "admin token missing or wrong"); n == 0 || n > 5 || strings.Contains(text.String(), "guess") {
			t.Errorf("50 wrong tokens wrote %d lines:\n%s", n, text)
		}
		if !strings.Contains(text.String(), `"remote":"192.0.2.1:1234"`) {
			t.Errorf("the log does not say who it was:\n%s", text)
		}
	})
}

// A client that does not read its refusal holds its connection for seconds.
func TestAudit_M2_RefusalsThatNobodyReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := bodies().Config()
		gw, _ := harness.Build(t, cfg, harness.World{Tenants: []tenants.Tenant{harness.Tenant("acme", 1)}}, telemetry.New(), gateway.Options{Log: slog.New(slog.DiscardHandler)})
		done := make(chan time.Duration, 1)
		began := time.Now()
		client, server := net.Pipe() // without a buffer
		go func() {
			defer func() { done <- time.Since(began) }()
			l := &oneConn{conn: server, closed: make(chan struct{})}
			h := http.Server{Handler: gw, ConnState: func(_ net.Conn, state http.ConnState) {
				if state == http.StateClosed {
					close(l.closed)
				}
			}}
			_ = h.Serve(l)
		}()
		w := bufio.NewWriter(client)
		fmt.Fprint(w, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
		_ = w.Flush()
		if took := <-done; took > 10*time.Second {
			t.Errorf("the connection was held for %s", took)
		}
		client.Close()
	})
}

// oneConn is a listener of one connection, which ends when that is closed.
type oneConn struct {
	conn   net.Conn
	given  bool
	closed chan struct{}
}

func (l *oneConn) Accept() (net.Conn, error) {
	if !l.given {
		l.given = true
		return l.conn, nil
	}
	<-l.closed
	return nil, net.ErrClosed
}

func (l *oneConn) Close() error   { return nil }
func (l *oneConn) Addr() net.Addr { return l.conn.LocalAddr() }

// A refusal reaches the client whose body takes longer to come than a refusal may take to be read, whichever server reads it.
func TestAudit_A9_RefusalsOfSlowBodies(t *testing.T) {
	for _, c := range []struct {
		key, path string
		length    int64
		status    int
	}{
		{"nobody", "/v1/chat/completions", 20, http.StatusUnauthorized},
		{"nobody", "/v1/chat/completions", -1, http.StatusUnauthorized},
		{"acme", "/v1/nothing", 20, http.StatusNotFound},
		{"acme", "/v1/files", -1, http.StatusForbidden},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := harness.New(t, bodies(harness.Tenant("acme", 1)))
			defer s.Close()
			r, w := io.Pipe()
			go func() {
				for range 10 {
					_, _ = io.WriteString(w, "xx")
					time.Sleep(1300 * time.Millisecond)
				}
				w.Close()
			}()
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://gateway"+c.path, r)
			req.Header.Set("Authorization", "Bearer "+c.key)
			req.ContentLength = c.length
			resp, err := s.Client.Do(req)
			if err != nil {
				t.Fatalf("%+v: %v", c, err)
			}
			resp.Body.Close()
			if resp.StatusCode != c.status {
				t.Errorf("%+v is answered with %d", c, resp.StatusCode)
			}
			r.Close()
			time.Sleep(20 * time.Second) // until both sides have noticed
			s.CheckIdle()
		})
	}
}

// One tenant's connections, idle or with calls, keep no other tenant out, and its own calls are refused once it has its part.
func TestAudit_A6_ConnectionsOfOneTenant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := bodies(harness.Tenant("alice", 1), harness.Tenant("bob", 1))
		w.Mock.FirstToken = 10 * time.Second
		s := harness.New(t, w)
		defer s.Close()
		door := pipenet.Listen()
		counted := connections.New(door, connections.Limits{All: 12, Tenants: 8, Strangers: 3, Grace: time.Second})
		s.Serve(gateway.NewServer(&http.Server{Handler: s.Gateway, ConnContext: connections.Context}, testkit.LeanHTTP()), counted)
		call := func(tenant, method, path, body string) (int, string) {
			transport := &http.Transport{DialContext: door.Dial} // for a connection of its own, which stays
			t.Cleanup(transport.CloseIdleConnections)
			req, _ := http.NewRequestWithContext(t.Context(), method, "http://gateway"+path, strings.NewReader(body))
			req.Header.Set("Authorization", "Bearer "+tenant)
			resp, err := (&http.Client{Transport: transport}).Do(req)
			if err != nil {
				return 0, err.Error()
			}
			defer resp.Body.Close()
			text, _ := io.ReadAll(resp.Body)
			return resp.StatusCode, string(text)
		}
		for i := range 30 {
			if status, text := call("alice", "GET", "/v1/models", ""); status != http.StatusOK {
				t.Fatalf("connection %d of alice gets %d %s", i, status, text)
			}
			time.Sleep(300 * time.Millisecond)
		}
		if n := counted.Stats(); n.Open > 8 || n.Closed < 20 {
			t.Errorf("of 30 connections there are %+v", n)
		}
		if status, text := call("bob", "GET", "/v1/models", ""); status != http.StatusOK {
			t.Errorf("beside idle connections of alice, bob gets %d %s", status, text)
		}
		statuses := make(chan int, 20)
		for range 20 {
			time.Sleep(100 * time.Millisecond)
			go func() {
				status, _ := call("alice", "POST", "/v1/chat/completions", harness.Chat(false, 5, ""))
				statuses <- status
			}()
		}
		time.Sleep(1100 * time.Millisecond)
		if status, text := call("bob", "GET", "/v1/models", ""); status != http.StatusOK {
			t.Errorf("beside calls on connections of alice, bob gets %d %s", status, text)
		}
		if status, text := call("alice", "GET", "/v1/models", ""); status != http.StatusServiceUnavailable || !strings.Contains(text, `"overloaded"`) {
			t.Errorf("with calls on all of its part, alice gets %d %s", status, text)
		}
		got := map[int]int{}
		for range 20 {
			got[<-statuses]++
		}
		if got[http.StatusOK] < 4 || got[http.StatusOK]+got[http.StatusServiceUnavailable] != 20 {
			t.Errorf("20 calls of alice at once are answered with %v", got)
		}
	})
}
