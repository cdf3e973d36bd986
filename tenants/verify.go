package tenants

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/llmgov/llmgov/governor/terms"
	"github.com/llmgov/llmgov/internal/lib/strictyaml"
	"github.com/llmgov/llmgov/tenants/internal/glob"
)

// verify holds values made in code to the rules that the readers hold files to.
func verify(r *report, cfg *Config, list []Tenant) {
	for _, s := range settings {
		verifySetting(r, s, cfg)
	}
	names := verifier{r: r, seen: map[string]bool{}}
	for _, u := range cfg.Upstreams {
		path := names.name("upstreams", u.Name)
		if complaint := checkBaseURL(u.BaseURL); u.BaseURL != "" && complaint != "" {
			r.At(strictyaml.Child(path, "base_url"), "value (not shown) %s", complaint)
		}
		if complaint := checkSecret(u.APIKey); complaint != "" {
			r.At(strictyaml.Child(path, "api_key"), "value (not shown) %s", complaint)
		}
		if complaint := u.checkTLS(); complaint != "" {
			r.At(strictyaml.Child(path, "tls"), "%s", complaint)
		}
		upstreamKinds.verify(r, strictyaml.Child(path, "kind"), cmp.Or(u.Kind, OpenAI))
		if complaint := checkQueryOf(&u); complaint != "" {
			r.At(strictyaml.Child(path, "base_url"), "value (not shown) %s", complaint)
		}
		verifyEngine(r, strictyaml.Child(path, "engine"), &u.Engine)
	}
	for i := range cfg.Pools {
		names.pool(&cfg.Pools[i])
	}
	for i := range list {
		names.tenant(&list[i])
	}
	names.teams(list)
	names.prices(cfg.Prices)
	names.groups(list)
}

// verifySetting writes a setting's value out and parses it again.
func verifySetting(r *report, s setting, cfg *Config) {
	text := fmt.Sprint(s.get(cfg))
	if s.key == "policies" {
		return // Build reads no files
	}
	if _, complaint := s.parse(text); complaint != "" {
		r.Add(r.Place(s.path()), "%s", s.complain(strictyaml.Show(text), complaint))
	}
}

type verifier struct {
	r    *report
	seen map[string]bool
}

// name checks one name of a kind and that it occurs once, and answers its path.
func (v *verifier) name(kind, name string) string {
	path := strictyaml.Child(kind, name)
	if complaint := strictyaml.CheckName(name); complaint != "" {
		v.r.At(kind, "name %s %s", strictyaml.Show(name), complaint)
	}
	if v.seen[path] {
		v.r.At(kind, "%s is defined twice; remove one", strictyaml.Show(name))
	}
	v.seen[path] = true
	return path
}

func (v *verifier) pool(p *Pool) {
	path := v.name("pools", p.Name)
	poolShape.Check(v.r, path, p)
	concurrencyShape.Check(v.r, strictyaml.Child(path, "concurrency"), p)
	poolTimeouts.Check(v.r, strictyaml.Child(path, "timeouts"), p)
	weightShape.Check(v.r, strictyaml.Child(path, "token_weights"), &p.Weights)
	v.amounts(path, 1, maxQueue, amounts{"max_queue": int64(p.MaxQueue)})
	v.duration(strictyaml.Child(path, "burst"), p.Burst, maxBurst)
	rules.verify(v.r, strictyaml.Child(path, "accounting"), p.Accounting)
	for k, r := range p.Ranges {
		if r.Adaptive != "" {
			rangeLaws.verify(v.r, strictyaml.Child(path, terms.Axis(k).Key()), r.Adaptive)
		}
	}
	v.patterns(strictyaml.Child(path, "models"), p.Models)
	for _, h := range p.Headers {
		if complaint := h.complain(); complaint != "" {
			v.r.At(strictyaml.Child(strictyaml.Child(path, "headers"), h.Name), "%s", complaint)
		}
	}
	for i, a := range p.Aliases {
		if complaint := a.complain(strictyaml.Show(a.Model)); complaint != "" {
			v.r.At(strictyaml.Child(strictyaml.Child(path, "models"), a.Name), "%s", complaint)
		}
		if slices.ContainsFunc(p.Aliases[:i], func(o Alias) bool { return o.Name == a.Name }) {
			v.r.At(strictyaml.Child(strictyaml.Child(path, "models"), a.Name), "is an alias twice; remove one")
		}
	}
	if p.Adapts() {
		laws.verify(v.r, strictyaml.Child(path, "adaptive"), p.Adaptive)
	}
	for _, c := range p.slotComplaints() {
		if c.number != 0 {
			c.text = strconv.FormatInt(c.number, 10) + " " + c.text
		}
		v.r.At(strictyaml.Child(path, c.key), "%s", c.text)
	}
	v.budgets(strictyaml.Child(path, "budgets"), p.Budgets)
	poolBudgets(v.r, strictyaml.Child(path, "budgets"), p.Budgets)
	for i := range p.Upstreams {
		v.poolUpstream(strictyaml.Item(strictyaml.Child(path, "upstreams"), i), &p.Upstreams[i])
	}
	checkUpstreams(v.r, strictyaml.Child(path, "upstreams"), p.Upstreams)
	if p.Affinity != "" {
		affinities.verify(v.r, strictyaml.Child(path, "affinity"), p.Affinity)
	}
	v.amounts(path, 0, maxNodes, amounts{"expect_nodes": int64(p.ExpectNodes)})
	if complaint := p.complainStoreLoss(); complaint != "" {
		v.r.At(strictyaml.Child(path, "on_store_loss"), "%s", complaint)
	}
	limitsModes.verify(v.r, strictyaml.Child(path, "tenant_limits"), p.TenantLimits)
}

