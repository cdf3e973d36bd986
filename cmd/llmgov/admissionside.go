package main

import (
	"context"
	"errors"
	"net"

	"github.com/llmgov/llmgov/internal/doors/admissionserver"
	"github.com/llmgov/llmgov/internal/doors/envoy/extproc"
	"github.com/llmgov/llmgov/internal/doors/envoy/ratelimit"
	"github.com/llmgov/llmgov/internal/doors/inprocess"
	"github.com/llmgov/llmgov/internal/doors/reserve"
	"github.com/llmgov/llmgov/internal/doors/reserveserver"
	"github.com/llmgov/llmgov/internal/lib/certs"
	"github.com/llmgov/llmgov/internal/lib/connections"
	"github.com/llmgov/llmgov/tenants"
)

// admissionConnections are the bounds of the listener for reservations. Its clients are few, and each of their
// connections has many calls. Tenants have half of them: the others are for those who hold the token.
var admissionConnections = connections.Limits{All: 1024, Tenants: 512, Strangers: 64, Grace: grace}

// mostAround is how much larger than a body the message is that brings it.
const mostAround = 64 << 10

// admissionSide is the server for gateways and programs that call models themselves, and its listener.
type admissionSide struct {
	net.Listener
	*admissionserver.Server
	over    *certs.Watched
	book    *reserve.Book
	proxies *extproc.Service
}

// newAdmissionSide listens, or returns nil if the config has no such listener.
func (p *parts) newAdmissionSide(cfg *tenants.Config) (*admissionSide, error) {
	if cfg.Admission.Listen == "" {
		return nil, nil
	}
	// Clients of gRPC know no HTTP/1.1, which the others are to speak.
	over, err := p.certificate("admission.tls", cfg.Admission.TLS, "http/1.1", "h2")
	if err != nil {
		return nil, err
	}
	l, err := listen(cfg.Admission.Listen, "admission.listen")
	if err != nil {
		return nil, err
	}
	h := admissionserver.New(admissionserver.Options{Token: cfg.Admission.Token, Tenant: p.Admission.TenantOf, MostMessage: int(cfg.MaxBody) + mostAround, Node: p.Node, Log: p.log})
	book := reserve.New(reserve.Options{Door: inprocess.New(p.Admission), Tenant: p.Admission.TenantOf, Most: int(cfg.Admission.MostOpen), Idle: cfg.Timeouts.StreamIdle})
	reserveserver.Register(h, book)
	from, _ := extproc.ParseSource(cfg.Admission.Tenant) // which the config has checked
	proxies := extproc.New(extproc.Options{Admission: p.Admission, Tenant: from, MostCalls: cfg.Admission.MostOpen, Events: p.Events, Log: p.log})
	proxies.Register(h)
	names, _ := ratelimit.ParseNames(cfg.Admission.Descriptors) // which the config has checked
	ratelimit.New(ratelimit.Options{Names: names, Book: book, Admission: p.Admission}).Register(h)
	return &admissionSide{Listener: over.Listener(connections.New(l, admissionConnections)), over: over, Server: h, book: book, proxies: proxies}, nil
}

// drain waits until all reservations, and the calls of proxies, have ended, or ctx has.
func (a *admissionSide) drain(ctx context.Context) error {
	if a == nil {
		return nil
	}
	return errors.Join(a.book.Drain(ctx), a.proxies.Drain(ctx))
}

// cut ends the reservations and the calls of proxies that are left.
func (a *admissionSide) cut(cause error) {
	if a != nil {
		a.Cut(cause)
		a.book.Close()
	}
}

// close closes the server and all of its connections. Before it serves, it closes the listener alone.
func (a *admissionSide) close() {
	if a == nil {
		return
	}
	a.Server.Close()
	_ = a.Listener.Close()
}

// address is the part of the greeting that names the listener.
func (a *admissionSide) address() string {
	if a == nil {
		return ""
	}
	return ", admission on " + url(a.Listener, a.over)
}
