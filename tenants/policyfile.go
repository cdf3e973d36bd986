package tenants

import (
	"slices"

	"github.com/llmgov/llmgov/internal/strictyaml"
)

// The shapes of a policy file. A tenant's keys are a tier's, and those that only one of many can have.
var (
	policyShape = shape[policy]{Fields: []field[policy]{
		{
			Name: "tiers", About: "Templates for tenants, by name.", Read: func(v value, p *policy) { p.readTiers(v) },
			Kind: strictyaml.MapOf(anyName, func() schema { start := newDraft(nil); return tierShape.Schema(&start) }, 0),
		},
		{
			Name: "tenants", About: "Who may call, by name.", Read: func(v value, p *policy) { p.keepTenants(v) },
			Kind: strictyaml.MapOf(tenantName, func() schema { return tenantShape.Schema(nil) }, 0),
		},
		{
			Name: "shadow", About: "What all tenants of this file have for shadow that do not say it themselves.", Kind: strictyaml.BoolKind,
			Read: func(v value, p *policy) { p.shadow = &shade{v.Bool(), v.Report.Place(v.Path)} },
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
			{
				Name: "tier", About: "The tier that it starts from. Every other key replaces what the tier says.", Kind: strictyaml.NameKind,
				Read: func(value, *draft) {}, // read first, by readTenants: the other keys override what it brings
			},
		}, ownFields, commonFields, []field[draft]{
			memberWeightField,
			teamsField,
			{Name: "group", Read: func(v value, _ *draft) { v.Problem("only a tier can be a group; write it there") }},
		}),
		Also: keysOrTeams,
	}
)
