package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/llmgov/llmgov/internal/lib/certs"
	"github.com/llmgov/llmgov/internal/lib/connections"
	"github.com/llmgov/llmgov/internal/proxy/gateway"
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

// speakHTTP2 lets clients speak HTTP/2, over TLS by its handshake and without TLS by prior knowledge. Its bounds keep small how much one
// connection can hold.
func speakHTTP2(s *http.Server, plain bool) {
	s.Protocols.SetHTTP2(true)
	s.Protocols.SetUnencryptedHTTP2(plain)
	s.HTTP2 = &http.HTTP2Config{
		MaxConcurrentStreams:          100,
		MaxReceiveBufferPerStream:     64 << 10,
		MaxReceiveBufferPerConnection: 256 << 10,
	}
}

// withHealth answers GET /healthz on the data listener, for load balancers that can only ask there. It does not say why
// the gateway is not ready: clients see this listener, and reasons are for operators.
func withHealth(next http.Handler, unready func() error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path != "/healthz" || r.Method != http.MethodGet && r.Method != http.MethodHead:
			next.ServeHTTP(w, r)
		case unready() != nil:
			http.Error(w, "not ready", http.StatusServiceUnavailable)
		default:
			_, _ = w.Write([]byte("ok\n"))
		}
	})
}

// Strangers are clients without a valid key or token.
const (
	mostStrangers = 512
	grace         = time.Second
)

// adminConnections are the bounds of the admin listener.
var adminConnections = connections.Limits{All: 512, Strangers: 64, Grace: grace}

// bounded bounds the connections of tenants.
func (p *parts) bounded(l net.Listener, cfg *tenants.Config) net.Listener {
	all := int(cfg.MaxConnections)
	b := connections.New(l, connections.Limits{All: all, Tenants: all - all/8, Strangers: min(all, mostStrangers), Grace: grace})
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

// certificate reads the TLS of a listener, by its key in the config; nil is without. protocols are those of ALPN, the best first.
func (p *parts) certificate(key string, files tenants.TLS, protocols ...string) (*certs.Watched, error) {
	if files.Cert == "" {
		return nil, nil
	}
	watched, err := certs.Watch(certs.Files(files), protocols, func(err error) {
		p.log.Error("changed files of a certificate cannot be used; the one before stays in force", "listener", key, "error", err)
	})
	if err != nil {
		return nil, fmt.Errorf("llmgov: %s: %w", key, err)
	}
	p.Metrics.WatchCertificate(key, watched.Expires)
	return watched, nil
}

func ignoreClosed(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// url is the URL of a listener on this machine.
func url(l net.Listener, over *certs.Watched) string {
	a := l.Addr()
	host, port, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	if over != nil {
		return "https://" + net.JoinHostPort(host, port)
	}
	return "http://" + net.JoinHostPort(host, port)
}
