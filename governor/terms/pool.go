// Package terms has the values of which policies are made: limits, pools, tenants and budgets, with their bounds. Policies are read into
// them, and the governor goes by them, so each is declared once.
//
// # Stability
//
// Experimental: any release may change it.
package terms

import (
	"slices"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/adaptive"
	"github.com/llmgov/llmgov/escrow/limits"
	"github.com/llmgov/llmgov/escrow/placement"
	"github.com/llmgov/llmgov/escrow/slots"
)

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
	// Even lets requests go one by one at their rate, because the provider counts them in less than a minute.
	Even bool `json:",omitempty"`
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

// The words of pools.
type (
	Accounting = escrow.Accounting
	Law        = adaptive.Law
)

// The rules of accounting, and the laws of adaptive limits.
const (
	AdmitMax   = escrow.AdmitMax
	Production = escrow.Production
	SettleOnly = escrow.Settled

	Gradient = adaptive.Gradient
	AIMD     = adaptive.AIMD
)

// TokenWeights is the cost of a token of each kind, in whole thousandths: 0.1 is a tenth of a token. The zero value counts each token as one.
type TokenWeights struct {
	Input, CachedInput, Output, Reasoning, Audio float64
	// HeldOutput is the weight of the most that a call may produce, until it ends; 0 is that of what it produces.
	HeldOutput float64
}

// Upstream is one of a pool's upstreams with its own limits, of which 0 is no limit. Calls go to those of the lowest Order
// that have room for them, there by Weight.
type Upstream = placement.Spec

// Amount implements Limited.
func (p *Pool) Amount(k Axis) *int64 {
	return limits.Pick(k, &p.RPM, &p.TPM, &p.ITPM, &p.OTPM, &p.Concurrency)
}

// Minute are the pool's limits of a rolling minute.
func (p *Pool) Minute() escrow.Cost { return placement.PoolCost(Minute(p)) }

// Escrow is the pool's scheduler configuration, with headroom taken off.
func (p *Pool) Escrow() escrow.Config {
	c := escrow.Config{
		Slots:      p.Concurrency,
		Burst:      p.Burst,
		Even:       p.Even,
		Accounting: p.Accounting,
		MaxQueue:   p.MaxQueue,
		TicketWait: p.TicketWait,

		InteractiveReserve: p.InteractiveReserve,
		SoftCap:            p.SoftCapPPM,
		HoldBack:           p.HoldBackPPM,
	}
	p.Rate(&c, Minute(p))
	return c
}

// Rate puts limits of a rolling minute, less the headroom, into a scheduler's configuration.
func (p *Pool) Rate(c *escrow.Config, minute limits.Cost) {
	c.TPM = p.Usable(minute[Tokens])
	c.RPM = p.Usable(minute[Requests])
	c.ITPM = p.Usable(minute[Input])
	c.OTPM = p.Usable(minute[Output])
}

// SlotRules are the keys of the rules of the pool's slots.
func (p *Pool) SlotRules() (keys []string) {
	cfg := p.Escrow()
	for _, r := range cfg.Rules() {
		keys = append(keys, r.Name)
	}
	if p.PerTenant {
		keys = append(keys, escrow.PerTenant)
	}
	return slices.Compact(keys)
}

// Adapts reports whether the limit on calls in flight moves.
func (p *Pool) Adapts() bool { return p.Adaptive != adaptive.Fixed }

// Usable is a limit of a minute less the headroom.
func (p *Pool) Usable(limit int64) int64 {
	if limit <= 0 || limit > escrow.MaxLimit {
		return limit // for Check to judge
	}
	return limit - limit*p.HeadroomPPM/1_000_000 // limit ≤ 10¹² and the factor ≤ 10⁶, so the product fits
}

// Loss is the rule for the time in which so many processes are cut off from whoever shares the limits out; 0 is unknown.
func (p *Pool) Loss(nodes int) slots.Loss {
	switch p.OnLoss {
	case LossOpen:
		return slots.Loss{Open: true}
	case LossLocal:
		return slots.Loss{WithheldPPM: p.LocalPPM, Nodes: nodes}
	}
	return slots.Loss{}
}

// OwnPart is how much of a limit one of so many processes may use by itself while it is cut off. Under LossLocal it is 0 if their
// number is unknown.
func (p *Pool) OwnPart(limit int64, nodes int) int64 {
	loss := p.Loss(nodes)
	return loss.Own(limit)
}

// Together is the pool as all processes that share it have it together: without the part that is withheld from grants.
func (p Pool) Together() Pool {
	loss := p.Loss(0)
	for _, k := range Axes {
		if limit := p.Amount(k); *limit > 0 {
			*limit = max(1, *limit-loss.Withheld(*limit))
		}
	}
	p.InteractiveReserve = max(0, min(p.InteractiveReserve, p.Concurrency-1))
	p.MinConcurrency = min(p.MinConcurrency, p.Concurrency)
	return p
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

func (l OnLoss) String() string { return [...]string{"closed", "open", "local"}[l] }

// LimitsMode is how the calls of a pool are counted against their tenants' own limits, where these
// are kept together with other processes (SharedLimits of the governor).
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

func (m LimitsMode) String() string { return [...]string{"leased", "cached_deny", "strict"}[m] }
