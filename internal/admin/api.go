package admin

import (
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/adminapi"
	"github.com/llmgov/llmgov/internal/events"
	"github.com/llmgov/llmgov/internal/history"
	"github.com/llmgov/llmgov/tenants"
	"github.com/llmgov/llmgov/tenants/keyfile"
)

// Gateway is the data side, as far as the admin side needs it. All methods may be called at any
// time, also while a policy is being taken over.
type Gateway interface {
	// Snapshot is the policy in force.
	Snapshot() *tenants.Snapshot
	// Rekey puts the content of a key file in force.
	Rekey(file *keyfile.File) error
	// LastUsed returns when a key was last used by this process; ok is false if it was not.
	LastUsed(key tenants.KeyHash) (at time.Time, ok bool)

	// Pool describes a pool as far as the governor does not know it: its models, upstreams and
	// failures. ok is false if there is no such pool.
	Pool(name string, now time.Time) (p adminapi.Pool, ok bool)
	// Counts returns how many calls of a tenant to a pool were refused and how many failed.
	Counts(tenant, pool string) (refused, failed int64)
	// ShadowRefused returns how many calls of a tenant went although its limits would have refused
	// them.
	ShadowRefused(tenant string) int64

	// Explain says what a call would meet now, and ExplainRefusal why a call was refused; the
	// tenant may be empty. Errors may be *adminapi.Fault.
	Explain(q *adminapi.Question) (*adminapi.Explanation, error)
	ExplainRefusal(request, tenant string) (*adminapi.Explanation, error)
	// Refusal is the answer for a rejection.
	Refusal(rej *governor.Rejection) *adminapi.Refusal

	// Live answers GET /livez.
	Live(w http.ResponseWriter, r *http.Request)
	// Guard lets a panic in the governor end the process.
	Guard(next http.Handler) http.Handler
	// Credential is the key or token in a request's headers.
	Credential(h http.Header) string
}

// Options are the parts of an API.
type Options struct {
	Governor *governor.Governor
	Log      *slog.Logger
	// Metrics answers GET /metrics.
	Metrics http.Handler
	// Events has what the Governor reports, for readers who follow it; nil if nobody does.
	Events *events.Ring

	// Token guards everything but /livez, /readyz and the console's page. Without one, requests
	// must be addressed to this machine by a name of its own, which is fit for a loopback listener
	// only.
	Token string
	// Version, Node and Region are shown as they are.
	Version, Node, Region string
	// Drain begins a graceful shutdown.
	Drain func()
	// Ready returns why no calls can be admitted, if so; nil means that they always can.
	Ready func() error
	// Policies follows the policy files; nil if there are none.
	Policies Policies
	// Sharing tells how a pool's limits are shared with other gateways, from memory. It returns nil
	// if they are not.
	Sharing func(pool string) *adminapi.Sharing
	// Console answers below /console/; nil if there is none. It holds nothing but the page itself,
	// and needs no token.
	Console http.Handler
	// Closing ends the streams of events when it is closed; nil never does.
	Closing <-chan struct{}
}

// API is the handler of the admin listener.
type API struct {
	http.Handler
	Options
	gateway Gateway
	history *history.Recorder
	zone    *time.Location
	started time.Time
	keys    sync.Mutex // one change of a key at a time, so that none is taken over before an older one
}

// New returns the admin side of a gateway, which began now.
func New(gateway Gateway, opt Options) *API {
	a := &API{Options: opt, gateway: gateway, zone: gateway.Snapshot().Location(), started: time.Now()}
	a.history = history.NewRecorder(a.readings)
	a.Handler = a.routes()
	return a
}
