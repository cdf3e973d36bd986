package adminapi

import (
	"time"

	"github.com/llmgov/llmgov/tenants"
)

// Explanation says which limits a call would meet or has met, and the decision with its reason.
type Explanation struct {
	// Request and At are set for a call that came: its id, and when it was decided. Waited is how
	// long it had waited by then.
	Request string     `json:"request,omitempty"`
	At      *time.Time `json:"at,omitempty"`
	Waited  float64    `json:"waited_seconds,omitempty"`

	Tenant string `json:"tenant"`
	// Member is who of the tenant's members calls, by the name under which it is counted.
	Member string `json:"member,omitempty"`
	Tier   string `json:"tier"`
	Pool   string `json:"pool"`
	Model  string `json:"model"`
	// Upstream is its destination, and UpstreamModel the name of the model there.
	Upstream      string `json:"upstream"`
	UpstreamModel string `json:"upstream_model"`
	// Tokens is Input and Output together.
	Tokens     int64   `json:"tokens"`
	Input      int64   `json:"input"`
	Output     int64   `json:"output"`
	Priority   string  `json:"priority"`
	MaxWait    float64 `json:"max_wait_seconds"`
	Shadow     bool    `json:"shadow"`
	PolicyHash string  `json:"policy_hash"`
	// TenantLimits is how the tenant's own limits are kept together with other gateways that
	// share a store: leased, cached_deny or strict.
	TenantLimits string `json:"tenant_limits"`
	// Limits are all that apply, the strictest first.
	Limits []ExplainedLimit `json:"limits"`
	// Upstreams are those of its pool, if they have limits of their own, in the order in which they are tried: by their
	// order, then as in the config.
	Upstreams []ExplainedUpstream `json:"upstreams,omitempty"`
	// Foreign is what others use of upstreams of its pool with the same key; left out while they use little.
	Foreign []ForeignUse `json:"foreign,omitempty"`
	// Overrides are those of the tenant and its parents that are in force.
	Overrides []tenants.Override `json:"overrides,omitempty"`
	// Decision is the decision if it came now; nil if only the files were asked.
	Decision *Decision `json:"decision,omitempty"`
	// WithoutShadow is the decision if the tenant's limits were enforced; nil if they are.
	WithoutShadow *Decision `json:"without_shadow,omitempty"`
	// Node is the gateway that explains the call; of one that was refused, the gateway that did.
	Node string `json:"node,omitempty"`
}

// ForeignUse is how much of a limit that an upstream declares was used by others in the last minute. Key is the limit's name in the files.
type ForeignUse struct {
	Upstream string `json:"upstream"`
	Key      string `json:"key"`
	Limit    int64  `json:"limit"`
	Used     int64  `json:"used"`
}

// ExplainedLimit is one limit as a call would meet it. Money is in dollars.
type ExplainedLimit struct {
	// Of says whose limit it is: a tenant's, a team's or, if Kind is pool or Pool is set for a
	// budget, the pool's. Kind is limit, budget or pool.
	Of   string `json:"of"`
	Kind string `json:"kind"`
	// Pool is set for a limit in one pool only.
	Pool string `json:"pool,omitempty"`
	// Axis is the quantity that it limits, and Key its name in the files.
	Axis  string   `json:"axis"`
	Key   string   `json:"key"`
	Limit float64  `json:"limit"`
	Used  *float64 `json:"used,omitempty"`
	Asked float64  `json:"asked"`
	Left  *float64 `json:"left,omitempty"`
	// Wait is how long it takes until there is room, as far as can be known.
	Wait *float64 `json:"wait_seconds,omitempty"`
	// Most is the bound of an adaptive limit, whose present value is Limit.
	Most float64 `json:"most,omitempty"`
	// Room is how many calls in flight the upstreams' servers have room for, by their own metrics: an adaptive limit rises no
	// further. 0 if they do not say.
	Room float64 `json:"room,omitempty"`
	// From is file:line:col; "" for a default, and for a limit that no file has.
	From string `json:"from"`
}

// ExplainedUpstream is whether an upstream can be chosen for a call, and if not, why.
type ExplainedUpstream struct {
	Name  string `json:"name"`
	Order int64  `json:"order"`
	State string `json:"state"`
	// Key is the limit that has no room for the call, and Limit, Used and Asked are its figures.
	Key   string  `json:"key,omitempty"`
	Limit float64 `json:"limit,omitempty"`
	Used  float64 `json:"used,omitempty"`
	Asked float64 `json:"asked,omitempty"`
	// Wait is how long it takes until it can be chosen, as far as can be known.
	Wait float64 `json:"wait_seconds,omitempty"`
}

// The states of an upstream in an explanation.
const (
	UpstreamRoom       = "room"
	UpstreamNotAllowed = "not_allowed"
	UpstreamTooSmall   = "too_small"
	UpstreamPerTenant  = "per_tenant"
	UpstreamClosed     = "closed"
	UpstreamFull       = "full"
)

// The kinds of limits in an explanation.
const (
	KindLimit  = "limit"
	KindBudget = "budget"
	KindPool   = "pool"
)

// Decision is the outcome for a call. Status, Code, Type and Message are those of the refusal
// that it would get.
type Decision struct {
	Outcome    string  `json:"outcome"` // admit, wait or refuse
	Wait       float64 `json:"wait_seconds"`
	Status     int     `json:"status"`
	Code       string  `json:"code"`
	Type       string  `json:"type"`
	Message    string  `json:"message"`
	RetryAfter float64 `json:"retry_after_seconds"`
	// Upstream is where an admitted call goes, in a pool whose upstreams have limits of their own.
	Upstream string `json:"upstream,omitempty"`
	// Limit is the index of the limit that decides; null if none does.
	Limit *int `json:"limit"`
}

// The outcomes of a decision.
const (
	OutcomeAdmit  = "admit"
	OutcomeWait   = "wait"
	OutcomeRefuse = "refuse"
)
