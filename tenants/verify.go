package tenants

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
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
			r.at(child(path, "base_url"), "value (not shown) %s", complaint)
		}
		if complaint := checkSecret(u.APIKey); complaint != "" {
			r.at(child(path, "api_key"), "value (not shown) %s", complaint)
		}
		if complaint := checkUpstreamKind(cmp.Or(u.Kind, OpenAI)); complaint != "" {
			r.at(child(path, "kind"), "%s %s", show(u.Kind), complaint)
		} else if complaint := checkQueryOf(&u); complaint != "" {
			r.at(child(path, "base_url"), "value (not shown) %s", complaint)
		}
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
		r.add(r.place(s.path()), "%s", s.complain(show(text), complaint))
	}
}

type verifier struct {
	r    *report
	seen map[string]bool
}

// name checks one name of a kind and that it occurs once, and answers its path.
func (v *verifier) name(kind, name string) string {
	path := child(kind, name)
	if complaint := checkName(name); complaint != "" {
		v.r.at(kind, "name %s %s", show(name), complaint)
	}
	if v.seen[path] {
		v.r.at(kind, "%s is defined twice; remove one", show(name))
	}
	v.seen[path] = true
	return path
}

func (v *verifier) pool(p *Pool) {
	path := v.name("pools", p.Name)
	v.amounts(path, 0, maxAmount, amounts{"tpm": p.TPM, "rpm": p.RPM, "concurrency": p.Concurrency})
	v.amounts(path, 1, maxAmount, amounts{"default_max_output": p.DefaultMaxOutput})
	v.amounts(path, 0, maxHeadroomPPM, amounts{"headroom (millionths)": p.HeadroomPPM})
	v.amounts(path, 1, maxQueue, amounts{"max_queue": int64(p.MaxQueue)})
	w := p.TokenWeights
	v.amounts(child(path, "token_weights"), 0, maxTokenWeight, amounts{
		"input": w.Input, "cached_input": w.CachedInput, "output": w.Output, "reasoning": w.Reasoning, "audio": w.Audio,
	})
	v.duration(child(path, "burst"), p.Burst, maxBurst)
	if complaint := checkAccounting(string(p.Accounting)); complaint != "" {
		v.r.at(child(path, "accounting"), "%s %s", show(string(p.Accounting)), complaint)
	}
	v.patterns(child(path, "models"), p.Models)
	for i, a := range p.Aliases {
		if complaint := a.complain(show(a.Model)); complaint != "" {
			v.r.at(child(child(path, "models"), a.Name), "%s", complaint)
		}
		if slices.ContainsFunc(p.Aliases[:i], func(o Alias) bool { return o.Name == a.Name }) {
			v.r.at(child(child(path, "models"), a.Name), "is an alias twice; remove one")
		}
	}
	v.amounts(path, 0, maxAmount, amounts{"interactive_reserve": p.InteractiveReserve})
	if complaint := checkReserve(p); complaint != "" && p.InteractiveReserve > 0 {
		v.r.at(child(path, "interactive_reserve"), "%d %s", p.InteractiveReserve, complaint)
	}
	if complaint := checkLaw(p.Adaptive); complaint != "" && p.Adaptive != "" {
		v.r.at(child(path, "adaptive"), "%s %s", show(string(p.Adaptive)), complaint)
	}
	v.amounts(path, 0, maxAmount, amounts{"min": p.MinConcurrency})
	if complaint := checkLeast(p); complaint != "" && p.MinConcurrency > 0 {
		v.r.at(child(path, "min"), "%d %s", p.MinConcurrency, complaint)
	}
	v.duration(child(path, "ticket_wait"), p.TicketWait, maxTicketWait)
	v.budgets(child(path, "budgets"), p.Budgets)
	for i, u := range p.Upstreams {
		v.amounts(item(child(path, "upstreams"), i), 0, maxUpstreamWeight, amounts{"weight": u.Weight})
	}
	checkUpstreams(v.r, child(path, "upstreams"), p.Upstreams)
	v.amounts(path, 0, maxNodes, amounts{"expect_nodes": int64(p.ExpectNodes)})
	if complaint := p.StoreLoss.complain(); complaint != "" {
		v.r.at(child(path, "on_store_loss"), "%s", complaint)
	}
	if complaint := p.TenantLimits.complain(); complaint != "" && p.TenantLimits != "" {
		v.r.at(child(path, "tenant_limits"), "%s %s", show(string(p.TenantLimits)), complaint)
	}
}

