package tenants

import (
	"cmp"
	"slices"
	"time"

	"github.com/llmgov/llmgov/internal/strictyaml"
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
	strictyaml.DecimalField("weight", "Claim on a contended pool, relative to others.", 3, 1, maxWeight, defaultWeight,
		func(t *draft) *int64 { return &t.Weight }),
	limitField("rpm", "Own requests in a rolling minute.", func(t *draft) *int64 { return &t.RPM }),
	limitField("tpm", "Own tokens in a rolling minute.", func(t *draft) *int64 { return &t.TPM }),
	limitField("itpm", "Own input tokens in a rolling minute.", func(t *draft) *int64 { return &t.ITPM }),
	limitField("otpm", "Own output tokens in a rolling minute.", func(t *draft) *int64 { return &t.OTPM }),
	limitField("concurrency", "Own calls at once.", func(t *draft) *int64 { return &t.Concurrency }),
	strictyaml.DurationField("max_wait", "How long a call may wait, in all, before it is refused. 0s refuses at once.", maxMaxWait,
		func(t *draft) *time.Duration { return &t.MaxWait }),
	limitField("max_output_tokens", "Cuts what a call may ask for, or is asked for it.",
		func(t *draft) *int64 { return &t.MaxOutputTokens }),
	{
		Name: "priority", About: "background: its calls go after its own interactive ones, and leave interactive_reserve free.", Kind: strictyaml.WordKind(priorities...),
		Read:  func(v value, t *draft) { t.Background = readPriority(v) },
		Start: func(*draft) any { return priorities[0] },
	},
	strictyaml.AmountField("floor_tpm", "Tokens a minute it gets at least, whatever its weight, of each pool that it may use and that has a tpm.",
		0, maxAmount, func(t *draft) *int64 { return &t.FloorTPM }),
	strictyaml.DurationField("credit", "How much unused share it may take later, as a time up to 1m.", maxCredit,
		func(t *draft) *time.Duration { return &t.Credit }),
	{
		Name: "budgets", About: "Own limits by calendar hour, day, week or month. A tenant's replace its tier's.",
		Kind: budgetList, Read: func(v value, t *draft) { t.Budgets = readBudgets(v) },
	},
	{
		Name: "routes", About: "The groups of routes that it may call.", Kind: strictyaml.ListOf(strictyaml.WordKind(routeNames...), 1, true),
		Read:  func(v value, t *draft) { t.Routes = readRoutes(v) },
		Start: func(*draft) any { return []any{routeNames[0], routeNames[1]} },
	},
	poolLimitsField,
	{
		Name: "shadow", About: "Its limits are decided, counted and shown, but not enforced.", Kind: strictyaml.BoolKind,
		Read: func(v value, t *draft) { t.Shadow = v.Bool() }, Start: func(t *draft) any { return t.Shadow },
	},
}

// ownFields are the keys that only one of many tenants can have, and a team.
var ownFields = []field[draft]{
	{
		Name: "keys", About: "Its API keys: their hashes, as llmgov keys new prints them, alone or with a name and an end.",
		Kind: strictyaml.ListOf(keyKind, 0, true), Read: func(v value, t *draft) { t.Keys = readKeyList(v, t.terms.zone) },
	},
	{
		Name: "models", About: "Names and patterns of the models that it may use. Left out, every model of every pool, or all that its parent may.",
		Kind: strictyaml.ListOf(strictyaml.TextKind(`^\S+$`), 1, false), Read: func(v value, t *draft) { t.Models = readModelList(v) },
	},
	{
		Name: "default_pool", About: "The pool of its calls to routes that name no model.", Kind: strictyaml.NameKind,
		Read: func(v value, t *draft) { t.DefaultPool = v.Named() },
	},
}

var memberWeightField = field[draft]{
	Name: "tenant_weight", About: "Claim inside of the group. Left out, it is 1.", Kind: strictyaml.FractionKind(3, 1, maxWeight),
	Read: func(v value, t *draft) { t.tenantWeight = v.Decimal(3, 1, maxWeight, defaultWeight) },
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

// priority reads whether calls are background; a bad one reads as interactive.
func readPriority(v value) (background bool) {
	text, ok := v.Scalar()
	if ok && !slices.Contains(priorities, text) {
		v.Problem("%s is not a priority; %s", v.Say(text), strictyaml.AdviseWord(text, priorities))
	}
	return text == "background"
}
