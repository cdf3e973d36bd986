package governor

import (
	"slices"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/adaptive"
	"github.com/llmgov/llmgov/escrow/limits"
	"github.com/llmgov/llmgov/escrow/placement"
)

// Config is all that a Governor needs to know.
type Config struct {
	Pools   []Pool
	Tenants []Tenant
	// Zone is where the periods of budgets begin; nil is UTC.
	Zone *time.Location
	// Clock defaults to SystemClock.
	Clock Clock
	// Journal keeps what must outlive the process; nil keeps nothing.
	Journal Journal
	// Past is the memory of earlier processes; nil is none.
	Past *Past
	// Fresh says that nothing was used of the pools in the last minute but what is in Past. Pools begin with their Burst then, or if the Past is that of
	// a process that has admitted calls, and else with one second of their rate, because an earlier process may have used the minute.
	Fresh bool
	// Shared says that the rolling minutes of all pools are shared with other processes. A pool then admits
	// calls as far as somebody who knows of all processes allows; see SharedPools. The usage of a
	// pool is known there, and not taken from Past.
	Shared bool
	// SharedLimits says that the tenants' own limits and budgets are kept together with other
	// processes. This process then counts up to its grant of each; see Governor.SharedLimits. What
	// was used of them is known there, and not taken from Past.
	SharedLimits bool
	// SharedSlots says that Concurrency and Budgets of all pools are divided over the processes
	// that share their limits; see Governor.SharedSlots. It needs Shared.
	SharedSlots bool
	// Observer is told what happens; nil means that nobody listens.
	Observer Observer
	// Recorded makes all decisions a function of what the Observer is told: another governor that
	// is told the same at the same times (see Ask) decides the same. Decisions are then made one
	// after the other over all pools, each in an instant of its own, after which the Observer
	// is called. It excludes Shared, SharedLimits and SharedSlots.
	Recorded bool
	// Detailed has the Observer told of the events from EventStarted on, too, as Recorded does,
	// but makes nothing of it: calls are decided as they would be. Who tells another governor
	// the same has nearly the same decisions.
	Detailed bool
	// Revision names the configuration to the Observer.
	Revision string
}

// Pool describes one shared upstream capacity. A limit of 0 means no limit.
type Pool struct {
	Name string
	// TPM, RPM, ITPM and OTPM are tokens, requests, input tokens and output tokens in a rolling minute; Concurrency is how many
	// calls may run at once.
	TPM, RPM, ITPM, OTPM, Concurrency int64
	// InteractiveReserve is how many of Concurrency's slots background calls leave free.
	InteractiveReserve int64
	// SoftCapPPM is how many of the slots one tenant, with its teams, may have once half of them are in use, in millionths; 0 is
	// no such cap.
	SoftCapPPM int64
	// HoldBackPPM is how many of the slots calls of the lowest band leave free (Tenant.Below), in millionths.
	HoldBackPPM int64
	// Adaptive says how to find out how many calls the upstream can take at once, between
	// MinConcurrency, where it begins, and Concurrency. The zero value stays at Concurrency.
	Adaptive       adaptive.Law
	MinConcurrency int64
	// PerTenant lets a tenant whose calls the upstream fails run fewer of them at once for a time (Lease.Failed). It needs Concurrency.
	PerTenant bool
	// HeadroomPPM is the part of rolling minutes left unused, in millionths, in whole units: 1 % of ten requests is none.
	HeadroomPPM int64
	// Accounting is how the provider counts.
	Accounting escrow.Accounting
	// Burst is how much unused rate an idle pool may hand out at once, as time. In a pool that only
	// one tenant may use it is the whole minute, since there is nobody to be unfair to.
	Burst time.Duration
	// MaxQueue bounds how many calls may wait for the pool, and, separately, how many may wait for
	// each tenant's own limits. 0 lets none wait, whatever their MaxWait.
	MaxQueue int
	// TicketWait is how long a call that was refused, and comes back when told to, may queue if its
	// tenant's MaxWait is zero. 0 keeps no places.
	TicketWait time.Duration
	// Weights turn kinds of tokens into cost; the zero value counts each as one.
	Weights TokenWeights
	// Budgets are shared by the pool's tenants, by weight.
	Budgets []Budget
	// Upstreams are those behind the pool, if some of them have limits of their own, at most 64. Each call is then counted at one
	// of them, too (Lease.Upstream).
	Upstreams []Upstream
	// ExpectNodes is how many processes share the pool's limits; 0 is unknown.
	ExpectNodes int
	// OnLoss is the rule of the pool for the time when nobody says how much of its shared limits may be used.
	// LocalPPM is the part of them, in millionths, that LossLocal withholds for such times.
	OnLoss   OnLoss
	LocalPPM int64
	// TenantLimits is how the pool's calls are counted against their tenants' own limits, if these
	// are kept together with other processes.
	TenantLimits LimitsMode
}