func (v *verifier) tenant(t *Tenant) {
	path := v.tenantName(t.Name)
	v.amounts(path, 1, maxWeight, amounts{"weight (thousandths)": t.Weight})
	v.amounts(path, 0, maxAmount, amounts{
		"rpm": t.RPM, "tpm": t.TPM, "itpm": t.ITPM, "otpm": t.OTPM, "concurrency": t.Concurrency,
		"max_output_tokens": t.MaxOutputTokens, "floor_tpm": t.FloorTPM,
	})
	for i, l := range t.Pools {
		in := child(child(path, "pools"), l.Pool)
		v.amounts(in, 0, maxAmount, amounts{"rpm": l.RPM, "tpm": l.TPM, "itpm": l.ITPM, "otpm": l.OTPM, "concurrency": l.Concurrency})
		if i > 0 && t.Pools[i-1].Pool == l.Pool {
			v.r.at(in, "is there twice; remove one")
		}
	}
	v.duration(child(path, "credit"), t.Credit, maxCredit)
	v.budgets(child(path, "budgets"), t.Budgets)
	v.duration(child(path, "max_wait"), t.MaxWait, maxMaxWait)
	v.patterns(child(path, "models"), t.Models)
	for i, k := range t.Keys {
		if k.Hash == (KeyHash{}) {
			v.r.at(item(child(path, "keys"), i), "is the zero hash; make it with HashKey")
		}
		if !k.Expires.IsZero() && !goodExpiry(k.Expires) {
			v.r.at(item(child(path, "keys"), i), "expires in year %d; use %d to %d", k.Expires.Year(), firstYear, lastYear)
		}
	}
}

// tenantName checks a tenant's name, or each part of the path that a team has for one, and answers its path.
func (v *verifier) tenantName(name string) string {
	for part := range strings.SplitSeq(name, teamSep) {
		if complaint := checkName(part); complaint != "" {
			v.r.at("tenants", "name %s %s", show(name), complaint)
		}
	}
	if complaint := checkTeamPath(name); complaint != "" {
		v.r.at("tenants", "name %s %s", show(name), complaint)
	}
	path := child("tenants", name)
	if v.seen[path] {
		v.r.at("tenants", "%s is defined twice; remove one", show(name))
	}
	v.seen[path] = true
	return path
}

// teams checks that each team has a parent, and only what a team may have.
func (v *verifier) teams(list []Tenant) {
	for i := range list {
		t := &list[i]
		cut := strings.LastIndex(t.Name, teamSep)
		if cut < 0 {
			continue
		}
		path := child("tenants", t.Name)
		if parent := t.Name[:cut]; !v.seen[child("tenants", parent)] {
			v.r.at(path, "there is no %s that it could be a team of; define it, or write the name without a slash", show(parent))
		}
		if t.Group != "" {
			v.r.at(child(path, "group"), "a team is in no group; set it in its tenant")
		}
	}
}

func (v *verifier) budgets(path string, list []Budget) {
	for i, b := range list {
		most := int64(maxAmount)
		if b.Unit == MicroUSD {
			most = maxMicroUSD
		}
		v.amounts(item(path, i), 1, most, amounts{"limit": b.Limit})
		if !slices.Contains(units, string(b.Unit)) {
			v.r.at(item(path, i), "%s is not a budget unit; %s", show(string(b.Unit)), adviseWord(string(b.Unit), units))
		}
		if !slices.Contains(periods, string(b.Per)) {
			v.r.at(item(path, i), "%s is not a budget period; %s", show(string(b.Per)), adviseWord(string(b.Per), periods))
		}
	}
	repeatedBudgets(v.r, path, list)
}

func (v *verifier) prices(list []ModelPrice) {
	for i := range list {
		p := &list[i]
		path := child("prices", p.Model)
		if complaint := checkPattern(p.Model); complaint != "" {
			v.r.at("prices", "%s %s", show(p.Model), complaint)
		}
		p.Model = plain(p.Model)
		if v.seen[child("prices", p.Model)] {
			v.r.at("prices", "%s is priced twice; remove one", show(p.Model))
		}
		v.seen[child("prices", p.Model)] = true
		v.amounts(path, 0, maxPrice, amounts{"input": p.Input, "cached_input": p.CachedInput, "output": p.Output})
	}
}

// groups checks that all tenants of a group say the same about it.
func (v *verifier) groups(list []Tenant) {
	weight := map[string]int64{}
	for _, t := range list {
		path := child(child("tenants", t.Name), "group")
		if t.Group == "" {
			if t.GroupWeight != 0 {
				v.r.at(path, "is empty, so a group weight of %d does nothing; set both or none", t.GroupWeight)
			}
			continue
		}
		if complaint := checkName(t.Group); complaint != "" {
			v.r.at(path, "%s %s", show(t.Group), complaint)
		}
		v.amounts(path, 1, maxWeight, amounts{"weight (thousandths)": t.GroupWeight})
		if w, known := weight[t.Group]; known && w != t.GroupWeight {
			v.r.at(path, "%s has a weight of %d here and of %d elsewhere; give it one", show(t.Group), t.GroupWeight, w)
		}
		weight[t.Group] = t.GroupWeight
	}
}

type amounts map[string]int64

func (v *verifier) amounts(path string, least, most int64, list amounts) {
	for key, n := range list {
		if n < least || n > most {
			v.r.at(child(path, key), "%d is out of range; use %d to %d", n, least, most)
		}
	}
}

func (v *verifier) duration(path string, d, most time.Duration) {
	if d < 0 || d > most {
		v.r.at(path, "%s is out of range; use 0s to %s", d, spellDuration(most))
	}
}

// patterns checks models and writes them in their plain form.
func (v *verifier) patterns(path string, list []string) {
	for i, m := range list {
		if complaint := checkPattern(m); complaint != "" {
			v.r.at(item(path, i), "%s %s", show(m), complaint)
		}
		list[i] = plain(m)
	}
}
