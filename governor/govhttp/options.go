package govhttp

import (
	"context"
	"net/http"

	"github.com/llmgov/llmgov/internal/lib/bearer"
)

// Options say how calls are governed.
type Options struct {
	// Caller says whose call a request is. nil is the context's ([WithTenant]) for requests that the program sends, and
	// [ByKey] for those that it serves. Middleware refuses a request whose Caller is empty without reading its body,
	// and one with a wrong key if the Client's governor is in this process.
	Caller func(*http.Request) Caller
	// Answer makes refusals answers instead of errors. An SDK then goes by their Retry-After itself, and sleeps for up to a minute inside
	// the call, unless it is told not to retry or the call's context ends. Middleware answers in any case.
	Answer bool
	// Unknown, if set, is told of each request that is none of the routes which are governed, and passes. If it returns an error, the
	// request fails with that instead, and is not sent; Middleware answers it with 404.
	Unknown func(*http.Request) error
	// MaxBody is the largest body that is read, in bytes. 0 is 32 MiB.
	MaxBody int64
}

const defaultMaxBody = 32 << 20

// Caller is whose call it is: by a key of the policy, or by the name of a tenant; and which Member of its makes it, if the headers do not say.
type Caller struct{ Key, Tenant, Member string }

type tenantKey struct{}

// WithTenant returns a context for the calls of a tenant.
func WithTenant(ctx context.Context, tenant string) context.Context {
	return context.WithValue(ctx, tenantKey{}, tenant)
}

// FromContext takes the tenant from the request's context.
func FromContext(r *http.Request) Caller {
	tenant, _ := r.Context().Value(tenantKey{}).(string)
	return Caller{Tenant: tenant}
}

// Tenant has all calls made by one tenant.
func Tenant(name string) func(*http.Request) Caller {
	return func(*http.Request) Caller { return Caller{Tenant: name} }
}

// ByKey takes the key from the headers that SDKs use: "Authorization: Bearer", x-api-key, api-key.
func ByKey(r *http.Request) Caller { return Caller{Key: bearer.Credential(r.Header)} }
