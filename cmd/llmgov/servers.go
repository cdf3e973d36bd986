package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/llmgov/llmgov/internal/admissionserver"
	"github.com/llmgov/llmgov/internal/connections"
	"github.com/llmgov/llmgov/internal/gateway"
	"github.com/llmgov/llmgov/tenants"
)

func newServer(h http.Handler, log *slog.Logger, readHeader time.Duration) *http.Server {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: readHeader,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    gateway.MaxHeader,
		Protocols:         &protocols,
		ConnContext:       connections.Context,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// speakHTTP2 lets clients speak HTTP/2 without TLS, too. Its bounds keep small how much one connection can hold.
func speakHTTP2(s *http.Server) {
	s.Protocols.SetUnencryptedHTTP2(true)
	s.HTTP2 = &http.HTTP2Config{
		MaxConcurrentStreams:          100,
		MaxReceiveBufferPerStream:     64 << 10,
		MaxReceiveBufferPerConnection: 256 << 10,
	}
}

// Strangers are clients without a valid key or token.
const (
	mostStrangers    = 512
	graceOfStrangers = time.Second
)

// adminConnections are the bounds of the admin listener.
var adminConnections = connections.Limits{All: 512, Strangers: 64, Grace: graceOfStrangers}

// admissionConnections are the bounds of the listener for reservations. Its clients are few, and each of their
// connections has many calls.
var admissionConnections = connections.Limits{All: 1024, Strangers: 64, Grace: graceOfStrangers}

// admissionStreams is how many calls one connection may have. ext_proc has one for each call of its proxy.
const admissionStreams = 1000

// admissionSide is the server for gateways and programs that call models themselves, and its listener.
type admissionSide struct {
	net.Listener
	*http.Server
}

// newAdmissionSide listens, or returns nil if the config has no such listener.
func (p *parts) newAdmissionSide(cfg *tenants.Config) (*admissionSide, error) {
	if cfg.Admission.Listen == "" {
		return nil, nil
	}
	l, err := listen(cfg.Admission.Listen, "admission.listen")
	if err != nil {
		return nil, err
	}
	h := admissionserver.New(admissionserver.Options{Token: cfg.Admission.Token, Tenant: p.tenantOf, Log: p.log})
	server := newServer(h, p.log, cfg.Timeouts.ReadHeader)
	speakHTTP2(server)
	server.HTTP2.MaxConcurrentStreams = admissionStreams
	return &admissionSide{Listener: connections.New(l, admissionConnections), Server: server}, nil
}

// tenantOf finds the tenant of a key that has not expired.
func (p *parts) tenantOf(key string) (name string, ok bool) {
	t, k, ok := p.gateway.Snapshot().Lookup(key)
	if !ok || k.Expired(time.Now()) {
		return "", false
	}
	return t.Name, true
}

// close closes the server and all of its connections. Before it serves, it closes the listener alone.
func (a *admissionSide) close() {
	if a == nil {
		return
	}
	_ = a.Server.Close() // first, so that Serve knows why its listener is closed
	_ = a.Listener.Close()
}

// address is the part of the greeting that names the listener.
func (a *admissionSide) address() string {
	if a == nil {
		return ""
	}
	return ", admission on " + url(a.Listener.Addr())
}

// bounded bounds the connections of tenants.
func (p *parts) bounded(l net.Listener, cfg *tenants.Config) net.Listener {
	all := int(cfg.MaxConnections)
	b := connections.New(l, connections.Limits{All: all, Strangers: min(all, mostStrangers), Grace: graceOfStrangers})
	p.Metrics.WatchConnections(func() (open, strangers int, closed int64) {
		s := b.Stats()
		return s.Open, s.Strangers, s.Closed
	})
	return b
}

func listen(addr, flag string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("llmgov: cannot listen on %s: %w. Choose another address with %s", addr, err, flag)
	}
	return l, nil
}

func ignoreClosed(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// url is the URL of an address on this machine.
func url(a net.Addr) string {
	host, port, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return "http://" + net.JoinHostPort(host, port)
}