// TokenWeights is the cost of a token of each kind, in whole thousandths: 0.1 is a tenth of a token. The zero value counts each token as one.
type TokenWeights struct{ Input, CachedInput, Output, Reasoning, Audio float64 }

// Limits are a tenant's own; 0 is no limit. RPM, TPM, ITPM and OTPM are requests, tokens, input
// tokens and output tokens in a rolling minute, Concurrency is calls at once.
//
// Windows are further limits, in other windows and shapes: at most limits.MaxWindows, no two of the same kind of cost, time and
// shape.
type Limits struct {
	RPM, TPM, ITPM, OTPM, Concurrency int64

	Windows []limits.Window
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
	Windows []limits.Window
	// Budgets are the tenant's own, over all its calls.
	Budgets []Budget
	// InPool are further limits, on the tenant's calls to single pools, by the pool's name.
	InPool map[string]Limits
	// MaxWait is how long a call may wait in all before it is refused. 0 does not wait.
	MaxWait time.Duration
	// NoCalls says that no calls come in its own name: it is there for its teams.
	NoCalls bool
	// Shadow admits its calls whatever the limits say. They are counted, and each lease tells
	// whether it would have been refused (Lease.Would).
	Shadow bool
	// Pools names the pools that the tenant may use; nil is all.
	Pools []string
}

// below is how many bands the tenant's calls are below the highest.
func (t *Tenant) below() int {
	if t.Background {
		return escrow.LowestBand
	}
	return t.Below
}

// Minute are the pool's limits of a rolling minute.
func (p *Pool) Minute() escrow.Cost { return placement.PoolCost(p.minute()) }

// minute are the same, as other limits have them.
func (p *Pool) minute() limits.Cost {
	return limits.Cost{limits.Tokens: p.TPM, limits.Requests: p.RPM, limits.Input: p.ITPM, limits.Output: p.OTPM}
}

// escrow is the pool's scheduler configuration, with headroom taken off.
func (p Pool) escrow(burst time.Duration) escrow.Config {
	return escrow.Config{
		TPM:        p.usable(p.TPM),
		RPM:        p.usable(p.RPM),
		ITPM:       p.usable(p.ITPM),
		OTPM:       p.usable(p.OTPM),
		Slots:      p.Concurrency,
		Burst:      burst,
		Accounting: p.Accounting,
		MaxQueue:   p.MaxQueue,
		TicketWait: p.TicketWait,

		InteractiveReserve: p.InteractiveReserve,
		SoftCap:            p.SoftCapPPM,
		HoldBack:           p.HoldBackPPM,
	}
}

// SlotRules are the keys of the rules of the pool's slots.
func (p Pool) SlotRules() (keys []string) {
	cfg := p.escrow(0)
	for _, r := range cfg.Rules() {
		keys = append(keys, r.Name)
	}
	if p.PerTenant {
		keys = append(keys, escrow.PerTenant)
	}
	return slices.Compact(keys)
}

// usable is a limit less the headroom.
func (p Pool) usable(limit int64) int64 {
	if limit <= 0 || limit > escrow.MaxLimit {
		return limit // for Validate to judge
	}
	return limit - limit*p.HeadroomPPM/1_000_000 // limit ≤ 10¹² and the factor ≤ 10⁶, so the product fits
}

func (t *Tenant) limits() Limits {
	return Limits{RPM: t.RPM, TPM: t.TPM, ITPM: t.ITPM, OTPM: t.OTPM, Concurrency: t.Concurrency, Windows: t.Windows}
}

func (t *Tenant) mayUse(pool string) bool {
	return t.Pools == nil || slices.Contains(t.Pools, pool)
}

// OnLoss is how much a pool admits of its shared limits when it is cut off from whoever shares them
// out.
type OnLoss uint8

const (
	// LossClosed admits nothing.
	LossClosed OnLoss = iota
	// LossOpen admits up to the whole limits, in each process.
	LossOpen
	// LossLocal admits a part that is withheld at all other times, divided among all processes.
	LossLocal
)

// LimitsMode is how the calls of a pool are counted against their tenants' own limits, where these
// are kept together with other processes (Config.SharedLimits).
type LimitsMode uint8

const (
	// LimitsLeased lets calls go while they fit within the grants of this process. The
	// default.
	LimitsLeased LimitsMode = iota
	// LimitsCachedDeny is LimitsStrict, but does not ask while a limit is known to have no room.
	LimitsCachedDeny
	// LimitsStrict asks the store before each call.
	LimitsStrict
)
