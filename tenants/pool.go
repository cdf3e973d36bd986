package tenants

import (
	"time"

	"github.com/llmgov/llmgov/governor/terms"
)

// The values of pools; package terms describes them.
type (
	Accounting   = terms.Accounting
	Law          = terms.Law
	TokenWeights = terms.TokenWeights
)

// The rules of accounting, and the laws of adaptive limits.
const (
	AdmitMax   = terms.AdmitMax
	Production = terms.Production
	SettleOnly = terms.SettleOnly

	Gradient = terms.Gradient
	AIMD     = terms.AIMD
)

// Pool is one shared upstream capacity. Start from [DefaultPool] when making one in code.
type Pool struct {
	// Pool is what the governor is told of it, but for its Upstreams. Its zero values become those of [DefaultPool].
	terms.Pool
	// Index is the pool's place in [Snapshot.Pools].
	Index int
	// Models are the names and globs that this pool serves, the names of Aliases among them.
	Models []string
	// Aliases are those of Models that the upstream knows by another name; sorted by name.
	Aliases []Alias
	// Upstreams are the providers that share the pool's calls by weight; in a Snapshot at least one. Left empty it
	// becomes the only one there is, when there is only one.
	Upstreams []PoolUpstream
	// Affinity is AffinitySession when left empty. It has no effect with one upstream.
	Affinity Affinity
	// Headers are those that upstreams get beside the call's own; sorted by name.
	Headers []Header
	// DefaultMaxOutput is the assumed maximum of a call that declares none, in tokens. 0 becomes 4096.
	DefaultMaxOutput int64
	// Ranges are those of limits of a minute that move, by axis.
	Ranges [terms.Timed]Range `json:",omitzero"`
	// Ramp is by how many times use may grow in a minute; 0 is by any.
	Ramp float64 `json:",omitempty"`
	// BurstSet says that Burst was chosen and is not the default.
	BurstSet bool
	// UpstreamHeader and UpstreamAnswer are how long its upstreams may take to begin a stream and another answer. 0 is as Timeouts say.
	UpstreamHeader, UpstreamAnswer time.Duration
	// OtherTiers says, in a Snapshot, that one of its upstreams has words of its own for tiers of service.
	OtherTiers bool `json:"-"`
}

// Alias is a name that clients may ask for, and the model's own name, which the upstream is sent.
type Alias struct{ Name, Model string }

// DefaultPool is a pool as a config file begins it. It has no limit yet.
func DefaultPool(name string, models ...string) Pool {
	p := Pool{Pool: terms.Pool{Name: name, HeadroomPPM: 10_000, TicketWait: 10 * time.Second}, Models: models}
	p.fill()
	return p
}

// fill puts defaults where the zero value stands for "not said".
func (p *Pool) fill() {
	if p.Affinity == "" {
		p.Affinity = AffinitySession
	}
	if p.Weights == (TokenWeights{}) {
		p.Weights = TokenWeights{Input: 1, CachedInput: 1, Output: 1, Reasoning: 1, Audio: 1}
	}
	p.beginAt()
	if p.DefaultMaxOutput == 0 {
		p.DefaultMaxOutput = 4096
	}
	if !p.BurstSet {
		p.Burst = 10 * time.Second
	}
	if p.MaxQueue == 0 {
		p.MaxQueue = 10_000
	}
}

// beginAt completes an adaptive limit that does not say where it begins.
func (p *Pool) beginAt() {
	if p.Adapts() && p.MinConcurrency == 0 {
		p.MinConcurrency = min(4, p.Concurrency)
	}
}

// mostFound is max where an adaptive limit does not say it.
const mostFound = 256
