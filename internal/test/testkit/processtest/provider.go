package processtest

import (
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/lab/mock"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// Provider is a simulated model server in the process of the test. It can die, and goes on counting when it comes back.
type Provider struct {
	*mock.Server
	URL string // http://host:port/v1

	t       testing.TB
	addr    string
	serving *http.Server
}

// NewProvider starts a model server, until t ends.
func NewProvider(t testing.TB, config mock.Config) *Provider {
	t.Helper()
	counts, err := mock.New(config)
	if err != nil {
		t.Fatal(err)
	}
	p := &Provider{Server: counts, t: t}
	listener := p.reserve()
	p.URL = "http://" + p.addr + "/v1"
	p.serve(listener)
	t.Cleanup(p.Kill)
	return p
}

// reserve finds a port that is the provider's until the test ends. A program of another kind may take a port that seems free.
func (p *Provider) reserve() net.Listener {
	p.t.Helper()
	for range 100 {
		p.addr = fmt.Sprint("127.0.0.1:", testkit.Port(p.t))
		if listener, err := net.Listen("tcp", p.addr); err == nil {
			return listener
		}
	}
	p.t.Fatal("no port is free")
	return nil
}

// Kill cuts all connections.
func (p *Provider) Kill() { _ = p.serving.Close() }

// Restart lets it listen again at the same address.
func (p *Provider) Restart() {
	p.t.Helper()
	listener, err := net.Listen("tcp", p.addr)
	if err != nil {
		p.t.Fatal(err)
	}
	p.serve(listener)
}

func (p *Provider) serve(listener net.Listener) {
	server := &http.Server{Handler: p.Server, ReadHeaderTimeout: time.Minute}
	p.serving = server
	go func() { _ = server.Serve(listener) }()
}
