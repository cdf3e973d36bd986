package governor

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/adaptive"
	"github.com/llmgov/llmgov/escrow/budget"
	"github.com/llmgov/llmgov/federation"
)

// Config is all that a Governor needs to know.
type Config struct {
	Pools   []Pool
	Tenants []Tenant
	// Zone is where the periods of budgets begin. nil is UTC.
	Zone *time.Location
	// Clock defaults to SystemClock.
	Clock Clock
	// Journal keeps what must outlive the process. nil forgets.
	Journal Journal
	// Past is what was kept of the processes before; nil is nothing.
	Past *Past
	// Shared says that TPM and RPM of all pools are shared with other processes. Then
	// calls go as far as somebody allows it who knows of all: see SharedPools. What a pool
	// has used is known to them, and not taken from Past.
	Shared bool
	// SharedLimits says that the tenants' own limits and budgets are kept together with other
	// processes. Then a process counts up to the part of each that it has: see SharedLimits
	// of the Governor. What was used of them is known there, and not taken from Past.
	SharedLimits bool
	// SharedSlots says that Concurrency and Budgets of all pools are split over the processes that
	// share their limits, of which Shared has to say so, too: see SharedSlots of the Governor.
	SharedSlots bool
	// Observer is told what happens; nil means that nobody listens.
	Observer Observer
	// Recorded makes all decisions a function of what the Observer is told, so that who
	// tells another governor the same at the same times (see Ask) has them again. Each is
	// then made in an instant of its own, one after the other over all pools, in which
	// the Observer is called. It cannot be had with Shared, SharedLimits or SharedSlots.
	Recorded bool
	// Detailed has the Observer told of the events from EventStarted on, too, as Recorded does,
	// but makes nothing of it: calls are decided as they would be. Who tells another governor
	// the same has nearly the same decisions.
	Detailed bool
	// Revision names the configuration to the Observer.
	Revision string
}

// Pool describes one shared upstream capacity. A limit of 0 is off.
type Pool struct {
	Name string
	// TPM, RPM are tokens and requests a rolling minute; Concurrency is how many
	// calls may run at once.
	TPM, RPM, Concurrency int64
	// InteractiveReserve is how many of Concurrency background calls leave free.
	InteractiveReserve int64
	// Adaptive finds out how many calls the upstream can take at once, between
	// MinConcurrency, where it begins, and Concurrency. The zero value leaves it at
	// Concurrency.
	Adaptive       adaptive.Law
	MinConcurrency int64
	// HeadroomPPM is the part of TPM and RPM left unused, in millionths.
	HeadroomPPM int64
	// Accounting is how the provider counts.
	Accounting escrow.Accounting
	// Burst is how much unused rate the idle pool may hand out at once. In a pool
	// that one tenant alone may use it is the whole minute: there is nobody to be
	// unfair to.
	Burst time.Duration
	// MaxQueue bounds how many calls may wait for the pool, and beside it for
	// each tenant's own limits.
	MaxQueue int
	// TicketWait is how long who was refused, and comes back when told, may queue;
	// 0 keeps nobody's place.
	TicketWait time.Duration
	// Weights turn kinds of tokens into cost; the zero value counts each as one.
	Weights TokenWeights
	// Budgets are shared by the pool's tenants, by weight.
	Budgets []Budget
	// ExpectNodes is how many processes share the pool's limits, if they are shared; 0 is
	// not known. See federation.Beat.
	ExpectNodes int
	// OnLoss is what happens when nobody can say how much of limits that are shared may be
	// used, and LocalPPM, of LossLocal, the part of them that is for then.
	OnLoss   OnLoss
	LocalPPM int64
	// TenantLimits is how its calls are counted against their tenants' own limits, if these are
	// kept together with other processes.
	TenantLimits LimitsMode
}

// OnLoss is what a pool hands out of shared limits when it is cut off from who shares
// them out.
type OnLoss uint8

const (
	// LossClosed hands out nothing.
	LossClosed OnLoss = iota
	// LossOpen hands out the whole limits, in each process.
	LossOpen
	// LossLocal hands out a part that is withheld at all times, for all who are cut off.
	LossLocal
)

// TokenWeights is what a token of each kind costs, in thousandths.
type TokenWeights struct{ Input, CachedInput, Output, Reasoning, Audio int64 }

// Limits are a tenant's own; 0 is off. RPM, TPM, ITPM and OTPM are rolling minutes of
// requests, tokens, input tokens and output tokens, Concurrency is calls at once.
type Limits struct{ RPM, TPM, ITPM, OTPM, Concurrency int64 }

