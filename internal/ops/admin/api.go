package admin

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/llmgov/llmgov/federation/spend"
	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/ops/adminapi"
	"github.com/llmgov/llmgov/internal/ops/events"
	"github.com/llmgov/llmgov/internal/ops/history"
	"github.com/llmgov/llmgov/tenants"
	"github.com/llmgov/llmgov/tenants/keyfile"
)

// Gateway is the data side, as far as the admin side needs it. All methods may be called at any
// time, also while a policy is being taken over.
type Gateway interface {
	// Snapshot is the policy in force.
	Snapshot() *tenants.Snapshot
	// Leaving reports whether calls should be sent to another process, because this one is about to stop.
	Leaving() bool
	// Rekey puts the content of a key file in force.
	Rekey(file *keyfile.File) error
	// LastUsed returns when a key was last used by this process; ok is false if it was not.
	LastUsed(key tenants.KeyHash) (at time.Time, ok bool)

	// Groups returns the user of a token of an identity provider, its issuer and the user's groups. The user is "" if it is not a valid one.
	Groups(token string) (user, issuer string, groups []string)

	// Pool describes a pool as far as the governor does not know it: its models, upstreams and
	// failures. ok is false if there is no such pool.
	Pool(name string, now time.Time) (p adminapi.Pool, ok bool)
	// Counts returns how many calls of a tenant to a pool were refused and how many failed.
	Counts(tenant, pool string) (refused, failed int64)
	// ShadowRefused returns how many calls of a tenant went although its limits would have refused
	// them.
	ShadowRefused(tenant string) int64

	// Explain returns the limits that a call would meet now, and ExplainRefusal the reason why a call
	// was refused; the tenant may be empty. Errors may be *adminapi.Fault.
	Explain(q *adminapi.Question) (*adminapi.Explanation, error)
	ExplainRefusal(request, tenant string) (*adminapi.Explanation, error)
	// Refusal is the answer for a refusal.
	Refusal(tenant string, rej *governor.Refusal) *adminapi.Refusal

	// Live answers GET /livez.
	Live(w http.ResponseWriter, r *http.Request)
}

// Options are the parts of an API.
type Options struct {
	Governor *governor.Governor
	Log      *slog.Logger
	// Metrics answers GET /metrics.
	Metrics http.Handler
	// Events has what the Governor reports, for readers who follow it; nil if nobody does.
	Events *events.Ring

	// Token guards everything except /livez, /readyz and the console's page; the policy may name further ones that may do less. Without
	// one, requests must be addressed to localhost or a loopback address, which suits only a loopback listener.
	Token string
	// Version, Node and Region are shown as they are.
	Version, Node, Region string
	// Drain begins a graceful shutdown.
	Drain func()
	// Ready returns why no calls can be admitted, if so; nil means that they always can.
	Ready func() error
	// StoreUp reports whether the store that is shared with other gateways answers; there is false without one.
	StoreUp func() (up, there bool)
	// Policies follows the policy files; nil if there are none.
	Policies Policies
	// Overrides are laid over the limits of the policy; nil if nobody keeps them.
	Overrides Overrides
	// Sharing returns the state of a pool's sharing with other gateways, from memory, or nil if it
	// is not shared.
	Sharing func(pool string) *adminapi.Sharing
	// Unreadable are the accounts of limits that the store cannot read; it may be nil.
	Unreadable func() []adminapi.Unreadable
	// Conditions returns more of what is wrong than the state shows; it may be nil.
	Conditions func(now time.Time) []adminapi.Condition
	// Spend calls each with what calls have taken on some days, both included, and says whether the calls of all gateways are counted. It may be nil.
	Spend func(ctx context.Context, from, to string, each func(spend.Row)) (all bool, err error)
	// PeerClient asks other gateways; nil is readiness.NewClient(nil).
	PeerClient *http.Client
	// Peers returns the other gateways with the same store; it may be nil.
	Peers func() []adminapi.Peer
	// Engine returns the load of an upstream's server, from memory, or nil if it is not read. It may be nil.
	Engine func(upstream string) *adminapi.Engine
	// Console answers below /console/; nil if there is none. It holds nothing but the page itself,
	// and needs no token.
	Console http.Handler
	// Caption is a sentence for all pages of the console, such as what a demo shows; nil and "" are none.
	Caption func() string
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
	keys    sync.Mutex    // one change of a key at a time, so that none is taken over before an older one
	reading chan struct{} // has room for one who reads spend, of which there may be much
}

// Policies follows the files, and puts their policy in force.
type Policies interface {
	// Reload reads the files now. The error is tenants.Problems, ErrNoFiles, or the reason why they
	// could not be read; then nothing has changed.
	Reload(ctx context.Context) (adminapi.Reloaded, error)
	// Status is the outcome of the last reading of the files.
	Status() adminapi.PolicyStatus
}

// ErrNoFiles is the error of a gateway that runs without files.
var ErrNoFiles = errors.New("llmgov was started without a config file, so there is nothing to reload; start it with -c FILE")
