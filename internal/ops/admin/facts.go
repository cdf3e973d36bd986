package admin

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/ops/adminapi"
	"github.com/llmgov/llmgov/internal/ops/notify"
)

// factKinds are the conditions that webhooks can be told of.
var factKinds = map[adminapi.ConditionKind]string{
	adminapi.UpstreamDown: "upstream", adminapi.UpstreamSilent: "upstream",
	adminapi.StoreLost: "store", adminapi.StoreUnreadable: "store", adminapi.NotReady: "store", adminapi.BudgetsBeginNew: "store",
	adminapi.PolicyInvalid: "policy", adminapi.RuntimeUnfit: "policy",
}

// budgetSteps are the parts of a budget, in percent, of whose use webhooks are told, if it does not say which by its WarnAt.
var budgetSteps = []int64{80, 100}

const (
	// starvedPart is the part of its share below which a tenant whose calls wait is starved, and starvedFor how long that has to last: as
	// in the alert LlmgovTenantStarved.
	starvedPart = 0.5
	starvedFor  = 5 * time.Minute
)

// Facts are what webhooks can be told of, as it is now.
func (a *API) Facts(now time.Time) (list []notify.Fact) {
	v := a.snapshot()
	for _, c := range v.Conditions {
		on := factKinds[c.Kind]
		if on == "" || c.Kind == adminapi.NotReady && v.Draining {
			continue
		}
		list = append(list, notify.Fact{
			On: on, Key: strings.Join([]string{string(c.Kind), string(c.Severity), c.Pool, c.Upstream}, " "),
			Severity: string(c.Severity), Message: c.Message, Pool: c.Pool, Upstream: c.Upstream,
		})
	}
	s := a.Governor.State(a.shown(&page{})...)
	for i := range s.Tenants {
		t := &s.Tenants[i]
		for k := range t.Budgets {
			if b := &t.Budgets[k]; b.Pool == "" { // a pool's is everybody's
				list = append(list, budgetFacts("tenant", t.Config.Name, b)...)
			}
		}
	}
	for i := range s.Pools {
		p := &s.Pools[i]
		for k := range p.Budgets {
			list = append(list, budgetFacts("pool", p.Config.Name, &p.Budgets[k])...)
		}
		list = append(list, starvedFacts(now, p)...)
	}
	return list
}

// budgetFacts are the steps that the use of a budget has passed, of calls that have ended: those in flight hold the most that they may take, and a step is told
// once a period.
func budgetFacts(kind, owner string, b *governor.BudgetState) (list []notify.Fact) {
	steps := budgetSteps
	if b.WarnAt[0] > 0 {
		steps = b.WarnAt[:]
	}
	for _, step := range steps {
		if step == 0 || b.Limit <= 0 || float64(b.Used-b.Held) < float64(b.Limit)/100*float64(step) {
			continue
		}
		f := notify.Fact{
			On: "budget", Key: fmt.Sprintf("budget %s %s %d %s %d%% %d", kind, owner, b.Limit, b.Name(), step, b.Resets.Unix()), Once: b.Resets, Severity: string(adminapi.Warning),
			Message: fmt.Sprintf("%s %s has used %d %% of its budget of %s %s. %s", strings.ToUpper(kind[:1])+kind[1:], owner, step, amount(b), b.Name(), b.Ending(b.Resets)),
		}
		if step >= 100 {
			f.Severity = string(adminapi.Error)
		}
		if kind == "pool" {
			f.Pool = owner
		} else {
			f.Tenant = owner
		}
		list = append(list, f)
	}
	return list
}

func amount(b *governor.BudgetState) string {
	return strconv.FormatFloat(b.Unit.Amount(b.Limit), 'f', -1, 64)
}

// starvedFacts are the tenants that get too little of a pool.
func starvedFacts(now time.Time, p *governor.PoolState) (list []notify.Fact) {
	for i := range p.Shares {
		s := &p.Shares[i]
		if s.Queued == 0 || s.Entitled <= 0.01 || s.Received >= starvedPart*s.Entitled {
			continue
		}
		list = append(list, notify.Fact{
			On: "starved", Key: "starved " + s.Tenant + " " + p.Config.Name, Once: now.Truncate(time.Hour).Add(time.Hour), Lasts: starvedFor,
			Severity: string(adminapi.Warning), Tenant: s.Tenant, Pool: p.Config.Name,
			Message: fmt.Sprintf("Tenant %s gets too little of pool %s: it received %.0f %% of what it was entitled to in the last minute, and its calls wait.",
				s.Tenant, p.Config.Name, 100*s.Received/s.Entitled),
		})
	}
	return list
}
