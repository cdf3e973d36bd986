package tenants

import (
	"cmp"
	"slices"
	"time"
)

// draft is a tier or a tenant while it is read: what a Tenant does not keep, because it follows from the tier's kind.
type draft struct {
	Tenant
	group        bool   // as a tier: its tenants are one node
	tenantWeight int64  // the weight inside of the group; 0 is not said
	teams        []pair // yet to be read
	terms        *terms
}

// terms are what the config says that the reading of policies needs.
type terms struct {
	zone  *time.Location // in which days end
	pools []string       // the names of all pools; empty when they are not known
}

func newDraft(of *terms) draft { return draft{Tenant: Tenant{Weight: defaultWeight}, terms: of} }

// commonFields are the keys that a tier has, and so a tenant, which overrides them, and a team.
var commonFields = []field[draft]{
	decimalField("weight", "Claim on a contended pool, relative to others.", 3, 1, maxWeight, defaultWeight,
		func(t *draft) *int64 { return &t.Weight }),
	limitField("rpm", "Own requests in a rolling minute.", func(t *draft) *int64 { return &t.RPM }),
	limitField("tpm", "Own tokens in a rolling minute.", func(t *draft) *int64 { return &t.TPM }),
	limitField("itpm", "Own input tokens in a rolling minute.", func(t *draft) *int64 { return &t.ITPM }),
	limitField("otpm", "Own output tokens in a rolling minute.", func(t *draft) *int64 { return &t.OTPM }),
	limitField("concurrency", "Own calls at once.", func(t *draft) *int64 { return &t.Concurrency }),
	durationField("max_wait", "How long a call may wait, in all, before it is refused. 0s refuses at once.", maxMaxWait,
		func(t *draft) *time.Duration { return &t.MaxWait }),
	limitField("max_output_tokens", "Cuts what a call may ask for, or is asked for it.",
		func(t *draft) *int64 { return &t.MaxOutputTokens }),
	{
		name: "priority", about: "background: its calls go after its own interactive ones, and leave interactive_reserve free.", kind: wordKind(priorities...),
		read:  func(v value, t *draft) { t.Background = v.priority() },
		start: func(*draft) any { return priorities[0] },
	},
	amountField("floor_tpm", "Tokens a minute it gets at least, whatever its weight, of each pool that it may use and that has a tpm.",
		0, maxAmount, func(t *draft) *int64 { return &t.FloorTPM }),
	durationField("credit", "How much unused share it may take later, as a time up to 1m.", maxCredit,
		func(t *draft) *time.Duration { return &t.Credit }),
	{
		name: "budgets", about: "Own limits by calendar hour, day, week or month. A tenant's replace its tier's.",
		kind: budgetList, read: func(v value, t *draft) { t.Budgets = v.budgets() },
	},
	{
		name: "routes", about: "The groups of routes that it may call.", kind: listOf(wordKind(routeNames...), 1, true),
		read:  func(v value, t *draft) { t.Routes = v.routes() },
		start: func(*draft) any { return []any{routeNames[0], routeNames[1]} },
	},
	poolLimitsField,
	{
		name: "shadow", about: "Its limits are decided, counted and shown, but not enforced.", kind: boolKind,
		read: func(v value, t *draft) { t.Shadow = v.boolean() }, start: func(t *draft) any { return t.Shadow },
	},
}

// ownFields are the keys that only one of many tenants can have, and a team.
var ownFields = []field[draft]{
	{
		name: "keys", about: "Its API keys: their hashes, as llmgov keys new prints them, alone or with a name and an end.",
		kind: listOf(keyKind, 0, true), read: func(v value, t *draft) { t.Keys = v.keys(t.terms.zone) },
	},
	{
		name: "models", about: "Names and patterns of the models that it may use. Left out, every model of every pool, or all that its parent may.",
		kind: listOf(textKind(`^\S+$`), 1, false), read: func(v value, t *draft) { t.Models = v.modelList() },
	},
	{
		name: "default_pool", about: "The pool of its calls to routes that name no model.", kind: nameKind,
		read: func(v value, t *draft) { t.DefaultPool = v.name() },
	},
}

var memberWeightField = field[draft]{
	name: "tenant_weight", about: "Claim inside of the group. Left out, it is 1.", kind: fractionKind(3, 1, maxWeight),
	read: func(v value, t *draft) { t.tenantWeight = v.decimal(3, 1, maxWeight, defaultWeight) },
}

var priorities = []string{"interactive", "background"}

// tenant is the finished draft: in a group, what the draft calls its weight is the group's.
func (d *draft) tenant() Tenant {
	if d.group {
		d.Group = d.Tier
		d.GroupWeight = d.Weight
		d.Weight = cmp.Or(d.tenantWeight, defaultWeight)
	}
	return d.Tenant
}

// checkTier complains about a tenant_weight in a tier whose tenants share nothing.
func (p *policy) checkTier(v value, tier *draft) {
	path := child(v.path, "tenant_weight")
	if _, written := p.r.places[path]; written && !tier.group && !p.r.refused[child(v.path, "group")] {
		p.r.at(path, "does nothing in a tier that is not a group; write weight instead, or group: true")
	}
}

// checkMember complains about the weight of a tenant that belongs to the other kind of tier.
func (p *policy) checkMember(v value, t *draft) {
	own := child(v.path, "tenant_weight")
	shared := child(v.path, "weight")
	if _, written := p.r.places[own]; written && !t.group && !p.r.refused[child(child("tiers", t.Tier), "group")] {
		p.r.at(own, "does nothing, since the tenant is in no tier with group: true; write weight instead")
	}
	if _, written := p.r.places[shared]; written && t.group {
		p.r.at(shared, "belongs to the group and is said in its tier, %s; write tenant_weight instead", show(t.Tier))
	}
}

// priority reads whether calls are background; a bad one reads as interactive.
func (v value) priority() (background bool) {
	text, ok := v.scalar()
	if ok && !slices.Contains(priorities, text) {
		v.problem("%s is not a priority; %s", v.say(text), adviseWord(text, priorities))
	}
	return text == "background"
}
