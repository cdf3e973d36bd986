// Package usage is a tenant's view of itself, the answer to GET /v1/usage: its limits, its budgets, its part of each pool, and the limits of
// the tenants above it. It shows nothing of others.
package usage

import (
	"strings"
	"time"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/run/admission"
	"github.com/llmgov/llmgov/tenants"
)

// View is the JSON of the answer. It shows no usage of a whole pool.
type View struct {
	Object  string       `json:"object"`
	Tenant  string       `json:"tenant"`
	Tier    string       `json:"tier"`
	Key     keyView      `json:"key"`
	Routes  []string     `json:"routes"`
	Models  []string     `json:"models"`
	MaxWait float64      `json:"max_wait_seconds"`
	Output  *int64       `json:"max_output_tokens"` // null is no limit
	Shadow  bool         `json:"shadow"`            // its limits are not enforced
	Running int64        `json:"running"`
	Waiting int          `json:"waiting"` // for own limits
	Limits  []limitView  `json:"limits"`
	Budgets []budgetView `json:"budgets"`
	Pools   []poolView   `json:"pools"`
	Parents []aboveView  `json:"parents"`
	Member  *memberView  `json:"member,omitempty"`
}

// memberView is whoever of the tenant's members asks.
type memberView struct {
	Name    string       `json:"name"` // as it is counted; "" if the request gives none
	Running int64        `json:"running"`
	Waiting int          `json:"waiting"`
	Limits  []limitView  `json:"limits"`
	Budgets []budgetView `json:"budgets"`
}

// keyView is the key of the request.
type keyView struct {
	ID      string     `json:"id"`
	Name    string     `json:"name"`
	Expires *time.Time `json:"expires"`
}

type limitView struct {
	Axis      string `json:"axis"`
	Limit     int64  `json:"limit"`
	Used      int64  `json:"used"`
	Remaining int64  `json:"remaining"`
}

// budgetView is a budget of the tenant's own, or the tenant's usage of a pool's budget, whose limit is
// everybody's.
type budgetView struct {
	Name      string    `json:"name"`
	Unit      string    `json:"unit"`
	Per       string    `json:"per"`
	Limit     *float64  `json:"limit,omitempty"`
	Used      float64   `json:"used"`
	Remaining *float64  `json:"remaining,omitempty"`
	ResetsAt  time.Time `json:"resets_at"`
}

// poolView is the tenant's part of one pool.
type poolView struct {
	Name string `json:"name"`
	// Weight is its claim while others ask, too; ShareTPM is its share while everybody
	// asks for more than they get, and FloorTPM the least that it gets in any case. 0 is none.
	Weight   float64      `json:"weight"`
	ShareTPM int64        `json:"share_tpm"`
	FloorTPM int64        `json:"floor_tpm"`
	Queued   int          `json:"queued"`
	Limits   []limitView  `json:"limits"` // on its calls to this pool alone
	Budgets  []budgetView `json:"budgets"`
}

// aboveView is a tenant or team above a team, so far as it limits that team.
type aboveView struct {
	Tenant  string          `json:"tenant"`
	Running int64           `json:"running"`
	Limits  []limitView     `json:"limits"`
	Budgets []budgetView    `json:"budgets"`
	Pools   []abovePoolView `json:"pools"`
}

// abovePoolView has the limits of all calls below an ancestor to one pool that the team may use as
// well.
type abovePoolView struct {
	Name   string      `json:"name"`
	Limits []limitView `json:"limits"`
}

// expiry is when a key ends; nil if it does not.
func expiry(k *tenants.Key) *time.Time {
	if k.Expires.IsZero() {
		return nil
	}
	return &k.Expires
}

// Books are those that a view is made from.
type Books struct {
	Governor *governor.Governor
	Policy   *admission.Policy
	Shares   [][]int64 // see SharesOf
}

// Of is the view of a tenant that asks with a key, in the name of one of its members if it has any.
func (b Books) Of(t *tenants.Tenant, key *tenants.Key, called string) *View {
	st, _ := b.Governor.TenantState(t.Name)
	v := &View{
		Object: "usage", Tenant: t.Name, Tier: t.Tier,
		Key:    keyView{ID: key.Hash.ID(), Name: key.Name, Expires: expiry(key)},
		Routes: strings.Split(t.Routes.String(), ", "), Models: t.Models,
		MaxWait: t.MaxWait.Seconds(), Shadow: t.Shadow, Running: st.Running, Waiting: st.InLine,
		Limits: limitsOf(st, ""), Budgets: budgetsOf(st, ""), Pools: []poolView{}, Parents: []aboveView{},
	}
	if t.MaxOutputTokens > 0 {
		v.Output = &t.MaxOutputTokens
	}
	if t.Members != nil {
		own, _ := b.Governor.TenantState(t.Counted(called))
		v.Member = &memberView{Name: t.Members.Named(called), Running: own.Running, Waiting: own.InLine, Limits: limitsOf(own, ""), Budgets: budgetsOf(own, "")}
	}
	for i, p := range b.Policy.Pools {
		if !b.Policy.Reaches(t.Index, i) {
			continue // it may use none of its models
		}
		v.Pools = append(v.Pools, poolView{
			Name: p.Name, Weight: t.Weight, ShareTPM: b.Shares[t.Index][i], FloorTPM: t.FloorTPM,
			Queued: st.Queued[p.Name], Limits: limitsOf(st, p.Name), Budgets: budgetsOf(st, p.Name),
		})
	}
	for _, above := range ancestors(b.Policy.Snapshot.Tenants(), t) {
		v.Parents = append(v.Parents, b.above(t, above))
	}
	return v
}

// ancestors are the names of the tenant and teams above a team, the nearest first.
func ancestors(list []tenants.Tenant, t *tenants.Tenant) []string {
	var names []string
	for at := t.Parent; at >= 0; at = list[at].Parent {
		names = append(names, list[at].Name)
	}
	return names
}

// above shows one of them to a team, with the pools in which it has limits.
func (b Books) above(team *tenants.Tenant, name string) aboveView {
	st, _ := b.Governor.TenantState(name)
	v := aboveView{
		Tenant: name, Running: st.Running, Limits: limitsOf(st, ""), Budgets: budgetsOf(st, ""), Pools: []abovePoolView{},
	}
	for i, p := range b.Policy.Pools {
		if limits := limitsOf(st, p.Name); len(limits) > 0 && b.Policy.Reaches(team.Index, i) {
			v.Pools = append(v.Pools, abovePoolView{p.Name, limits})
		}
	}
	return v
}

// limitsOf are the tenant's limits over all pools or, given a pool, those in it.
func limitsOf(st governor.TenantState, pool string) []limitView {
	out := []limitView{}
	for _, l := range st.Limits {
		if l.Pool != pool {
			continue
		}
		out = append(out, limitView{l.Axis, l.Limit, l.Used, max(0, l.Limit-l.Used)})
	}
	return out
}

// budgetsOf are the tenant's own budgets or, given a pool, its usage of that pool's.
func budgetsOf(st governor.TenantState, pool string) []budgetView {
	out := []budgetView{}
	for _, b := range st.Budgets {
		if b.Pool != pool {
			continue
		}
		u := budgetView{
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

// SharesOf is how many tokens a minute each tenant has of each pool while everybody asks for more
// than they get.
func SharesOf(snap *tenants.Snapshot) [][]int64 {
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
