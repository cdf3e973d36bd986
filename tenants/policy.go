package tenants

import (
	"maps"
	"slices"
	"time"

	"github.com/llmgov/llmgov/internal/strictyaml"
)

// Tenant is one customer of the gateway, with its tier's template already laid under it, or a team of one. In a
// [Snapshot] it is read-only. When making one in code, Name and Keys are what it needs.
type Tenant struct {
	// Name is that of the tenant; of a team it is the path to it: "acme/search". It is unique.
	Name string
	// Parent is, of a team, the place of the tenant or team that it belongs to in [Snapshot.Tenants]; else -1. It
	// follows from the name. All limits of its parents apply to a team too, while those here are its own.
	Parent int
	// Tier is the name of its tier, and of a team that of its tenant's; empty for none.
	Tier string
	// Index is the tenant's place in [Snapshot.Tenants].
	Index int
	// Keys are its API keys. No two tenants share one.
	Keys []Key
	// Models are the names and globs it may use. nil becomes "*", every model, and in a team its parent's.
	Models []string
	// Bounds are the Models of its parents, where they are narrower than all: what it may use is in each of them too.
	// They follow from its place.
	Bounds [][]string
	// DefaultPool serves its routes that name no model. Left empty it becomes the config's.
	DefaultPool string
	// Weight is its part of a contended pool or, in a group, of the group's part, in thousandths: 1000, which 0
	// becomes, is weight 1.
	Weight int64
	// Group is the name of its tier where the tier is a group, whose tenants have one part of a pool together. Empty
	// for none.
	Group string
	// GroupWeight is the group's part of a contended pool, in thousandths, the same in all its tenants; 0 becomes 1000.
	// It is 0 without a group.
	GroupWeight int64
	// Background says that its calls go after interactive ones.
	Background bool
	// FloorTPM is what it gets at least, whatever its weight, of each pool that it may use and that has a TPM: tokens
	// a minute. 0 is no floor. A pool's floors fit into its limit.
	FloorTPM int64
	// Credit is how much of its unused share it may take later, as the time in which that share would have flowed.
	Credit time.Duration
	// RPM, TPM, ITPM and OTPM limit requests, tokens, input tokens and output tokens in a rolling minute;
	// Concurrency limits calls in flight. 0 is no limit.
	RPM, TPM, ITPM, OTPM, Concurrency int64
	// MaxWait is how long a call may wait before it is refused. 0 refuses at once.
	MaxWait time.Duration
	// MaxOutputTokens cuts the output a call may ask for. 0 is no limit.
	MaxOutputTokens int64
	// Budgets are its own limits over calendar windows.
	Budgets []Budget
	// Pools are its limits in single pools, beside those over all; sorted by pool, each there once.
	Pools []PoolLimits
	// Routes are the groups of routes that it may call. None becomes [DefaultRoutes].
	Routes Routes
	// Shadow says that its limits are watched and not enforced.
	Shadow bool
	// Source is where it is defined, file:line:col; empty when made in code.
	Source string `json:"-"`
}

// PoolLimits are a tenant's limits in one pool. 0 is no limit.
type PoolLimits struct {
	Pool                              string
	RPM, TPM, ITPM, OTPM, Concurrency int64
}

// The bounds of what a policy may say.
const (
	defaultWeight = 1000
	maxWeight     = 1_000_000 * 1000
	maxMaxWait    = time.Hour
	maxCredit     = time.Minute
)

// policy gathers what all policy files say. Tenants wait until every file was seen, since their tiers may come later.
type policy struct {
	r        *report
	terms    *terms
	tiers    map[string]draft // a tier is a tenant without a name; Source is where it is defined
	defined  map[string]place // tenants by name
	waiting  []entry          // tenants yet to be read
	tenants  []Tenant
	shadow   *shade // what the file that is being read says of its tenants; nil for nothing
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
		t.Name, t.Source = entry.Key, entry.At.String()
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