func (v *verifier) poolUpstream(path string, u *PoolUpstream) {
	poolUpstreamShape.Check(v.r, path, u)
	if len(u.Windows) > 0 {
		v.r.At(path, "has limits over other times; an upstream has none")
	}
	if u.Price != nil {
		checkPrice(v.r, strictyaml.Child(path, "price"), u.Price)
	}
	for _, model := range slices.Sorted(maps.Keys(u.Models)) {
		if complaint := complainModelName(model, u.Models[model], strictyaml.Show(u.Models[model])); complaint != "" {
			v.r.At(strictyaml.Child(strictyaml.Child(path, "models"), model), "%s", complaint)
		}
	}
}

func (v *verifier) tenant(t *Tenant) {
	path := v.tenantName(t.Name)
	tierShape.Check(v.r, path, &draft{Tenant: *t})
	v.amounts(path, 0, mostPriority, amounts{"priority (below the highest)": t.Below})
	if by := t.PriorityBy; by != nil {
		if complaint := by.complain(); complaint != "" {
			v.r.At(strictyaml.Child(path, "priority_by"), "%s", complaint)
		}
		for value, below := range by.Below {
			v.amounts(strictyaml.Child(strictyaml.Child(path, "priority_by"), value), 0, mostPriority+1, amounts{"priority (below the highest)": below})
		}
	}
	for i, l := range t.Pools {
		in := strictyaml.Child(strictyaml.Child(path, "pools"), l.Pool)
		poolLimitShape.Check(v.r, in, &l)
		v.windows(strictyaml.Child(in, "limits"), l.Windows)
		if i > 0 && t.Pools[i-1].Pool == l.Pool {
			v.r.At(in, "is there twice; remove one")
		}
	}
	v.budgets(strictyaml.Child(path, "budgets"), t.Budgets)
	v.windows(strictyaml.Child(path, "limits"), t.Windows)
	if t.Spent != 0 && !slices.Contains(spentStatuses, t.Spent) {
		v.r.At(strictyaml.Child(path, "spent"), "%d is not a status for spent budgets; use 429 or 402", t.Spent)
	}
	if t.Members != nil {
		t.Members.verify(v, strictyaml.Child(path, "members"))
	}
	v.patterns(strictyaml.Child(path, "models"), t.Models)
	for i, k := range t.Keys {
		if k.Hash == (KeyHash{}) {
			v.r.At(strictyaml.Item(strictyaml.Child(path, "keys"), i), "is the zero hash; make it with HashKey")
		}
		if !k.Expires.IsZero() && !goodExpiry(k.Expires) {
			v.r.At(strictyaml.Item(strictyaml.Child(path, "keys"), i), "expires in year %d; use %d to %d", k.Expires.Year(), firstYear, lastYear)
		}
	}
}

