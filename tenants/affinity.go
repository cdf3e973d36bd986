package tenants

import (
	"slices"

	"github.com/llmgov/llmgov/internal/strictyaml"
)

// Affinity says which calls of a pool go to the same upstream, because it has the beginning of their prompts cached.
type Affinity string

const (
	// AffinityNone has all calls spread by weight, in turn.
	AffinityNone Affinity = "none"
	// AffinitySession has calls with the same session id, or prompt_cache_key, go together.
	AffinitySession Affinity = "session"
	// AffinityMessages has calls without one go together if their first messages are the same.
	AffinityMessages Affinity = "messages"
)

// affinities are they, as files name them.
var affinities = []string{string(AffinityNone), string(AffinitySession), string(AffinityMessages)}

var affinityField = field[Pool]{
	Name: "affinity", About: "Which calls go to the same upstream of several, because it has the beginning of their prompts cached: those that name the same session; messages: also those with the same first messages; none.",
	Kind: strictyaml.WordKind(affinities...), Read: func(v value, p *Pool) { p.Affinity = readAffinity(v) },
	Start: func(p *Pool) any { return string(p.Affinity) },
}

func readAffinity(v value) Affinity {
	text, ok := v.Scalar()
	if !ok {
		return AffinitySession
	}
	if complaint := Affinity(text).complain(); complaint != "" {
		v.Problem("%s %s", v.Say(text), complaint)
		return AffinitySession
	}
	return Affinity(text)
}

// complain is the mistake in an affinity that is written.
func (a Affinity) complain() string {
	if slices.Contains(affinities, string(a)) {
		return ""
	}
	return "is not an affinity; " + strictyaml.AdviseWord(string(a), affinities)
}
