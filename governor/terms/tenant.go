package terms

import (
	"slices"
	"strings"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/limits"
)

// Limits are a tenant's own; 0 is no limit. RPM, TPM, ITPM and OTPM are requests, tokens, input
// tokens and output tokens in a rolling minute, Concurrency is calls at once.
//
// Windows are further limits, in other windows and shapes: at most MaxLimits, no two of the same axis, time and shape.
type Limits struct {
	RPM, TPM, ITPM, OTPM, Concurrency int64

	Windows []Limit `json:",omitempty"`
}

// Tenant describes a caller. A limit of 0 is no limit.
//
// "acme/search" is a team of acme, which must be there too, and may have teams in turn. A team's
// share is carved out of acme's, and all limits and budgets of acme hold for the two together.
type Tenant struct {
	Name, Tier string
	// Weight is the tenant's claim in every pool, beside those of others: a tenant of weight 4 gets twice as much as one of 2. 0 is 1. For a
	// tenant in a Group it is that on the group's share.
	Weight escrow.Weight
	// Group, if not empty, makes all tenants that name it share GroupWeight, of which 0 is 1.
	Group       string
	GroupWeight escrow.Weight
	// Floor is how many tokens a minute the tenant gets of each pool before weights count.
	Floor int64
	// Credit is how much of its share, as time, a tenant that was quiet may catch up on.
	Credit time.Duration
	// Background makes all its calls go after interactive ones.
	Background bool
	// Below is how many bands its calls are below the highest, up to escrow.LowestBand. Those of a Background tenant are in the lowest.
	Below int
	// RPM, TPM, ITPM and OTPM are the tenant's own rolling minutes of requests,
	// tokens, input tokens and output tokens.
	RPM, TPM, ITPM, OTPM int64
	// Concurrency is how many of the tenant's calls may run at once.
	Concurrency int64
	// Windows are further limits of the tenant; see Limits.
	Windows []Limit
	// Budgets are the tenant's own, over all its calls.
	Budgets []Budget
	// InPool are further limits, on the tenant's calls to single pools, by the pool's name.
	InPool map[string]Limits
	// Members, unless nil, divides the calls in the tenant's own name among those who make them (MemberName).
	Members *Members `json:",omitempty"`
	// MaxWait is how long a call may wait in all before it is refused. 0 does not wait.
	MaxWait time.Duration
	// NoCalls says that no calls come in its own name: it is there for its teams.
	NoCalls bool
	// Barred says that whoever makes its calls lets none of them pass: those that wait for a limit are refused as unknown when it comes into force.
	Barred bool `json:",omitempty"`
	// Shadow admits its calls whatever the limits say. They are counted, and each lease tells
	// whether it would have been refused (Lease.Would).
	Shadow bool
	// Pools names the pools that the tenant may use; nil is all.
	Pools []string
}

// Amount implements Limited.
func (l *Limits) Amount(k Axis) *int64 {
	return limits.Pick(k, &l.RPM, &l.TPM, &l.ITPM, &l.OTPM, &l.Concurrency)
}

// Amount implements Limited.
func (t *Tenant) Amount(k Axis) *int64 {
	return limits.Pick(k, &t.RPM, &t.TPM, &t.ITPM, &t.OTPM, &t.Concurrency)
}

// Rules are the limits as a limits.Set has them.
func (l Limits) Rules() limits.Limits {
	return limits.Limits{Minute: Minute(&l), Windows: l.Windows, Concurrency: l.Concurrency}
}

// Bands is how many bands the tenant's calls are below the highest.
func (t *Tenant) Bands() int {
	if t.Background {
		return escrow.LowestBand
	}
	return t.Below
}

// Limits are the tenant's own, over all pools.
func (t *Tenant) Limits() Limits {
	l := Limits{Windows: t.Windows}
	Set(&l, t)
	return l
}

// MayUse reports whether the tenant may use a pool.
func (t *Tenant) MayUse(pool string) bool { return t.Pools == nil || slices.Contains(t.Pools, pool) }

// TeamOf is the name of the owner of a team; "" for a tenant.
func TeamOf(name string) string {
	i := strings.LastIndexByte(name, '/')
	return name[:max(0, i)]
}
