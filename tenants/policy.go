package tenants

import (
	"maps"
	"slices"

	"github.com/llmgov/llmgov/internal/lib/strictyaml"
)

// policy gathers the tiers and tenants of all policy files. Tenants wait until every file was seen, since their tiers may come later.
type policy struct {
	r        *report
	terms    *terms
	tiers    map[string]draft // a tier is a tenant without a name; Source is where it is defined
	defined  map[string]place // tenants by name
	waiting  []entry          // tenants yet to be read
	tenants  []Tenant
	shadow   *shade // the shadow of the file that is being read; nil if it says nothing
	overfull bool   // there are too many tenants, which has been reported
	partial  bool   // a file could not be read at all, so a name that is missing may be in it
}

// entry is a tenant as its file has it.
type entry struct {
	pair
	shadow *shade
}

// shade is a file's word on the shadow of its tenants.
type shade struct {
	on bool
	at place
}

func newPolicy(r *report, of *terms) *policy {
	return &policy{r: r, terms: of, tiers: map[string]draft{}, defined: map[string]place{}}
}

// readFile reads one policy file.
func (p *policy) readFile(root value) {
	first := len(p.waiting)
	p.shadow = nil
	policyShape.Read(root, p)
	if p.shadow != nil && first == len(p.waiting) {
		p.r.Add(p.shadow.at, "shadow: does nothing in a file that defines no tenant; write it in theirs, or in a tier")
	}
	for i := range p.waiting[first:] {
		p.waiting[first+i].shadow = p.shadow
	}
}

func (p *policy) readTiers(v value) {
	list, _ := v.Pairs()
	for _, entry := range list {
		if len(p.tiers) >= maxTiers {
			p.r.Add(entry.At, "there are more than %d tiers, which is as many as are supported", maxTiers)
			return
		}
		checkKeyName(entry)
		if first, dup := p.tiers[entry.Key]; dup {
			p.r.Add(entry.At, "tier %s is defined twice; the other is at %s, remove one", strictyaml.Show(entry.Key), first.Source)
			continue
		}
		tier := newDraft(p.terms)
		tier.Source = entry.At.String()
		tierShape.Read(entry.Value, &tier)
		p.checkTier(entry.Value, &tier)
		p.tiers[entry.Key] = tier
	}
}

func (p *policy) keepTenants(v value) {
	list, _ := v.Pairs()
	for _, e := range list {
		if first, dup := p.defined[e.Key]; dup {
			p.r.Add(e.At, "tenant %s is defined twice; the other is at %s, remove one", strictyaml.Show(e.Key), first)
			p.r.Places[e.Path] = first
			continue
		}
		p.defined[e.Key] = e.At
		p.waiting = append(p.waiting, entry{pair: e})
	}
}

// readTenants reads the tenants of all files, now that all tiers are known.
func (p *policy) readTenants() []Tenant {
	for _, entry := range p.waiting {
		if p.r.Full() || p.crowded(entry.pair) {
			return p.tenants
		}
		checkTenantName(entry.pair)
		list, ok := entry.Pairs()
		if !ok {
			continue
		}
		t, tierKnown := p.template(list)
		t.Name = entry.Key
		t.Source = entry.At.String()
		if entry.shadow != nil && !strictyaml.Has(list, "shadow") {
			t.Shadow = entry.shadow.on
			p.r.Places[strictyaml.Child(entry.Path, "shadow")] = entry.shadow.at
		}
		tenantShape.ReadPairs(list, &t)
		if tierKnown {
			p.checkMember(entry.Value, &t)
		}
		p.keep(&t)
	}
	return p.tenants
}

// crowded reports the tenant or team that is one too many.
func (p *policy) crowded(e pair) bool {
	if len(p.tenants) < maxTenants {
		return false
	}
	if !p.overfull {
		p.r.Add(e.At, "there are more than %d tenants and teams, which is as many as are supported", maxTenants)
	}
	p.overfull = true
	return true
}

// template is the draft to start from: a copy of the tier that the pairs name, or the defaults. known is false when
// they name a tier that is not there.
func (p *policy) template(list []pair) (t draft, known bool) {
	i := slices.IndexFunc(list, func(e pair) bool { return e.Key == "tier" })
	if i < 0 {
		return newDraft(p.terms), true
	}
	name := list[i].Value.Named()
	if tier, ok := p.tiers[name]; ok {
		tier.Tier = name
		return tier, true
	}
	if name != strictyaml.Unreadable && !p.partial {
		list[i].Problem("there is no tier %s; %s", strictyaml.Show(name), strictyaml.Advise(name, slices.Collect(maps.Keys(p.tiers))))
	}
	return newDraft(p.terms), false
}

// checkTier complains about a tenant_weight in a tier whose tenants share nothing.
func (p *policy) checkTier(v value, tier *draft) {
	path := strictyaml.Child(v.Path, "tenant_weight")
	if _, written := p.r.Places[path]; written && !tier.group && !p.r.Refused[strictyaml.Child(v.Path, "group")] {
		p.r.At(path, "does nothing in a tier that is not a group; write weight instead, or group: true")
	}
}

// checkMember complains about the weight of a tenant that belongs to the other kind of tier.
func (p *policy) checkMember(v value, t *draft) {
	own := strictyaml.Child(v.Path, "tenant_weight")
	shared := strictyaml.Child(v.Path, "weight")
	if _, written := p.r.Places[own]; written && !t.group && !p.r.Refused[strictyaml.Child(strictyaml.Child("tiers", t.Tier), "group")] {
		p.r.At(own, "does nothing, since the tenant is in no tier with group: true; write weight instead")
	}
	if _, written := p.r.Places[shared]; written && t.group {
		p.r.At(shared, "belongs to the group and is said in its tier, %s; write tenant_weight instead", strictyaml.Show(t.Tier))
	}
}

// keep adds a finished draft and reads its teams.
func (p *policy) keep(d *draft) {
	p.tenants = append(p.tenants, d.tenant())
	for _, e := range d.teams {
		p.readTeam(d, e)
	}
}
