package tenants

import (
	"regexp"
	"slices"
	"strings"

	"github.com/llmgov/llmgov/internal/lib/strictyaml"
)

var serviceTier = regexp.MustCompile(`^[a-z0-9][a-z0-9_.-]*$`)

// usualTiers are names of what a call gets that names no tier of service. Every call may name them.
var usualTiers = []string{"auto", "default", "standard", "standard_only", "on_demand"}

// MayAskFor reports whether calls of the tenant may name a provider's tier of service.
func (t *Tenant) MayAskFor(tier string) bool {
	return t.ServiceTiers == nil || slices.Contains(usualTiers, tier) || slices.Contains(t.ServiceTiers, tier)
}

var serviceTierList = strictyaml.ListOf(strictyaml.TextKind(serviceTier.String()), 1, true)

// serviceTiersShape is a list that says what becomes of other tiers.
var serviceTiersShape = shape[draft]{
	Fields: []field[draft]{
		{
			Name: "only", About: "The tiers of service that its calls may name.", Kind: serviceTierList,
			Read: func(v value, t *draft) { t.ServiceTiers = readTierList(v) }, Need: "write the tiers that calls may name, such as only: [flex]",
		},
		{
			Name: "else", About: "Whether calls that name others are refused, as they are if it is left out, or ask for the usual tier instead.", Kind: strictyaml.WordKind("refuse", "lower"),
			Read: func(v value, t *draft) {
				strictyaml.OneOf(v, &t.LowerTiers, map[string]bool{"refuse": false, "lower": true})
			},
		},
	},
	Short: "only",
}

func readTierList(v value) []string {
	list := v.Texts(func(it value) string {
		text, ok := it.Scalar()
		if ok && !serviceTier.MatchString(text) {
			it.Problem("%s is no tier of service; write one as calls name it, such as flex", it.Say(text))
		}
		return text
	})
	if v.IsList() && len(list) == 0 {
		v.Problem("is empty; write default to allow no other tier than the usual one, or remove the key to allow all")
	}
	return list
}

// inheritTiers gives a team the tiers of service of its parent, of which its own have to be some.
func (c *compiler) inheritTiers(t, parent *Tenant) {
	if t.ServiceTiers == nil {
		t.ServiceTiers = parent.ServiceTiers
		t.LowerTiers = parent.LowerTiers
	}
	for _, tier := range t.ServiceTiers {
		if !parent.MayAskFor(tier) {
			c.r.At(strictyaml.Child(t.path(), "service_tiers"), "%s: its parent %s has %s alone; allow it there too, or remove it",
				strictyaml.Show(tier), strictyaml.Show(parent.Name), strings.Join(parent.ServiceTiers, ", "))
		}
	}
}
