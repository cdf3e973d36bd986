package policy

import (
	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/limits"
	"github.com/llmgov/llmgov/escrow/limits/shape"
	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/tenants"
)

// Governor is the governor's configuration for a snapshot: its rules, and no clock, journal, store or observer.
func Governor(snap *tenants.Snapshot) governor.Config {
	cfg := governor.Config{Zone: snap.Location(), Revision: snap.Hash()}
	pools := snap.Pools()
	for i := range pools {
		cfg.Pools = append(cfg.Pools, pool(&pools[i]))
	}
	list := snap.Tenants()
	callable := snap.Callable()
	for i := range list {
		t := tenant(&list[i])
		t.NoCalls = !callable[i] // a tenant without a key is there for its teams
		for _, j := range snap.PoolsOf(&list[i]) {
			t.Pools = append(t.Pools, pools[j].Name)
		}
		cfg.Tenants = append(cfg.Tenants, t)
	}
	return cfg
}

// pool is the governor's side of a pool: its limits and those of its upstreams.
func pool(p *tenants.Pool) governor.Pool {
	return governor.Pool{
		Name:               p.Name,
		TPM:                p.TPM,
		RPM:                p.RPM,
		ITPM:               p.ITPM,
		OTPM:               p.OTPM,
		Concurrency:        p.Concurrency,
		InteractiveReserve: p.InteractiveReserve,
		SoftCapPPM:         p.SoftCapPPM,
		HoldBackPPM:        p.HoldBackPPM,
		Adaptive:           laws[p.Adaptive],
		MinConcurrency:     p.MinConcurrency,
		PerTenant:          p.PerTenant,
		HeadroomPPM:        p.HeadroomPPM,
		Accounting:         accountings[p.Accounting],
		Burst:              p.Burst,
		MaxQueue:           p.MaxQueue,
		TicketWait:         p.TicketWait,
		Weights:            weights(p.TokenWeights),
		Budgets:            budgets(p.Budgets),
		Upstreams:          poolUpstreams(p),
		ExpectNodes:        p.ExpectNodes,
		OnLoss:             lossRules[p.StoreLoss.Rule],
		LocalPPM:           p.StoreLoss.LocalPPM,
		TenantLimits:       limitsModes[p.TenantLimits],
	}
}

// even are the weights by which each token counts as one.
var even = tenants.TokenWeights{Input: 1, CachedInput: 1, Output: 1, Reasoning: 1, Audio: 1}

// weights are the governor's token weights. Even ones are its zero value, because it need not weigh by that.
func weights(w tenants.TokenWeights) governor.TokenWeights {
	if w == even {
		return governor.TokenWeights{}
	}
	return governor.TokenWeights(w)
}

// poolUpstreams are the upstreams of a pool, if any of them has limits of its own.
func poolUpstreams(p *tenants.Pool) (list []governor.Upstream) {
	if !p.UpstreamsLimited() {
		return nil
	}
	for _, u := range p.Upstreams {
		list = append(list, governor.Upstream{
			Name: u.Name, Weight: u.Weight, Order: u.Order, TPM: u.TPM, RPM: u.RPM, ITPM: u.ITPM, OTPM: u.OTPM, Concurrency: u.Concurrency,
		})
	}
	return list
}

// tenant is the governor's side of a tenant, as far as the tenant alone decides it.
func tenant(t *tenants.Tenant) governor.Tenant {
	return governor.Tenant{
		Name:        t.Name,
		Tier:        t.Tier,
		Weight:      escrow.Weight(t.Weight),
		Group:       t.Group,
		GroupWeight: escrow.Weight(t.GroupWeight),
		Floor:       t.FloorTPM,
		Credit:      t.Credit,
		Background:  t.Background,
		Below:       int(t.Below),
		RPM:         t.RPM,
		TPM:         t.TPM,
		ITPM:        t.ITPM,
		OTPM:        t.OTPM,
		Concurrency: t.Concurrency,
		Windows:     windows(t.Windows),
		Budgets:     budgets(t.Budgets),
		InPool:      limitsByPool(t.Pools),
		MaxWait:     t.MaxWait,
		Shadow:      t.Shadow,
		Pools:       []string{}, // because nil would be all
	}
}

// limitsByPool is a tenant's list of limits in single pools, by their names.
func limitsByPool(list []tenants.PoolLimits) map[string]governor.Limits {
	if len(list) == 0 {
		return nil
	}
	byPool := make(map[string]governor.Limits, len(list))
	for _, l := range list {
		byPool[l.Pool] = governor.Limits{
			RPM:         l.RPM,
			TPM:         l.TPM,
			ITPM:        l.ITPM,
			OTPM:        l.OTPM,
			Concurrency: l.Concurrency,
			Windows:     windows(l.Windows),
		}
	}
	return byPool
}

// windows turns a list into the governor's.
func windows(list []tenants.Window) []limits.Window {
	var out []limits.Window
	for _, w := range list {
		rule := shape.Rule{Kind: shapes[w.Shape], Amount: w.Limit, Per: w.Per, Burst: w.Burst}
		out = append(out, limits.Window{Of: kinds[w.Unit], Rule: rule})
	}
	return out
}

// budgets turns a list into the governor's.
func budgets(list []tenants.Budget) []governor.Budget {
	var out []governor.Budget
	for _, b := range list {
		out = append(out, governor.Budget{Unit: units[b.Unit], Limit: b.Limit, Per: periods[b.Per]})
	}
	return out
}
