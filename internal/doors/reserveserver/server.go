package reserveserver

import (
	"net/http"
	"strings"

	"github.com/llmgov/llmgov/governor/client"
	"github.com/llmgov/llmgov/governor/remote/admissionv1"
	"github.com/llmgov/llmgov/internal/doors/admissionserver"
	"github.com/llmgov/llmgov/internal/doors/reserve"
)

// Register serves the reservations of a book at a listener.
func Register(at *admissionserver.Server, book *reserve.Book) {
	admissionv1.RegisterAdmissionServiceServer(at.ForTenants(), &grpcSide{book: book, node: at.Node})
	web := &httpSide{book: book}
	for pattern, handler := range web.routes() {
		at.HandleForTenants(pattern, handler)
	}
}

// forWhom sets whom a caller reserves for, and whose the reservation is. A caller with the key of a tenant may not name another one.
func forWhom(c admissionserver.Caller, ask *reserve.Ask) error {
	if c.Trusted() {
		return nil
	}
	call := &ask.Call
	if call.Tenant != "" && call.Tenant != c.Tenant || call.Key != "" && call.Key != c.Key {
		return &client.Refusal{
			Status: http.StatusForbidden, Code: "route_not_allowed", Param: "tenant", Header: http.Header{},
			Message: "A tenant's key reserves for that tenant alone. To name others, present the admission.token.",
		}
	}
	call.Tenant = ""
	call.Key = c.Key
	ask.Owner = c.Tenant
	ask.Told = true
	return nil
}

// headersOf are headers as maps have them: one value each, by names in lower case.
func headersOf(h http.Header) map[string]string {
	m := make(map[string]string, len(h))
	for name, values := range h {
		m[strings.ToLower(name)] = values[0]
	}
	return m
}

// standing are the headers that show where the tenant of a reservation stands.
func standing(g *reserve.Grant) map[string]string {
	h := http.Header{}
	g.Lease.Show(h)
	return headersOf(h)
}