// tenantName checks a tenant's name, or each part of the path that a team has for one, and answers its path.
func (v *verifier) tenantName(name string) string {
	for part := range strings.SplitSeq(name, teamSep) {
		if complaint := cmp.Or(strictyaml.CheckName(part), complainTilde(part)); complaint != "" {
			v.r.At("tenants", "name %s %s", strictyaml.Show(name), complaint)
		}
	}
	if complaint := checkTeamPath(name); complaint != "" {
		v.r.At("tenants", "name %s %s", strictyaml.Show(name), complaint)
	}
	path := strictyaml.Child("tenants", name)
	if v.seen[path] {
		v.r.At("tenants", "%s is defined twice; remove one", strictyaml.Show(name))
	}
	v.seen[path] = true
	return path
}

// teams checks that each team has a parent, and no value that only a tenant may have.
func (v *verifier) teams(list []Tenant) {
	for i := range list {
		t := &list[i]
		cut := strings.LastIndex(t.Name, teamSep)
		if cut < 0 {
			continue
		}
		path := strictyaml.Child("tenants", t.Name)
		if parent := t.Name[:cut]; !v.seen[strictyaml.Child("tenants", parent)] {
			v.r.At(path, "there is no %s that it could be a team of; define it, or write the name without a slash", strictyaml.Show(parent))
		}
		if t.Group != "" {
			v.r.At(strictyaml.Child(path, "group"), "a team is in no group; set it in its tenant")
		}
	}
}

func (v *verifier) budgets(path string, list []Budget) {
	for i, b := range list {
		most := int64(maxAmount)
		if b.Unit == MicroUSD {
			most = maxMicroUSD
		}
		v.amounts(strictyaml.Item(path, i), 1, most, amounts{"limit": b.Limit})
		units.verify(v.r, strictyaml.Item(path, i), b.Unit)
		periods.verify(v.r, strictyaml.Item(path, i), b.Per)
	}
	repeatedBudgets(v.r, path, list)
}

func (v *verifier) prices(list []ModelPrice) {
	for i := range list {
		p := &list[i]
		path := strictyaml.Child("prices", p.Model)
		if complaint := checkPattern(p.Model); complaint != "" {
			v.r.At("prices", "%s %s", strictyaml.Show(p.Model), complaint)
		}
		p.Model = glob.Plain(p.Model)
		if v.seen[strictyaml.Child("prices", p.Model)] {
			v.r.At("prices", "%s is priced twice; remove one", strictyaml.Show(p.Model))
		}
		v.seen[strictyaml.Child("prices", p.Model)] = true
		checkPrice(v.r, path, &p.Price)
	}
}

// groups checks that all tenants of a group say the same about it.
func (v *verifier) groups(list []Tenant) {
	weight := map[string]float64{}
	for _, t := range list {
		path := strictyaml.Child(strictyaml.Child("tenants", t.Name), "group")
		if t.Group == "" {
			if t.GroupWeight != 0 {
				v.r.At(path, "is empty, so a group weight of %v does nothing; set both or none", t.GroupWeight)
			}
			continue
		}
		if complaint := strictyaml.CheckName(t.Group); complaint != "" {
			v.r.At(path, "%s %s", strictyaml.Show(t.Group), complaint)
		}
		if w := t.GroupWeight; !(w >= minWeight && w <= maxWeight) {
			v.r.At(strictyaml.Child(path, "weight"), "%v is out of range; use %v to %d", w, minWeight, maxWeight)
		}
		if w, known := weight[t.Group]; known && w != t.GroupWeight {
			v.r.At(path, "%s has a weight of %v here and of %v elsewhere; give it one", strictyaml.Show(t.Group), t.GroupWeight, w)
		}
		weight[t.Group] = t.GroupWeight
	}
}

type amounts map[string]int64

func (v *verifier) amounts(path string, least, most int64, list amounts) {
	for key, n := range list {
		if n < least || n > most {
			v.r.At(strictyaml.Child(path, key), "%d is out of range; use %d to %d", n, least, most)
		}
	}
}

func (v *verifier) duration(path string, d, most time.Duration) {
	if d < 0 || d > most {
		v.r.At(path, "%s is out of range; use 0s to %s", d, strictyaml.SpellDuration(most))
	}
}

// patterns checks models and writes them in their plain form.
func (v *verifier) patterns(path string, list []string) {
	for i, m := range list {
		if complaint := checkPattern(m); complaint != "" {
			v.r.At(strictyaml.Item(path, i), "%s %s", strictyaml.Show(m), complaint)
		}
		list[i] = glob.Plain(m)
	}
}
