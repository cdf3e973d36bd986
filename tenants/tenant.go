package tenants

import (
	"slices"
	"strings"
	"time"

	"github.com/llmgov/llmgov/governor/terms"
	"github.com/llmgov/llmgov/internal/lib/strictyaml"
	"github.com/llmgov/llmgov/tenants/keyfile"
)

// Tenant is one customer of the gateway, with its tier's template already laid under it, or a team of one. In a
// [Snapshot] it is read-only. When making one in code, give it Name and Keys; one whose callers have no keys is easier made as an
// embedded.Tenant.
type Tenant struct {
	// Name is that of the tenant; of a team it is the path to it: "acme/search". It is unique.
	Name string
	// Parent is, of a team, the place of the tenant or team that it belongs to in [Snapshot.Tenants]; else -1. It
	// follows from the name. All limits of its parents apply to a team too, while those here are its own.
	Parent int
	// Tier is the name of its tier, and of a team that names none that of its parent's; empty for none.
	Tier string
	// Index is the tenant's place in [Snapshot.Tenants].
	Index int
	// Keys are its API keys. No two tenants share one.
	Keys []Key
	// Models are the names and globs it may use. nil becomes "*", every model, and in a team its parent's.
	Models []string
	// Bounds are the Models of its parents, if they are narrower than all: the models that it may use are in each of them too.
	// They follow from its place.
	Bounds [][]string
	// DefaultPool serves its routes that name no model. Left empty it becomes the config's.
	DefaultPool string
	// Weight is its part of a contended pool or, in a group, of the group's part, beside those of others: 0.001 to 1,000,000, in whole
	// thousandths. 0 becomes 1.
	Weight float64
	// Group is the name of its tier where the tier is a group, whose tenants have one part of a pool together. Empty
	// for none.
	Group string
	// GroupWeight is the group's part of a contended pool, the same in all its tenants; 0 becomes 1. It is 0 without a group.
	GroupWeight float64
	// Background says that its calls go after interactive ones.
	Background bool
	// Below is how many bands its calls are below the highest, 0 to 9, in a pool with a HoldBackPPM: those of priority 0 are 9 below.
	// Background calls are in the lowest.
	Below int64
	// PriorityBy lowers the priority of single calls by a header of theirs. nil does not.
	PriorityBy *PriorityBy `json:",omitempty"`
	// FloorTPM is the least that it gets, whatever its weight, of each pool that it may use and that has a TPM: tokens
	// a minute. 0 is no floor. A pool's floors fit into its limit.
	FloorTPM int64
	// Credit is how much of its unused share it may take later, as the time in which that share would have flowed.
	Credit time.Duration
	// Limits are its own over all pools.
	terms.Limits
	// MaxWait is how long a call may wait before it is refused. 0 refuses at once, also what could go 10 ms later: some seconds suit most.
	MaxWait time.Duration
	// MaxOutputTokens cuts the output a call may ask for. 0 is no limit.
	MaxOutputTokens int64
	// Budgets are its own limits over calendar windows.
	Budgets []Budget
	// Members, unless nil, divides calls with its own keys and tokens among those who make them.
	Members *Members `json:",omitempty"`
	// Spent is the status of refusals for a spent budget: 429, which 0 is too, or 402.
	Spent int64 `json:",omitempty"`
	// Pools are its limits in single pools, beside those over all; sorted by pool, each there once.
	Pools []PoolLimits
	// Routes are the groups of routes that it may call. None becomes [DefaultRoutes].
	Routes Routes
	// Upstreams are those to which its calls may go, where a pool has several; in a team they are among its parent's. nil
	// becomes all.
	Upstreams []string `json:",omitempty"`
	// ServiceTiers are the providers' tiers of service, such as flex, for which its calls may ask beside the usual one. nil becomes all.
	ServiceTiers []string `json:",omitempty"`
	// LowerTiers makes calls that ask for others ask for the usual one instead, and refuses none.
	LowerTiers bool `json:",omitempty"`
	// Shadow says that its limits are watched and not enforced.
	Shadow bool
	// Blocked is the override, its own or a parent's, because of which none of its calls passes, or stands for what is set aside in its place. A Snapshot sets it.
	Blocked *Override `json:"-"`
	// Source is where it is defined, file:line:col; empty when made in code.
	Source string `json:"-"`
	// OwnTier says of a team that it starts from its tier, and not from its parent. It follows from files.
	OwnTier bool `json:"-"`
	// Order is its place as files have it, and as the list does of which a Snapshot is made.
	Order int `json:"-"`
}

