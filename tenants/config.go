package tenants

import "time"

// Config is the config file: everything that is not a tier or a tenant. Start from [DefaultConfig] when making one in
// code. In a [Snapshot] it is read-only.
type Config struct {
	// Listen is the address of the data side, host:port. Port 0 picks a free one. Default ":8080".
	Listen string `koanf:"listen"`
	// H2C lets clients speak HTTP/2 without TLS to Listen, by prior knowledge.
	H2C bool `koanf:"h2c"`
	// MaxConnections is how many connections Listen has at most; further ones wait to be accepted. Default 10,000.
	MaxConnections int64 `koanf:"max_connections"`
	// Admin is the listener for metrics, the console and the admin API.
	Admin Admin `koanf:"admin"`
	// Node names this process among its like. Empty, the default, leaves the choice to whoever starts it.
	Node string `koanf:"node"`
	// Region is where this process runs. Default "local".
	Region string `koanf:"region"`
	// Store is where limits are shared with other gateways: the URL of a PostgreSQL database or of Redis. "memory", the default,
	// shares nothing.
	Store string `koanf:"store"`
	// DefaultPool serves routes that name no model. Left empty it becomes the only pool, when there is only one.
	DefaultPool string `koanf:"default_pool"`
	// StateDir is the folder in which a single node keeps what must outlive a restart. Empty, the default, keeps
	// nothing. A relative one is below the working directory.
	StateDir string `koanf:"state_dir"`
	// KeysFile is the file of keys made and revoked at run time. Empty, the default, is beside the config file, and named
	// after it: llmgov.keys.yaml of llmgov.yaml. A relative one is relative to the config file. [Build] reads no file.
	KeysFile string `koanf:"keys_file"`
	// Timezone is the IANA name of the zone in which budgets' days, weeks and months begin; see [Snapshot.Location].
	// Default "UTC", which empty becomes.
	Timezone string `koanf:"timezone"`
	// Timeouts bound how long each stage may take.
	Timeouts Timeouts `koanf:"timeouts"`
	// MaxBody is the largest request body, in bytes. Default 32 MiB.
	MaxBody int64 `koanf:"max_body"`
	// BodyMemory bounds how much memory bodies may take together.
	BodyMemory BodyMemory `koanf:"body_memory"`
	// DecisionLog is where decisions are written down.
	DecisionLog DecisionLog `koanf:"decision_log"`
	// Policies are the globs of the policy files, relative to the config file. Default "tenants/*.yaml".
	// [Build] takes tenants instead and does not look at them.
	Policies []string `koanf:"policies"`

	// Upstreams are the providers, sorted by name in a Snapshot.
	Upstreams []Upstream `koanf:"-"`
	// Pools are the shared capacities, sorted by name in a Snapshot.
	Pools []Pool `koanf:"-"`
	// Prices are what tokens of models cost, sorted by model in a Snapshot. [Snapshot.Price] finds one.
	Prices []ModelPrice `koanf:"-"`
}

// Admin is the listener for operators.
type Admin struct {
	// Listen is host:port. Anything but loopback needs a token. Default "127.0.0.1:9090".
	Listen string `koanf:"listen"`
	// Token is what callers present, of at least 16 characters; empty asks for none.
	Token string `koanf:"token"`
}

// BodyMemory bounds the memory of request bodies, from before they are read until the upstream has them.
type BodyMemory struct {
	// Process is for all bodies together, in bytes: at least twice Tenant. Default 128 MiB.
	Process int64 `koanf:"process"`
	// Tenant is for those of one tenant or team, in bytes: at least MaxBody. Default 32 MiB. Bodies up to 64 KiB count
	// only when such bodies fill a quarter of Process.
	Tenant int64 `koanf:"tenant"`
}

// DecisionLog is the log of all decisions, in files that are rotated.
type DecisionLog struct {
	// Path is the file. Empty, the default, writes none. A relative one is below the working directory.
	Path string `koanf:"path"`
	// MaxSize is how large a file may grow, in bytes. Default 100 MiB.
	MaxSize int64 `koanf:"max_size"`
	// Keep is how many older files are kept. Default 5.
	Keep int64 `koanf:"keep"`
}

// Timeouts bound the stages of a request and of a shutdown.
type Timeouts struct {
	// ReadHeader is how long a client may take to send its request's headers. Default 10s.
	ReadHeader time.Duration `koanf:"read_header"`
	// UpstreamHeader is how long an upstream may take to begin its answer. Default 120s.
	UpstreamHeader time.Duration `koanf:"upstream_header"`
	// StreamIdle is the longest silence inside a stream. Default 120s.
	StreamIdle time.Duration `koanf:"stream_idle"`
	// Drain is how long a shutdown waits for what is in flight, listening for the first sixth
	// of it; 0 does not wait. Default 30s.
	Drain time.Duration `koanf:"drain"`
}

