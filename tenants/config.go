package tenants

import (
	"time"

	"github.com/llmgov/llmgov/governor/terms"
)

// Config is the config file: everything that is not a tier or a tenant. Start from [DefaultConfig] when making one in
// code. In a [Snapshot] it is read-only.
type Config struct {
	// Listen is the address of the data side, host:port. Port 0 picks a free one. Default ":8080".
	Listen string `koanf:"listen"`
	// H2C lets clients speak HTTP/2 without TLS to Listen, by prior knowledge.
	H2C bool `koanf:"h2c"`
	// Healthz says whether Listen answers GET /healthz, without a key.
	Healthz bool `koanf:"healthz"`
	// LeanHTTP says whether plain HTTP/1.1, of clients and to upstreams, is spoken by llmgov's own code. Otherwise net/http speaks all, at a
	// higher cost. Default true.
	LeanHTTP bool `koanf:"lean_http"`
	// MaxConnections is how many connections Listen has at most; further ones wait to be accepted. Default 10,000.
	MaxConnections int64 `koanf:"max_connections"`
	// TLS is spoken at all listeners that have none of their own.
	TLS TLS `koanf:"tls"`
	// Admin is the listener for metrics, the console and the admin API.
	Admin Admin `koanf:"admin"`
	// Admission is the listener for other gateways and programs that ask before they call a model themselves.
	Admission Admission `koanf:"admission"`
	// Node names this process among its like. Empty, the default, leaves the choice to whoever starts it.
	Node string `koanf:"node"`
	// Region is where this process runs. Default "local".
	Region string `koanf:"region"`
	// Store is where limits are shared with other gateways: the URL of a PostgreSQL database or of Redis. "memory", the default,
	// shares nothing.
	Store string `koanf:"store"`
	// DefaultPool serves routes that name no model. Left empty it becomes the only pool, when there is only one.
	DefaultPool string `koanf:"default_pool"`
	// StateDir is the folder in which a single node keeps the state that must outlive a restart. Empty, the default, keeps
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

	// Metrics bounds the series of tenants.
	Metrics Metrics `koanf:"metrics"`
	// MaxTenants is how many tenants and teams the policy files may have together. Default 200,000.
	MaxTenants int64 `koanf:"max_tenants"`

	// Upstreams are the providers, sorted by name in a Snapshot.
	Upstreams []Upstream `koanf:"-"`
	// Pools are the shared capacities, sorted by name in a Snapshot.
	Pools []Pool `koanf:"-"`
	// Named says that a program names the tenants of its calls, which then need no keys. It is none of the file: see [Options].
	Named bool `koanf:"-"`
	// Identity says whose tokens count as keys.
	Identity Identity `koanf:"-"`
	// Notify are the webhooks that are told of what somebody should know.
	Notify []Webhook `koanf:"-"`
	// Prices are the costs of models' tokens, sorted by model in a Snapshot. [Snapshot.Price] finds one.
	Prices []ModelPrice `koanf:"-"`
	// Listed are prices of lists, by exact names, of models that Prices does not name.
	Listed []ModelPrice `koanf:"-"`
}

// Admin is the listener for operators.
type Admin struct {
	// Listen is host:port. Anything but loopback needs a token. Default "127.0.0.1:9090".
	Listen string `koanf:"listen"`
	// Token is the bearer token of callers, of at least 16 characters; empty asks for none.
	Token string `koanf:"token"`
	// UnreadyOnStoreLoss says when /readyz fails because the gateway is cut off from its store: UnreadyAlone, which is
	// the default, UnreadyAlways or UnreadyNever.
	UnreadyOnStoreLoss string `koanf:"unready_on_store_loss"`
	// TLS is spoken there. In a Snapshot it is that of the Config, if it was left out.
	TLS TLS `koanf:"tls"`
	// Roles are those of callers who may do less than whoever has the Token. The first that fits a caller counts.
	Roles []AdminRole `koanf:"-"`
	// Proxy is one in front that knows who calls.
	Proxy AdminProxy `koanf:"-"`
}

// TLS names the files of a listener's certificate, in PEM. A relative one is below the working directory. They are followed: what changes in
// them holds for the connections made after that.
type TLS struct {
	// Cert is the certificate, followed by those between it and its root. Empty, the default, is without TLS; of the admin and the admission
	// listener it is as for all, and NoTLS is without TLS.
	Cert string `koanf:"cert"`
	// Key is its private key.
	Key string `koanf:"key"`
	// ClientCA has the roots of clients' certificates. Unless it is empty, which is the default, clients must present one.
	ClientCA string `koanf:"client_ca"`
}

// NoTLS is a TLS.Cert by which a listener has none, although others have.
const NoTLS = "none"

// or is t, or that of all listeners where it says nothing.
func (t TLS) or(all TLS) TLS {
	switch t.Cert {
	case "":
		return all
	case NoTLS:
		return TLS{}
	}
	return t
}

// The values of Admin.UnreadyOnStoreLoss.
const (
	UnreadyAlone  = "alone"  // if another gateway has the store
	UnreadyAlways = "always" // whether others have it or not
	UnreadyNever  = "never"
)

