package tenants

import (
	"slices"

	"github.com/llmgov/llmgov/internal/strictyaml"
)

// LimitsMode is how gateways that share a store keep tenants' own limits together, of the calls to one pool. The zero
// value is LimitsLeased.
type LimitsMode string

const (
	// LimitsLeased has each gateway hold a part of a limit, and ask for more before it is used up.
	LimitsLeased LimitsMode = "leased"
	// LimitsCachedDeny is LimitsStrict, but what the store refused is refused until there may be room again.
	LimitsCachedDeny LimitsMode = "cached_deny"
	// LimitsStrict asks the store for each call.
	LimitsStrict LimitsMode = "strict"
)

// limitsModes are they, as files name them.
var limitsModes = []string{string(LimitsLeased), string(LimitsCachedDeny), string(LimitsStrict)}

var tenantLimitsField = field[Pool]{
	Name: "tenant_limits", About: "How gateways that share a store keep tenants' own limits together: leased has each hold a part of them, and ask for more before it is used up; strict asks the store for each call; cached_deny as well, but not again before there may be room.",
	Kind: strictyaml.WordKind(limitsModes...), Read: func(v value, p *Pool) { p.TenantLimits = readLimitsMode(v) },
	Start: func(*Pool) any { return string(LimitsLeased) },
}

func readLimitsMode(v value) LimitsMode {
	text, ok := v.Scalar()
	if !ok {
		return LimitsLeased
	}
	if complaint := LimitsMode(text).complain(); complaint != "" {
		v.Problem("%s %s", v.Say(text), complaint)
		return LimitsLeased
	}
	return LimitsMode(text)
}

// complain says what is wrong with a mode that is written.
func (m LimitsMode) complain() string {
	if slices.Contains(limitsModes, string(m)) {
		return ""
	}
	return "is not a way to keep limits together; " + strictyaml.AdviseWord(string(m), limitsModes)
}