// Tenant describes who asks. A limit of 0 is off.
//
// "acme/search" is a team of acme, which must be there too, and it may have teams in
// turn: its share is carved out of acme's, and all limits and budgets of acme hold
// for both together.
type Tenant struct {
	Name, Tier string
	// Weight is the tenant's claim in every pool; in a Group, on the group's share.
	Weight escrow.Weight
	// Group, if not empty, makes the tenants that name it share GroupWeight.
	Group       string
	GroupWeight escrow.Weight
	// Floor is how many tokens a minute the tenant gets of each pool before weights
	// count.
	Floor int64
	// Credit is how much of its share a tenant that was quiet may catch up.
	Credit time.Duration
	// Background makes all its calls go after interactive ones.
	Background bool
	// RPM, TPM, ITPM and OTPM are the tenant's own rolling minutes of requests,
	// tokens, input tokens and output tokens.
	RPM, TPM, ITPM, OTPM int64
	// Concurrency is how many of the tenant's calls may run at once.
	Concurrency int64
	// Budgets are the tenant's own, over all its calls.
	Budgets []Budget
	// InPool are limits on the tenant's calls to single pools, by name, beside those
	// above.
	InPool map[string]Limits
	// MaxWait is how long a call may wait, in all, before it is refused.
	MaxWait time.Duration
	// NoCalls says that nobody asks in its own name: it is there for its teams.
	NoCalls bool
	// Shadow lets its calls go whatever the limits say. They are counted, and each
	// lease tells whether it would have been refused (Lease.Would).
	Shadow bool
	// Pools names the pools that the tenant may use; nil means all.
	Pools []string
}

// maxTokenWeight keeps weighed counts within an int64.
const maxTokenWeight = 1_000_000

// Validate reports everything that is wrong.
func (c Config) Validate() error {
	errs := c.recordable()
	if c.SharedSlots && !c.Shared {
		errs = append(errs, errors.New("governor: SharedSlots is of pools whose limits are shared: set Shared, too"))
	}
	pools, tenants := map[string]bool{}, map[string]bool{}
	for _, p := range c.Pools {
		if pools[p.Name] || p.Name == "" {
			errs = append(errs, fmt.Errorf("governor: pool name %q is empty or taken", p.Name))
		}
		pools[p.Name] = true
		for _, weight := range []int64{p.Weights.Input, p.Weights.CachedInput, p.Weights.Output, p.Weights.Reasoning, p.Weights.Audio} {
			if weight < 0 || weight > maxTokenWeight {
				errs = append(errs, fmt.Errorf("governor: pool %s: token weight %d is not in 0…%d", p.Name, weight, maxTokenWeight))
			}
		}
		if p.HeadroomPPM < 0 || p.HeadroomPPM >= 1_000_000 {
			errs = append(errs, fmt.Errorf("governor: pool %s: headroom of %d ppm is not in 0…999999", p.Name, p.HeadroomPPM))
		} else if err := p.escrow(p.Burst).Validate(); err != nil {
			errs = append(errs, fmt.Errorf("governor: pool %s: %w", p.Name, err))
		}
		if p.Adaptive > adaptive.AIMD {
			errs = append(errs, fmt.Errorf("governor: pool %s: there is no adaptive law %d", p.Name, p.Adaptive))
		} else if p.Adaptive != adaptive.Fixed && (p.MinConcurrency < 1 || p.MinConcurrency > p.Concurrency) {
			errs = append(errs, fmt.Errorf("governor: pool %s: least concurrency %d is not in 1…%d", p.Name, p.MinConcurrency, p.Concurrency))
		}
		if p.TenantLimits > LimitsStrict {
			errs = append(errs, fmt.Errorf("governor: pool %s: there is no way %d to count against tenants' limits", p.Name, p.TenantLimits))
		}
		if p.LocalPPM < 0 || p.LocalPPM >= 1_000_000 {
			errs = append(errs, fmt.Errorf("governor: pool %s: a withheld part of %d ppm is not in 0…999999", p.Name, p.LocalPPM))
		}
		if limit := max(p.TPM, p.RPM); c.Shared && limit > federation.MaxLimit {
			errs = append(errs, fmt.Errorf("governor: pool %s: limit %d is more than can be shared, %d", p.Name, limit, federation.MaxLimit))
		}
		errs = append(errs, checkBudgets("pool "+p.Name, p.Budgets))
	}
	for _, t := range c.Tenants {
		if tenants[t.Name] || t.Name == "" {
			errs = append(errs, fmt.Errorf("governor: tenant name %q is empty or taken", t.Name))
		}
		tenants[t.Name] = true
		if t.Weight < 1 || t.Weight > escrow.MaxWeight {
			errs = append(errs, fmt.Errorf("governor: tenant %s: weight %d is not in 1…%d", t.Name, t.Weight, escrow.MaxWeight))
		}
		if t.Group != "" && (t.GroupWeight < 1 || t.GroupWeight > escrow.MaxWeight) {
			errs = append(errs, fmt.Errorf("governor: tenant %s: weight %d of group %s is not in 1…%d", t.Name, t.GroupWeight, t.Group, escrow.MaxWeight))
		}
		if t.Credit < 0 || t.Credit > escrow.Window {
			errs = append(errs, fmt.Errorf("governor: tenant %s: credit %v is not in 0…%v", t.Name, t.Credit, escrow.Window))
		}
		errs = append(errs, checkLimits(t.Name, t.limits()), checkLimits(t.Name, Limits{TPM: t.Floor}))
		for name, l := range t.InPool {
			if errs = append(errs, checkLimits(t.Name+" in pool "+name, l)); !pools[name] {
				errs = append(errs, fmt.Errorf("governor: tenant %s: limits in pool %q, which is not there", t.Name, name))
			}
		}
		if strings.Contains(t.Name, "/") && t.Group != "" {
			errs = append(errs, fmt.Errorf("governor: team %s: only who is no team can be in a group, not in %s", t.Name, t.Group))
		}
		errs = append(errs, checkBudgets("tenant "+t.Name, t.Budgets))
		for _, name := range t.Pools {
			if !pools[name] {
				errs = append(errs, fmt.Errorf("governor: tenant %s: there is no pool %q", t.Name, name))
			}
		}
	}
	for _, t := range c.Tenants {
		if up := teamOf(t.Name); strings.Contains(t.Name, "/") && !tenants[up] {
			errs = append(errs, fmt.Errorf("governor: team %s: there is no tenant %q that it could be a team of", t.Name, up))
		}
	}
	return errors.Join(errs...)
}

