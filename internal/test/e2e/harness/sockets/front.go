package sockets

import (
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/lib/connections"
	"github.com/llmgov/llmgov/internal/proxy/gateway"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// Front is a server for callers, with the settings of llmgov's serve command.
type Front struct {
	Listener net.Listener
	URL      string
}

// ServeCalls starts a Front on a real socket; it ends with the test.
func ServeCalls(t *testing.T, h http.Handler) *Front {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := newFrontServer(h)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(connections.New(l, connections.Limits{All: 10_000, Tenants: 9_000, Strangers: 1000, Grace: Patience}))
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-done
	})
	return &Front{Listener: l, URL: "http://" + l.Addr().String()}
}

func newFrontServer(h http.Handler) gateway.Server {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	return gateway.NewServer(&http.Server{
		Handler:           h,
		ReadHeaderTimeout: Patience,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    4 * gateway.MaxHeader,
		Protocols:         &protocols,
		ConnContext:       connections.Context,
		ErrorLog:          slog.NewLogLogger(slog.DiscardHandler, 0),
	}, testkit.LeanHTTP())
}
