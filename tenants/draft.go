package tenants

import (
	"cmp"
	"slices"
)

// draft is a tier or a tenant while it is read: what a Tenant does not keep, because it follows from the tier's kind.
type draft struct {
	Tenant
	group        bool  // as a tier: its tenants are one node
	tenantWeight int64 // the weight inside of the group; 0 is not said
}

func newDraft() draft { return draft{Tenant: Tenant{Weight: defaultWeight}} }

// tierFields are the keys of a tier, and so of a tenant, which overrides them.
var tierFields = []field[draft]{
	{"weight", func(v value, t *draft) { t.Weight = v.decimal(3, 1, maxWeight, defaultWeight) }},
	{"rpm", func(v value, t *draft) { t.RPM = v.amount(0, maxAmount) }},
	{"tpm", func(v value, t *draft) { t.TPM = v.amount(0, maxAmount) }},
	{"itpm", func(v value, t *draft) { t.ITPM = v.amount(0, maxAmount) }},
	{"otpm", func(v value, t *draft) { t.OTPM = v.amount(0, maxAmount) }},
	{"concurrency", func(v value, t *draft) { t.Concurrency = v.amount(0, maxAmount) }},
	{"max_wait", func(v value, t *draft) { t.MaxWait = v.duration(0, maxMaxWait) }},
	{"max_output_tokens", func(v value, t *draft) { t.MaxOutputTokens = v.amount(0, maxAmount) }},
	{"priority", func(v value, t *draft) { t.Background = v.priority() }},
	{"floor_tpm", func(v value, t *draft) { t.FloorTPM = v.amount(0, maxAmount) }},
	{"credit", func(v value, t *draft) { t.Credit = v.duration(0, maxCredit) }},
	{"budgets", func(v value, t *draft) { t.Budgets = v.budgets() }},
	{"tenant_weight", func(v value, t *draft) { t.tenantWeight = v.decimal(3, 1, maxWeight, defaultWeight) }},
}

var policyNotYet = []string{"routes", "pools", "shadow", "teams"}

var (
	tierShape = shape[draft]{notYet: policyNotYet, fields: append([]field[draft]{
		{"group", func(v value, t *draft) { t.group = v.boolean() }},
	}, tierFields...)}
	tenantShape = shape[draft]{notYet: policyNotYet, fields: append([]field[draft]{
		{"tier", func(value, *draft) {}}, // read first, by readTenant: the other keys override what it brings
		{"keys", func(v value, t *draft) { t.Keys = v.keyHashes() }},
		{"models", func(v value, t *draft) { t.Models = v.modelList() }},
		{"default_pool", func(v value, t *draft) { t.DefaultPool = v.name() }},
		{"group", func(v value, _ *draft) { v.problem("only a tier can be a group; write it there") }},
	}, tierFields...)}
	policyShape = shape[policy]{fields: []field[policy]{
		{"tiers", func(v value, p *policy) { p.readTiers(v) }},
		{"tenants", func(v value, p *policy) { p.keepTenants(v) }},
	}}
)

// tenant is the finished draft: in a group, what the draft calls its weight is the group's.
func (d *draft) tenant() Tenant {
	if d.group {
		d.Group, d.GroupWeight = d.Tier, d.Weight
		d.Weight = cmp.Or(d.tenantWeight, defaultWeight)
	}
	return d.Tenant
}

// checkTier complains about a tenant_weight in a tier whose tenants share nothing.
func (p *policy) checkTier(v value, tier *draft) {
	path := child(v.path, "tenant_weight")
	if _, written := p.r.places[path]; written && !tier.group && !p.r.refused[child(v.path, "group")] {
		p.r.at(path, "does nothing in a tier that is no group; write weight instead, or group: true")
	}
}

// checkMember complains about the weight of a tenant that belongs to the other kind of tier.
func (p *policy) checkMember(v value, t *draft) {
	own, shared := child(v.path, "tenant_weight"), child(v.path, "weight")
	if _, written := p.r.places[own]; written && !t.group && !p.r.refused[child(child("tiers", t.Tier), "group")] {
		p.r.at(own, "does nothing, since the tenant is in no tier with group: true; write weight instead")
	}
	if _, written := p.r.places[shared]; written && t.group {
		p.r.at(shared, "belongs to the group and is said in its tier, %s; write tenant_weight instead", show(t.Tier))
	}
}

// priority reads whether calls are background; a bad one reads as interactive.
func (v value) priority() (background bool) {
	known := []string{"interactive", "background"}
	text, ok := v.scalar()
	if ok && !slices.Contains(known, text) {
		v.problem("%s is no priority; %s", v.say(text), advise(text, known))
	}
	return text == "background"
}
