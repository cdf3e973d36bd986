package tenants

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

var affinities = words[Affinity]{"an affinity", []Affinity{AffinityNone, AffinitySession, AffinityMessages}}

var affinityField = field[Pool]{
	Name: "affinity", About: "Which calls go to the same upstream of several, because it has the beginning of their prompts cached: those that name the same session; messages: also those with the same first messages; none.",
	Kind: affinities.kind(), Read: func(v value, p *Pool) { p.Affinity = affinities.read(v, AffinitySession) },
	Start: func(p *Pool) any { return string(p.Affinity) },
}
