package tenants

import "slices"

// The shapes of a policy file. A tenant's keys are a tier's, and those that only one of many can have.
var (
	policyShape = shape[policy]{fields: []field[policy]{
		{
			name: "tiers", about: "Templates for tenants, by name.", read: func(v value, p *policy) { p.readTiers(v) },
			kind: mapOf(anyName, func() schema { start := newDraft(nil); return tierShape.schema(&start) }, 0),
		},
		{
			name: "tenants", about: "Who may call, by name.", read: func(v value, p *policy) { p.keepTenants(v) },
			kind: mapOf(tenantName, func() schema { return tenantShape.schema(nil) }, 0),
		},
		{
			name: "shadow", about: "What all tenants of this file have for shadow that do not say it themselves.", kind: boolKind,
			read: func(v value, p *policy) { p.shadow = &shade{v.boolean(), v.r.place(v.path)} },
		},
	}, also: schema{"dependentSchemas": schema{"shadow": schema{ // of whom, else?
		"required": []any{"tenants"}, "properties": schema{"tenants": schema{"minProperties": 1}},
	}}}}

	tierShape = shape[draft]{
		fields: slices.Concat(commonFields, []field[draft]{
			{
				name: "group", about: "Its tenants have its weight together, not each, and share it by tenant_weight.", kind: boolKind,
				read: func(v value, t *draft) { t.group = v.boolean() }, start: func(t *draft) any { return t.group },
			},
			memberWeightField,
			{name: "teams", read: func(v value, _ *draft) { v.problem("belong to a tenant; write them there") }},
		}),
		also: schema{"dependentSchemas": schema{"tenant_weight": schema{ // only a group has members to weigh
			"required": []any{"group"}, "properties": schema{"group": schema{"not": schema{"const": false}}},
		}}},
	}

	tenantShape = shape[draft]{
		fields: slices.Concat([]field[draft]{
			{
				name: "tier", about: "The tier that it starts from. Every other key replaces what the tier says.", kind: nameKind,
				read: func(value, *draft) {}, // read first, by readTenants: the other keys override what it brings
			},
		}, ownFields, commonFields, []field[draft]{
			memberWeightField,
			teamsField,
			{name: "group", read: func(v value, _ *draft) { v.problem("only a tier can be a group; write it there") }},
		}),
		also: keysOrTeams,
	}
)
