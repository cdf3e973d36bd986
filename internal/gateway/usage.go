package gateway

import (
	"strings"
	"time"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/tenants"
)

// usageView is a tenant's view of itself. It shows nothing of others, and no usage of a whole pool.
type usageView struct {
	Object  string          `json:"object"`
	Tenant  string          `json:"tenant"`
	Tier    string          `json:"tier"`
	Key     usageKey        `json:"key"`
	Routes  []string        `json:"routes"`
	Models  []string        `json:"models"`
	MaxWait float64         `json:"max_wait_seconds"`
	Output  *int64          `json:"max_output_tokens"` // null is no limit
	Shadow  bool            `json:"shadow"`            // its limits are not enforced
	Running int64           `json:"running"`
	Waiting int             `json:"waiting"` // for own limits
	Limits  []usageLimit    `json:"limits"`
	Budgets []usageBudget   `json:"budgets"`
	Pools   []usagePool     `json:"pools"`
	Parents []usageAncestor `json:"parents"`
}

// usageKey is the key of the request.
type usageKey struct {
	ID      string     `json:"id"`
	Name    string     `json:"name"`
	Expires *time.Time `json:"expires"`
}

type usageLimit struct {
	Axis      string `json:"axis"`
	Limit     int64  `json:"limit"`
	Used      int64  `json:"used"`
	Remaining int64  `json:"remaining"`
}

// usageBudget is a budget of the tenant's own, or the tenant's usage of a pool's budget, whose limit is
// everybody's.
type usageBudget struct {
	Name      string    `json:"name"`
	Unit      string    `json:"unit"`
	Per       string    `json:"per"`
	Limit     *float64  `json:"limit,omitempty"`
	Used      float64   `json:"used"`
	Remaining *float64  `json:"remaining,omitempty"`
	ResetsAt  time.Time `json:"resets_at"`
}

// usagePool is the tenant's part of one pool.
type usagePool struct {
	Name string `json:"name"`
	// Weight is its claim while others ask, too; ShareTPM is its share while everybody
	// asks for more than they get, and FloorTPM the least that it gets in any case. 0 is none.
	Weight   float64       `json:"weight"`
	ShareTPM int64         `json:"share_tpm"`
	FloorTPM int64         `json:"floor_tpm"`
	Queued   int           `json:"queued"`
	Limits   []usageLimit  `json:"limits"` // on its calls to this pool alone
	Budgets  []usageBudget `json:"budgets"`
}

// usageAncestor is a tenant or team above a team, so far as it limits that team.
type usageAncestor struct {
	Tenant  string              `json:"tenant"`
	Running int64               `json:"running"`
	Limits  []usageLimit        `json:"limits"`
	Budgets []usageBudget       `json:"budgets"`
	Pools   []usageAncestorPool `json:"pools"`
}

// usageAncestorPool has the limits of all calls below an ancestor to one pool that the team may use as
// well.
type usageAncestorPool struct {
	Name   string       `json:"name"`
	Limits []usageLimit `json:"limits"`
}

// expiry is when a key ends; nil if it does not.
func expiry(k *tenants.Key) *time.Time {
	if k.Expires.IsZero() {
		return nil
	}
	return &k.Expires
}

// serveUsage answers GET /v1/usage from the books of the tenant that asks.
func (c *call) serveUsage() {
	c.g.gov.Refresh(c.r.Context(), c.Tenant.Name)
	c.showStanding()
	st, _ := c.g.gov.TenantState(c.Tenant.Name)
	t := c.Tenant
	v := usageView{
		Object: "usage", Tenant: t.Name, Tier: t.Tier,
		Key:    usageKey{ID: c.Key.Hash.ID(), Name: c.Key.Name, Expires: expiry(c.Key)},
		Routes: strings.Split(t.Routes.String(), ", "), Models: t.Models,
		MaxWait: t.MaxWait.Seconds(), Shadow: t.Shadow, Running: st.Running, Waiting: st.InLine,
		Limits: usageLimits(st, ""), Budgets: usageBudgets(st, ""), Pools: []usagePool{}, Parents: []usageAncestor{},
	}
	if t.MaxOutputTokens > 0 {
		v.Output = &t.MaxOutputTokens
	}
	for i, p := range c.world.pools {
		if c.world.Account(t.Index, i) == nil {
			continue // it may use none of its models
		}
		v.Pools = append(v.Pools, usagePool{
			Name: p.Name, Weight: float64(t.Weight) / 1000, ShareTPM: c.world.shares()[t.Index][i], FloorTPM: t.FloorTPM,
			Queued: st.Queued[p.Name], Limits: usageLimits(st, p.Name), Budgets: usageBudgets(st, p.Name),
		})
	}
	for _, above := range ancestors(c.world.Snapshot.Tenants(), t) {
		v.Parents = append(v.Parents, c.usageAbove(above))
	}
	c.w.Header().Set("Cache-Control", "no-store")
	c.writeJSON(v)
}

// ancestors are the names of the tenant and teams above a team, the nearest first.
func ancestors(list []tenants.Tenant, t *tenants.Tenant) []string {
	var names []string
	for at := t.Parent; at >= 0; at = list[at].Parent {
		names = append(names, list[at].Name)
	}
	return names
}

// usageAbove shows one of them, with the pools in which it has limits.
func (c *call) usageAbove(name string) usageAncestor {
	st, _ := c.g.gov.TenantState(name)
	v := usageAncestor{
		Tenant: name, Running: st.Running, Limits: usageLimits(st, ""), Budgets: usageBudgets(st, ""), Pools: []usageAncestorPool{},
	}
	for i, p := range c.world.pools {
		if limits := usageLimits(st, p.Name); len(limits) > 0 && c.world.Account(c.Tenant.Index, i) != nil {
			v.Pools = append(v.Pools, usageAncestorPool{p.Name, limits})
		}
	}
	return v
}

// usageLimits are the tenant's limits over all pools or, given a pool, those in it.
func usageLimits(st governor.TenantState, pool string) []usageLimit {
	out := []usageLimit{}
	for _, l := range st.Limits {
		if l.Pool != pool {
			continue
		}
		out = append(out, usageLimit{l.Axis, l.Limit, l.Used, max(0, l.Limit-l.Used)})
	}
	return out
}

// usageBudgets are the tenant's own budgets or, given a pool, its usage of that pool's.
func usageBudgets(st governor.TenantState, pool string) []usageBudget {
	out := []usageBudget{}
	for _, b := range st.Budgets {
		if b.Pool != pool {
			continue
		}
		u := usageBudget{
			Name:     b.Name(),
			Unit:     b.Unit.String(),
			Per:      b.Per.String(),
			Used:     b.Unit.Amount(b.Used),
			ResetsAt: b.Resets,
		}
		if pool == "" {
			limit := b.Unit.Amount(b.Limit)
			left := b.Unit.Amount(max(0, b.Limit-b.Used))
			u.Limit = &limit
			u.Remaining = &left
		}
		out = append(out, u)
	}
	return out
}

// sharesOf is how many tokens a minute each tenant has of each pool while everybody asks for more
// than they get.
func sharesOf(snap *tenants.Snapshot) [][]int64 {
	list := snap.Tenants()
	pools := snap.Pools()
	table := make([][]int64, len(list))
	for i := range table {
		table[i] = make([]int64, len(pools))
	}
	for i := range pools {
		for _, s := range snap.Shares(&pools[i]) {
			table[s.Tenant.Index][i] = s.TPM
		}
	}
	return table
}