// Admission is the listener for gateways and programs that call models themselves, and reserve before they do.
type Admission struct {
	// Listen is host:port. Anything but loopback needs a token. Empty, the default, listens nowhere.
	Listen string `koanf:"listen"`
	// Token is the bearer token of callers that may name any tenant, of at least 16 characters. Others present the key
	// of a tenant, and reserve for that one alone.
	Token string `koanf:"token"`
	// Tenant is where calls of a proxy with external processing name their tenant: "key", which is that of the caller,
	// "header NAME" or "metadata NAMESPACE PATH". Default "key".
	Tenant string `koanf:"tenant"`
	// Descriptors are the names of the entries by which a proxy that asks the rate limit service describes a call.
	// Default "tenant=tenant key=key model=model pool=pool".
	Descriptors string `koanf:"descriptors"`
	// MostOpen is how many reservations may be open, in all. A tenant may have as many as there are places left.
	// Default 20,000.
	MostOpen int64 `koanf:"most_open"`
	// TLS is spoken there. In a Snapshot it is that of the Config, if it was left out.
	TLS TLS `koanf:"tls"`
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
	// UpstreamHeader is how long an upstream may take to begin a stream. Default 120s.
	UpstreamHeader time.Duration `koanf:"upstream_header"`
	// UpstreamAnswer is how long it may take to begin another answer, which it does when that is ready. Default 600s, as long as SDKs
	// wait.
	UpstreamAnswer time.Duration `koanf:"upstream_answer"`
	// StreamIdle is the longest silence inside a stream. Default 120s.
	StreamIdle time.Duration `koanf:"stream_idle"`
	// Drain is how long a shutdown waits for calls in flight, listening for the first sixth
	// of it; 0 does not wait. Default 30s.
	Drain time.Duration `koanf:"drain"`
}

// Upstream is one provider.
type Upstream struct {
	// Name is the one that pools use.
	Name string
	// BaseURL is absolute, http or https; a slash at its end is removed. Only that of an azure has a query, which is
	// api-version=….
	BaseURL string
	// APIKey is sent to the provider; empty sends none.
	APIKey string
	// Kind is the provider's dialect: OpenAI, which is the default, Azure or Anthropic.
	Kind string
	// TLS is how an upstream at https is trusted, and what is shown to it.
	TLS UpstreamTLS `json:",omitzero"`
	// Heed says what the limits that the upstream declares, and their use by others, may do: HeedLower, which "" becomes, HeedOff or HeedFollow.
	Heed string
	// LimitsAPI says how the upstream is asked for its list of limits.
	LimitsAPI LimitsAPI `json:",omitzero"`
	// Engine says how to read the load of the upstream's own server.
	Engine Engine `json:",omitzero"`
}

// The kinds of upstreams.
const (
	OpenAI    = "openai"
	Azure     = "azure"
	Anthropic = "anthropic"
)

// What declared limits may do; see Upstream.
const (
	HeedLower  = "lower"
	HeedOff    = "off"
	HeedFollow = "follow"
)

// The bounds of a config's values.
const (
	maxHeadroomPPM = 499_999
	maxSoftCapPPM  = 999_999
	maxHoldBackPPM = 999_999
	maxBurst       = time.Minute
	maxTicketWait  = time.Hour
	maxTimeout     = 24 * time.Hour
	maxBodyBytes   = 16 << 30
	maxConnections = 1_000_000
	maxIdle        = 31 * 24 * time.Hour
	maxOpen        = 1_000_000
	maxQueue       = 10_000_000
	maxNodes       = 1000
	maxLogSize     = 1 << 40
	maxLogsKept    = 1000
	maxTokenWeight = 1000
)

// DefaultConfig is the config of an empty file, if that could do without pools and upstreams.
func DefaultConfig() Config {
	return Config{
		Listen: ":8080",
		Admin:  Admin{Listen: "127.0.0.1:9090", UnreadyOnStoreLoss: UnreadyAlone},

		LeanHTTP:       true,
		MaxConnections: 10_000,
		MaxTenants:     200_000,
		Metrics:        Metrics{Tenants: 2000, Idle: time.Hour},
		Admission:      Admission{Tenant: "key", Descriptors: "tenant=tenant key=key model=model pool=pool", MostOpen: 20_000},

		Region:   "local",
		Store:    "memory",
		Timezone: "UTC",
		Timeouts: Timeouts{
			ReadHeader: 10 * time.Second, UpstreamHeader: 2 * time.Minute, UpstreamAnswer: 10 * time.Minute,
			StreamIdle: 2 * time.Minute, Drain: 30 * time.Second,
		},
		MaxBody:     32 << 20,
		BodyMemory:  BodyMemory{Process: 128 << 20, Tenant: 32 << 20},
		DecisionLog: DecisionLog{MaxSize: 100 << 20, Keep: 5},
		Policies:    []string{"tenants/*.yaml"},
	}
}

// Metrics bounds the series of tenants in /metrics.
type Metrics struct {
	// Tenants is how many have series of their own, counted once for each pool; the others have them together. Default 2,000.
	Tenants int64 `koanf:"tenants"`
	// Idle is how long after its last call a tenant has none any more. Default an hour.
	Idle time.Duration `koanf:"idle"`
}

// microUSD is one US dollar in the unit that money is kept in.
const microUSD = 1_000_000

// Price is what calls of a model cost; package terms describes it.
type Price = terms.Price

// ModelPrice is the price of a model, or of every model that a glob stands for.
type ModelPrice struct {
	Model string
	Price
}
