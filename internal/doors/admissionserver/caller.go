package admissionserver

import (
	"context"
	"net/http"

	"github.com/llmgov/llmgov/internal/lib/bearer"
	"github.com/llmgov/llmgov/internal/lib/connections"
	"github.com/llmgov/llmgov/internal/lib/text"
)

// Caller is whoever sent a request. Without a Key it is trusted to name any tenant.
type Caller struct {
	Key    string // of a tenant
	Tenant string // whose Key that is
}

// Trusted reports whether the caller may name any tenant.
func (c Caller) Trusted() bool { return c.Key == "" }

type callerKey struct{}

// CallerOf is the caller of a request, by its context.
func CallerOf(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	return c
}

// fault is the reason why a request is refused before any service sees it.
type fault struct {
	status int
	text   string
}

// known counts the connection of a request for its caller.
func known(ctx context.Context, who Caller) *fault {
	if connections.Known(ctx, who.Tenant) {
		return nil
	}
	return &fault{http.StatusServiceUnavailable, "tenant " + who.Tenant + " has its part of this listener's connections, and none of them is idle; use these, or come back later"}
}

// request is what tells who sent it, by whatever protocol.
type request struct{ credential, host, path string }

// caller finds out who sent a request. It asks for the address only to log it.
func (s *Server) caller(r request, remote func() string) (Caller, *fault) {
	credential := r.credential
	token := s.token.Load()
	switch {
	case token.Is(credential):
		return Caller{}, nil
	case token.None() && !bearer.Local(r.host):
		return Caller{}, &fault{http.StatusForbidden, "without an admission.token, call this listener as localhost or by its loopback address"}
	case token.None() && credential == "":
		return Caller{}, nil
	}
	tenant, ok := s.tenant(credential)
	if ok {
		return Caller{Key: credential, Tenant: tenant}, nil
	}
	if unlogged, ok := s.wrong.Pass(s.now()); ok {
		s.log.Warn("admission token or key missing or wrong", "remote", remote(), "path", text.Brief(r.path), "unlogged", unlogged)
	}
	return Caller{}, &fault{http.StatusUnauthorized, "present admission.token, or the key of a tenant, as a bearer token"}
}
