package tenants

import (
	"strings"
	"time"
)

// Tenant is one customer or team of the gateway, with its tier's template already laid under it. In a [Snapshot] it
// is read-only. When making one in code, Name and Keys are what it needs.
type Tenant struct {
	Name string
	// Tier is the name of its tier; empty for none.
	Tier string
	// Index is the tenant's place in [Snapshot.Tenants].
	Index int
	// Keys are the hashes of its API keys. No two tenants share one.
	Keys []KeyHash
	// Models are the names and globs it may use. nil becomes "*", every model.
	Models []string
	// DefaultPool serves its routes that name no model. Left empty it becomes the config's.
	DefaultPool string
	// Weight is its part of a contended pool, in thousandths: 1000, which 0 becomes, is weight 1.
	Weight int64
	// RPM, TPM, ITPM and OTPM limit requests, tokens, input tokens and output tokens in a rolling minute;
	// Concurrency limits calls in flight. 0 is no limit.
	RPM, TPM, ITPM, OTPM, Concurrency int64
	// MaxWait is how long a call may wait before it is refused. 0 refuses at once.
	MaxWait time.Duration
	// MaxOutputTokens cuts the output a call may ask for. 0 is no limit.
	MaxOutputTokens int64
	// Source is where it is defined, file:line:col; empty when made in code.
	Source string
}

// The bounds of what a policy may say.
const (
	defaultWeight = 1000
	maxWeight     = 1_000_000 * 1000
	maxMaxWait    = time.Hour
)

// MayUse reports whether the tenant's grant covers a model. Whether any pool serves the model is not asked.
func (t *Tenant) MayUse(model string) bool {
	for _, m := range t.Models {
		if m == model || match(m, model) {
			return true
		}
	}
	return false
}

// tierFields are the keys of a tier, and so of a tenant, which overrides them.
var tierFields = []field[Tenant]{
	{"weight", func(v value, t *Tenant) { t.Weight = v.decimal(3, 1, maxWeight, defaultWeight) }},
	{"rpm", func(v value, t *Tenant) { t.RPM = v.amount(0, maxAmount) }},
	{"tpm", func(v value, t *Tenant) { t.TPM = v.amount(0, maxAmount) }},
	{"itpm", func(v value, t *Tenant) { t.ITPM = v.amount(0, maxAmount) }},
	{"otpm", func(v value, t *Tenant) { t.OTPM = v.amount(0, maxAmount) }},
	{"concurrency", func(v value, t *Tenant) { t.Concurrency = v.amount(0, maxAmount) }},
	{"max_wait", func(v value, t *Tenant) { t.MaxWait = v.duration(0, maxMaxWait) }},
	{"max_output_tokens", func(v value, t *Tenant) { t.MaxOutputTokens = v.amount(0, maxAmount) }},
}

var policyNotYet = []string{
	"priority", "floor_tpm", "credit", "group", "tenant_weight", "budgets", "routes", "pools", "shadow", "teams",
}

var (
	tierShape   = shape[Tenant]{fields: tierFields, notYet: policyNotYet}
	tenantShape = shape[Tenant]{notYet: policyNotYet, fields: append([]field[Tenant]{
		{"tier", func(value, *Tenant) {}}, // read first, by readTenant: the other keys override what it brings
		{"keys", func(v value, t *Tenant) { t.Keys = v.keyHashes() }},
		{"models", func(v value, t *Tenant) { t.Models = v.modelList() }},
		{"default_pool", func(v value, t *Tenant) { t.DefaultPool = v.name() }},
	}, tierFields...)}
	policyShape = shape[policy]{fields: []field[policy]{
		{"tiers", func(v value, p *policy) { p.readTiers(v) }},
		{"tenants", func(v value, p *policy) { p.keepTenants(v) }},
	}}
)

// policy gathers what all policy files say. Tenants wait until every file was seen, since their tiers may come later.
type policy struct {
	r       *report
	tiers   map[string]Tenant // a tier is a tenant without a name; Source is where it is defined
	defined map[string]place  // tenants by name
	waiting []pair            // tenants yet to be read
	tenants []Tenant
	partial bool // a file could not be read at all, so a name that is missing may be in it
}

func newPolicy(r *report) *policy {
	return &policy{r: r, tiers: map[string]Tenant{}, defined: map[string]place{}}
}

func (p *policy) readTiers(v value) {
	list, _ := v.pairs()
	for _, entry := range list {
		entry.checkName()
		if first, dup := p.tiers[entry.key]; dup {
			p.r.add(entry.at, "tier %s is defined twice; the other is at %s, remove one", show(entry.key), first.Source)
			continue
		}
		tier := Tenant{Weight: defaultWeight, Source: entry.at.String()}
		read(entry.value, tierShape, &tier)
		p.tiers[entry.key] = tier
	}
}

func (p *policy) keepTenants(v value) {
	list, _ := v.pairs()
	for _, entry := range list {
		if first, dup := p.defined[entry.key]; dup {
			p.r.add(entry.at, "tenant %s is defined twice; the other is at %s, remove one", show(entry.key), first)
			p.r.places[entry.path] = first
			continue
		}
		p.defined[entry.key] = entry.at
		p.waiting = append(p.waiting, entry)
	}
}

// readTenants reads the tenants of all files, now that all tiers are known.
func (p *policy) readTenants() []Tenant {
	for _, entry := range p.waiting {
		entry.checkName()
		if strings.Contains(entry.key, "/") {
			p.r.add(entry.at, "name %s holds a slash; write a tenant's name without", show(entry.key))
		}
		list, ok := entry.pairs()
		if !ok {
			continue
		}
		t := p.template(list)
		t.Name, t.Source = entry.key, entry.at.String()
		readPairs(list, tenantShape, &t)
		p.tenants = append(p.tenants, t)
	}
	return p.tenants
}

// template is the tenant to start from: a copy of the tier that the pairs name, or the defaults.
func (p *policy) template(list []pair) Tenant {
	plain := Tenant{Weight: defaultWeight}
	for _, entry := range list {
		if entry.key != "tier" {
			continue
		}
		name := entry.name()
		tier, known := p.tiers[name]
		if known {
			tier.Tier = name
			return tier
		}
		if name != unreadable && !p.partial {
			names := make([]string, 0, len(p.tiers))
			for n := range p.tiers {
				names = append(names, n)
			}
			entry.problem("there is no tier %s; %s", show(name), advise(name, names))
		}
	}
	return plain
}