// recordable lists what is shared though all decisions are to be recorded.
func (c Config) recordable() (errs []error) {
	for _, x := range []struct {
		what string
		set  bool
	}{{"Shared", c.Shared}, {"SharedLimits", c.SharedLimits}, {"SharedSlots", c.SharedSlots}} {
		if c.Recorded && x.set {
			errs = append(errs, fmt.Errorf("governor: %s and Recorded do not go together: what others leave of a limit is not told to the Observer", x.what))
		}
	}
	return errs
}

// checkLimits reports what is out of range.
func checkLimits(owner string, l Limits) error {
	var errs []error
	for _, limit := range []int64{l.RPM, l.TPM, l.ITPM, l.OTPM, l.Concurrency} {
		if limit < 0 || limit > escrow.MaxLimit {
			errs = append(errs, fmt.Errorf("governor: tenant %s: limit %d is not in 0…%d", owner, limit, escrow.MaxLimit))
		}
	}
	return errors.Join(errs...)
}

// checkBudgets reports what is wrong with a list of budgets.
func checkBudgets(owner string, list []Budget) error {
	var errs []error
	for i, b := range list {
		switch {
		case b.Unit < 0 || int(b.Unit) >= units || b.Per < budget.Hour || b.Per > budget.Month:
			errs = append(errs, fmt.Errorf("governor: %s: budget %d has no such unit or period", owner, i))
			continue
		case b.Limit < 1 || b.Limit > MaxBudget:
			errs = append(errs, fmt.Errorf("governor: %s: budget of %s: %d is not in 1…%d", owner, b.Name(), b.Limit, MaxBudget))
		}
		if slices.ContainsFunc(list[:i], func(o Budget) bool { return o.Unit == b.Unit && o.Per == b.Per }) {
			errs = append(errs, fmt.Errorf("governor: %s: budget of %s is there twice", owner, b.Name()))
		}
	}
	return errors.Join(errs...)
}

// escrow is the pool's scheduler configuration, with headroom taken off.
func (p Pool) escrow(burst time.Duration) escrow.Config {
	return escrow.Config{
		TPM:        p.usable(p.TPM),
		RPM:        p.usable(p.RPM),
		Slots:      p.Concurrency,
		Burst:      burst,
		Accounting: p.Accounting,
		MaxQueue:   p.MaxQueue,
		TicketWait: p.TicketWait,

		InteractiveReserve: p.InteractiveReserve,
	}
}

// usable is a limit less its headroom, but never less than one.
func (p Pool) usable(limit int64) int64 {
	if limit <= 0 || limit > escrow.MaxLimit {
		return limit // for Validate to judge
	}
	// limit ≤ 10¹² and the factor ≤ 10⁶, so the product fits.
	return max(1, limit*(1_000_000-p.HeadroomPPM)/1_000_000)
}

func (t *Tenant) limits() Limits { return Limits{t.RPM, t.TPM, t.ITPM, t.OTPM, t.Concurrency} }

func (t *Tenant) mayUse(pool string) bool {
	return t.Pools == nil || slices.Contains(t.Pools, pool)
}
