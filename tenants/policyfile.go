package tenants

import (
	"slices"
	"time"

	"github.com/llmgov/llmgov/governor/terms"
	"github.com/llmgov/llmgov/internal/lib/strictyaml"
)

// The shapes of a policy file. A tenant's keys are a tier's, and those that only one of many can have.
var (
	policyShape = shape[policyFile]{Fields: []field[policyFile]{
		{
			Name: "tiers", About: "Templates for tenants, by name.", Read: func(v value, f *policyFile) { f.readTiers(v) },
			Kind: strictyaml.MapOf(anyName, func() schema { start := newDraft(nil); return tierShape.Schema(&start) }, 0),
		},
		{
			Name: "tenants", About: "Who may call, by name.", Read: func(v value, f *policyFile) { f.waiting, _ = v.Pairs() },
			Kind: strictyaml.MapOf(tenantName, func() schema { return tenantShape.Schema(nil) }, 0),
		},
		{
			Name: "shadow", About: "What all tenants of this file have for shadow that do not say it themselves.", Kind: strictyaml.BoolKind,
			Read: func(v value, f *policyFile) { f.shadow = &shade{v.Bool(), v.Report.Place(v.Path)} },
		},
	}, Also: schema{"dependentSchemas": schema{"shadow": schema{ // of whom, else?
		"required": []any{"tenants"}, "properties": schema{"tenants": schema{"minProperties": 1}},
	}}}}

	tierShape = shape[draft]{
		Fields: slices.Concat(commonFields, []field[draft]{
			{
				Name: "group", About: "Its tenants have its weight together, not each, and share it by tenant_weight.", Kind: strictyaml.BoolKind,
				Read: func(v value, t *draft) { t.group = v.Bool() }, Start: func(t *draft) any { return t.group },
			},
			memberWeightField,
			{Name: "teams", Read: func(v value, _ *draft) { v.Problem("belong to a tenant; write them there") }},
		}),
		Also: schema{"dependentSchemas": schema{"tenant_weight": schema{ // only a group has members to weigh
			"required": []any{"group"}, "properties": schema{"group": schema{"not": schema{"const": false}}},
		}}},
	}

	tenantShape = shape[draft]{
		Fields: slices.Concat([]field[draft]{
			tierField,
		}, ownFields, commonFields, []field[draft]{
			memberWeightField,
			teamsField,
			{Name: "group", Read: func(v value, _ *draft) { v.Problem("only a tier can be a group; write it there") }},
		}),
		Also: keysOrTeams,
	}
)

// tierField is read first, by template, because the other keys override the tier's.
var tierField = field[draft]{
	Name: "tier", About: "The tier that it starts from. Every other key replaces what the tier says.", Kind: strictyaml.NameKind,
	Read: func(value, *draft) {},
}

// commonFields are the keys that a tier has, and so a tenant, which overrides them, and a team.
var commonFields = slices.Concat(limitFields[draft]("Own %s."), []field[draft]{
	weightField("weight", "Claim on a contended pool, relative to other tenants, or teams of the same parent.", minWeight, maxWeight, func(t *draft) *float64 { return &t.Weight }),
	windowsField("Own limits over other times and in other shapes than rolling minutes, at most 4. A tenant's replace its tier's.",
		func(t *draft) *terms.Limits { return &t.Limits }),
	strictyaml.DurationField("max_wait", "How long a call may wait, in all, before it is refused; x-llmgov-max-wait shortens it. 0s refuses at once.", maxMaxWait,
		func(t *draft) *time.Duration { return &t.MaxWait }),
	limitField("max_output_tokens", "The largest output that a call may ask for. It is added to calls that set none.",
		func(t *draft) *int64 { return &t.MaxOutputTokens }),
	{
		Name: "priority", About: "0 to 9: the lower, the more slots of a pool with hold_back its calls leave free; interactive is 9. background is as 0, and its calls go after its own interactive ones, and leave interactive_reserve free.",
		Kind: priorityKind, Read: readPriority, Start: func(*draft) any { return priorities.list[0] },
	},
	{
		Name: "priority_by", About: "Lower priorities of calls, by the value of a header: {header: x-claude-code-request-class, subagent: 4, auxiliary: 1}. Of the tenant's waiting calls those of higher priorities go first.",
		Kind: priorityByKind, Read: readPriorityBy,
	},
	strictyaml.AmountField("floor_tpm", "Tokens a minute it gets at least, whatever its weight, of each pool that it may use and that has a tpm.",
		0, maxAmount, func(t *draft) *int64 { return &t.FloorTPM }),
	strictyaml.DurationField("credit", "How much unused share it may take later, as a time.", maxCredit,
		func(t *draft) *time.Duration { return &t.Credit }),
	{
		Name: "budgets", About: "Own limits by calendar hour, day, week or month, or for life. A tenant's replace its tier's.",
		Kind: budgetList, Read: func(v value, t *draft) { t.Budgets = readBudgets(v) },
	},
	{
		Name: "spent", About: "The status of refusals for a spent budget: 429, or 402, at which agents end that would sleep for hours at a 429.",
		Kind: func() schema { return strictyaml.OrVariable(schema{"enum": spentStatuses}) }, Read: readSpent, Start: func(*draft) any { return spentStatuses[0] },
	},
	{
		Name: "routes", About: "The groups of routes that it may call.", Kind: strictyaml.ListOf(routeNames.kind(), 1, true),
		Read:  func(v value, t *draft) { t.Routes = readRoutes(v) },
		Start: func(*draft) any { return []any{routeNames.list[0], routeNames.list[1]} },
	},
	{
		Name: "service_tiers", About: "The providers' tiers of service that its calls may name in service_tier or speed, such as flex. Others are refused, but for auto, default and standard; with {only: [flex], else: lower} they become the usual one.",
		Kind: func() schema { return serviceTiersShape.Schema(nil) },
		Read: func(v value, t *draft) {
			t.LowerTiers = false // whatever its tier says
			serviceTiersShape.Read(v, t)
		},
	},
	membersField,
	poolLimitsField,
	upstreamsField,
	{
		Name: "shadow", About: "Its limits are decided, counted and shown, but not enforced.", Kind: strictyaml.BoolKind,
		Read: func(v value, t *draft) { t.Shadow = v.Bool() }, Start: func(t *draft) any { return t.Shadow },
	},
})

// ownFields are the keys that only one of many tenants can have, and a team.
var ownFields = []field[draft]{
	{
		Name: "keys", About: "Its API keys: their hashes, as llmgov keys new prints them, alone or with a name and an end.",
		Kind: strictyaml.ListOf(func() schema { return keyShape.Schema(nil) }, 0, true), Read: func(v value, t *draft) { t.Keys, t.keyLimits = readKeyList(v, t.given.zone) },
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

var memberWeightField = weightField("tenant_weight", "Claim inside of the group.", minWeight, maxWeight, func(t *draft) *float64 { return &t.tenantWeight })
