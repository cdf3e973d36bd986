package tenants

import "time"

// Accounting is the rule by which a pool counts tokens; it mirrors how the pool's provider counts.
type Accounting string

// The rules of accounting.
const (
	// AdmitMax counts input and the greatest possible output on admission, and gives back the unused part.
	AdmitMax Accounting = "admit_max"
	// Production counts tokens when they are produced.
	Production Accounting = "production"
	// SettleOnly counts the whole call when it ends.
	SettleOnly Accounting = "settle"
)

// Law is how an adaptive limit on calls in flight moves.
type Law string

const (
	// Gradient lowers it to the calls in flight less those that wait upstream, whose number it derives from latency.
	Gradient Law = "gradient"
	// AIMD lowers it by a tenth when calls take a fifth longer than at rest, and raises it by one.
	AIMD Law = "aimd"
)

// TokenWeights are the costs of a token of each kind, in tokens: whole thousandths.
type TokenWeights struct{ Input, CachedInput, Output, Reasoning, Audio float64 }

// Pool is one shared upstream capacity. Start from [DefaultPool] when making one in code.
type Pool struct {
	Name string
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
	// TPM, RPM, ITPM, OTPM and Concurrency are the limits on tokens, requests, input tokens and output tokens in a rolling minute,
	// and on calls in flight. 0 turns an axis off; at least one must be on.
	TPM, RPM, ITPM, OTPM, Concurrency int64
	// InteractiveReserve is how many of Concurrency's slots background calls leave free: less than Concurrency. 0, the
	// default, is none.
	InteractiveReserve int64
	// SoftCapPPM is how many of Concurrency's slots one tenant may have once half of them are in use, in millionths: less than
	// all. 0, the default, is no cap.
	SoftCapPPM int64
	// HoldBackPPM is how many of Concurrency's slots calls of the lowest band leave free (Tenant.Below), in millionths: less than all. 0,
	// the default, is none.
	HoldBackPPM int64
	// Adaptive is the law by which the limit on calls in flight moves, between MinConcurrency, which becomes 4 when it is 0, and
	// Concurrency. It is "" where it does not, and then MinConcurrency is 0.
	Adaptive       Law
	MinConcurrency int64
	// PerTenant lets a tenant whose calls the upstream fails run fewer of them at once for a time. It needs Concurrency.
	PerTenant bool
	// Accounting is AdmitMax when left empty.
	Accounting Accounting
	// TokenWeights are all 1 when left all zero.
	TokenWeights TokenWeights
	// DefaultMaxOutput is the assumed maximum of a call that declares none, in tokens. 0 becomes 4096.
	DefaultMaxOutput int64
	// HeadroomPPM is the part of each limit that is left unused, in millionths: 10000 is 1 %. 0 is none.
	HeadroomPPM int64
	// Burst is how much unused rate an idle pool may hand out at once. It is 10s unless BurstSet.
	Burst time.Duration
	// BurstSet says that Burst was chosen and is not the default.
	BurstSet bool
	// TicketWait is how long a call may wait that was refused and comes back when told, whatever its tenant's MaxWait.
	// 0 gives no tickets; [DefaultPool] gives 10s.
	TicketWait time.Duration
	// UpstreamHeader and UpstreamAnswer are how long its upstreams may take to begin a stream and another answer. 0 is as Timeouts say.
	UpstreamHeader, UpstreamAnswer time.Duration
	// MaxQueue is how many calls may wait. 0 becomes 10000.
	MaxQueue int
	// Budgets are shared by the pool's tenants, by weight.
	Budgets []Budget
	// StoreLoss is the rule for TPM and RPM when a store that shares them cannot be asked.
	StoreLoss StoreLoss
	// TenantLimits is how its calls are counted against tenants' own limits, where a store shares these. "" becomes
	// LimitsLeased.
	TenantLimits LimitsMode
	// ExpectNodes is how many gateways share the store; 0 is not known. After a loss of its data, or when it is new,
	// granting begins when so many have reported their usage, instead of a minute later.
	ExpectNodes int
}

// Alias is a name that clients may ask for, and the model's own name, which the upstream is sent.
type Alias struct{ Name, Model string }

// LimitsMode is how gateways that share a store keep tenants' own limits together, of the calls to one pool. The zero
// value is LimitsLeased.
type LimitsMode string

const (
	// LimitsLeased has each gateway hold a part of a limit, and ask for more before it is used up.
	LimitsLeased LimitsMode = "leased"
	// LimitsCachedDeny is LimitsStrict, but a call that the store refused is refused without asking until there may be room again.
	LimitsCachedDeny LimitsMode = "cached_deny"
	// LimitsStrict asks the store for each call.
	LimitsStrict LimitsMode = "strict"
)

// StoreLoss is a pool's rule for the time when the store that shares its limits out between gateways cannot be asked, and
// its grant has expired. The zero value is StoreLossClosed.
type StoreLoss struct {
	Rule StoreLossRule
	// LocalPPM is, of StoreLossLocal, the part of tpm and rpm that is withheld from grants at all times, in millionths.
	// Those who are cut off have it together.
	LocalPPM int64
}

// StoreLossRule says which.
type StoreLossRule string

// The rules.
const (
	// StoreLossClosed hands out nothing.
	StoreLossClosed StoreLossRule = "closed"
	// StoreLossOpen hands out the whole limit, in each gateway.
	StoreLossOpen StoreLossRule = "open"
	// StoreLossLocal hands out the part that was withheld.
	StoreLossLocal StoreLossRule = "local"
)

// DefaultPool is a pool as a config file begins it. It has no limit yet.
func DefaultPool(name string, models ...string) Pool {
	p := Pool{Name: name, Models: models, HeadroomPPM: 10_000, TicketWait: 10 * time.Second}
	p.fill()
	return p
}

// fill puts defaults where the zero value stands for "not said".
func (p *Pool) fill() {
	if p.Accounting == "" {
		p.Accounting = AdmitMax
	}
	if p.Affinity == "" {
		p.Affinity = AffinitySession
	}
	if p.TenantLimits == "" {
		p.TenantLimits = LimitsLeased
	}
	if p.TokenWeights == (TokenWeights{}) {
		p.TokenWeights = TokenWeights{1, 1, 1, 1, 1}
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
	if p.Adaptive != "" && p.MinConcurrency == 0 {
		p.MinConcurrency = min(4, p.Concurrency)
	}
}

// mostFound is max where an adaptive limit does not say it.
const mostFound = 256