// Before reports whether the policy has t before another one: in its files as they are written, and by the names of files.
func (t *Tenant) Before(o *Tenant) bool { return t.Order < o.Order }

// PoolLimits are a tenant's limits in one pool.
type PoolLimits struct {
	Pool string
	terms.Limits
}

// Key is an API key, by its Hash: of a policy file, or made at run time. It may have a Name, and a time at which it Expires.
type Key = keyfile.Key

// KeyHash is the SHA-256 of an API key as a client sends it.
type KeyHash = keyfile.Hash

// HashKey is the hash of a key.
func HashKey(key string) KeyHash { return keyfile.HashKey(key) }

// teamSep stands between the names that lead to a team: "acme/search".
const teamSep = "/"

// rootOf is the tenant of a name, which may be a team's.
func rootOf(name string) string {
	root, _, _ := strings.Cut(name, teamSep)
	return root
}

// path is where files define t.
func (t *Tenant) path() string {
	if t.Parent < 0 {
		return strictyaml.Child("tenants", t.Name)
	}
	return strictyaml.Child("tenants", strings.ReplaceAll(t.Name, teamSep, strictyaml.PathSep+"teams"+strictyaml.PathSep))
}

// The bounds of a policy's values.
const (
	defaultWeight = 1.0
	minWeight     = 0.001
	maxWeight     = 1_000_000
	maxMaxWait    = time.Hour
	maxCredit     = time.Minute
)

// draft is a tier or a tenant while it is read, with values that a Tenant does not keep, because they follow from its tier.
type draft struct {
	Tenant
	group        bool    // as a tier: its tenants are one node
	groupRefused bool    // what it says of that was refused
	tenantWeight float64 // the weight inside of the group
	teams        []pair  // yet to be read
	keyLimits    map[string]MemberLimits
	given        *given
}

// given are the parts of the config that the reading of policies needs.
type given struct {
	zone   *time.Location // in which days end
	pools  []string       // the names of all pools; empty when they are not known
	config sum            // the digest of all of it
}

func newDraft(of *given) draft {
	return draft{Tenant: Tenant{Weight: defaultWeight}, tenantWeight: defaultWeight, given: of}
}

// tenant is the finished draft: in a group, the draft's weight is the group's.
func (d *draft) tenant() Tenant {
	if d.group {
		d.Group = d.Tier
		d.GroupWeight = d.Weight
		d.Weight = d.tenantWeight
	}
	return d.Tenant
}

// inPool is the tenant's entry for a pool, made where there is none.
func (t *Tenant) inPool(name string) *PoolLimits {
	at := slices.IndexFunc(t.Pools, func(l PoolLimits) bool { return l.Pool == name })
	if at < 0 {
		at = len(t.Pools)
		t.Pools = append(t.Pools, PoolLimits{Pool: name})
	}
	return &t.Pools[at]
}

// team is the draft from which a team of d starts. Its other values from its parent are found in the end, when that is known
// (inherit); of these, nothing would tell that they were said.
func (d *draft) team() draft {
	t := newDraft(d.given)
	t.Tier = d.Tier
	t.MaxWait = d.MaxWait
	t.Background = d.Background
	t.Below = d.Below
	t.PriorityBy = d.PriorityBy
	t.Credit = d.Credit
	t.Spent = d.Spent
	return t
}