// Upstream is one provider.
type Upstream struct {
	// Name is what pools call it.
	Name string
	// BaseURL is absolute, http or https; a slash at its end is removed. Only that of an azure has a query, which is
	// api-version=….
	BaseURL string
	// APIKey is sent to the provider; empty sends none.
	APIKey string
	// Kind is the provider's dialect: OpenAI, which is the default, Azure or Anthropic.
	Kind string
}

// The kinds of upstreams.
const (
	OpenAI    = "openai"
	Azure     = "azure"
	Anthropic = "anthropic"
)

// PoolUpstream is one of a pool's upstreams.
type PoolUpstream struct {
	// Name is that of the Upstream.
	Name string
	// Weight is its part of the calls, beside the weights of the others: 1 to 1000. 0 becomes 1.
	Weight int64
}

// Accounting is the rule by which a pool counts tokens; it mirrors how the pool's provider counts.
type Accounting string

// The rules of accounting.
const (
	// AdmitMax counts input and the greatest possible output on admission, and gives back what was not used.
	AdmitMax Accounting = "admit_max"
	// Production counts tokens when they are produced.
	Production Accounting = "production"
	// SettleOnly counts the whole call when it ends.
	SettleOnly Accounting = "settle"
)

// Law is how an adaptive limit on calls in flight moves.
type Law string

const (
	// Gradient lowers it to what runs less what waits upstream, which it reads from latency.
	Gradient Law = "gradient"
	// AIMD lowers it by a tenth when calls take a fifth longer than at rest, and raises it by one.
	AIMD Law = "aimd"
)

// TokenWeights says what each kind of token counts for, in thousandths: 1000 is one token.
type TokenWeights struct{ Input, CachedInput, Output, Reasoning, Audio int64 }

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
	// TPM, RPM and Concurrency are the limits on tokens and requests in a rolling minute and on calls in flight.
	// 0 turns an axis off; at least one must be on.
	TPM, RPM, Concurrency int64
	// InteractiveReserve is how many of Concurrency's slots background calls leave free: less than Concurrency. 0, the
	// default, is none.
	InteractiveReserve int64
	// Adaptive is the law by which the limit on calls in flight moves, between MinConcurrency, which becomes 4 when it is 0, and
	// Concurrency. It is "" where it does not, and then MinConcurrency is 0.
	Adaptive       Law
	MinConcurrency int64
	// Accounting is AdmitMax when left empty.
	Accounting Accounting
	// TokenWeights are all 1000 when left all zero.
	TokenWeights TokenWeights
	// DefaultMaxOutput is what a call is held at that declares no maximum, in tokens. 0 becomes 4096.
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
	// MaxQueue is how many calls may wait. 0 becomes 10000.
	MaxQueue int
	// Budgets are shared by the pool's tenants, by weight.
	Budgets []Budget
	// StoreLoss is what happens to TPM and RPM when a store that shares them cannot be asked.
	StoreLoss StoreLoss
	// TenantLimits is how its calls are counted against tenants' own limits, where a store shares these. "" becomes
	// LimitsLeased.
	TenantLimits LimitsMode
	// ExpectNodes is how many gateways share the store; 0 is not known. After a loss of its data, or when it is new,
	// granting begins when so many have told what they used, instead of a minute later.
	ExpectNodes int
}

// The bounds of what a config may say.
const (
	maxHeadroomPPM = 499_999
	maxBurst       = time.Minute
	maxTicketWait  = time.Hour
	maxTimeout     = 24 * time.Hour
	maxBodyBytes   = 16 << 30
	maxConnections = 1_000_000
	maxQueue       = 10_000_000
	maxNodes       = 1000
	maxLogSize     = 1 << 40
	maxLogsKept    = 1000
	maxTokenWeight = 1000 * 1000
)

// DefaultConfig is what an empty config file would mean, if it could do without pools and upstreams.
func DefaultConfig() Config {
	return Config{
		Listen: ":8080",
		Admin:  Admin{Listen: "127.0.0.1:9090"},

		MaxConnections: 10_000,

		Region:   "local",
		Store:    "memory",
		Timezone: "UTC",
		Timeouts: Timeouts{
			ReadHeader: 10 * time.Second, UpstreamHeader: 2 * time.Minute,
			StreamIdle: 2 * time.Minute, Drain: 30 * time.Second,
		},
		MaxBody:     32 << 20,
		BodyMemory:  BodyMemory{Process: 128 << 20, Tenant: 32 << 20},
		DecisionLog: DecisionLog{MaxSize: 100 << 20, Keep: 5},
		Policies:    []string{"tenants/*.yaml"},
	}
}

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
	if p.TenantLimits == "" {
		p.TenantLimits = LimitsLeased
	}
	if p.TokenWeights == (TokenWeights{}) {
		p.TokenWeights = TokenWeights{1000, 1000, 1000, 1000, 1000}
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
