package tenants

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/llmgov/llmgov/internal/lib/strictyaml"
)

// setting is one key that the file, the environment and the flags can all give: everything outside of pools and
// upstreams.
type setting struct {
	key   string // as in the file: admin.listen
	about string // for the authors of files
	form
	get func(*Config) any
}

// form is how values of a setting are written. parse answers the typed value, or a complaint that follows the value in a message.
type form struct {
	kind   kind
	parse  func(text string) (any, string)
	secret bool // never shown
}

func formOf[T any](of kind, parse func(string) (T, string)) form {
	return form{kind: of, parse: func(text string) (any, string) { return parse(text) }}
}

var settings = slices.Concat(general, tlsSettings("tls.", func(c *Config) *TLS { return &c.TLS }),
	tlsSettings("admin.tls.", func(c *Config) *TLS { return &c.Admin.TLS }), tlsSettings("admission.tls.", func(c *Config) *TLS { return &c.Admission.TLS }))

// tlsSettings are those of one listener's TLS, or of all listeners'.
func tlsSettings(prefix string, of func(*Config) *TLS) []setting {
	file := pathTo("a file, such as /etc/llmgov/tls.crt")
	return []setting{
		{prefix + "cert", "The file of the certificate and those between it and its root, in PEM. Left empty: without TLS, or as all listeners.", file, func(c *Config) any { return of(c).Cert }},
		{prefix + "key", "The file of its private key.", file, func(c *Config) any { return of(c).Key }},
		{prefix + "client_ca", "The file of the roots of certificates that clients must present. Left empty, they need none.", file, func(c *Config) any { return of(c).ClientCA }},
	}
}

var general = []setting{
	{"listen", "Where tenants call, host:port. Port 0 picks a free one.", formOf(listenKind, parseListen), func(c *Config) any { return c.Listen }},
	{"h2c", "Whether clients may speak HTTP/2 without TLS, such as a proxy that ends it.", formOf(strictyaml.BoolKind, parseSwitch), func(c *Config) any { return c.H2C }},
	{"healthz", "Whether the data side answers GET /healthz too, without a key: 200, or 503 as /readyz of the admin side.", formOf(strictyaml.BoolKind, parseSwitch), func(c *Config) any { return c.Healthz }},
	{"lean_http", "Whether llmgov speaks plain HTTP/1.1 itself, at less cost. false leaves all to Go's net/http, on both sides.", formOf(strictyaml.BoolKind, parseSwitch), func(c *Config) any { return c.LeanHTTP }},
	{"max_connections", "How many connections clients may have; further ones wait to be accepted.", whole(leastConnections, maxConnections), func(c *Config) any { return c.MaxConnections }},
	{"max_tenants", "How many tenants and teams the policy files may have together. Each takes some 4 KB.", whole(1, maxMaxTenants), func(c *Config) any { return c.MaxTenants }},
	{"metrics.tenants", "How many tenants have series of their own in /metrics, counted once for each pool. The others have them together.", whole(0, maxMaxTenants), func(c *Config) any { return c.Metrics.Tenants }},
	{"metrics.idle", "How long after its last call a tenant has no series any more.", lasting(time.Minute, maxIdle), func(c *Config) any { return c.Metrics.Idle }},
	{"admin.listen", "Where operators look. Without a token, on loopback only.", formOf(listenKind, parseListen), func(c *Config) any { return c.Admin.Listen }},
	{"admin.token", "What callers of the admin side present. Best \"${NAME}\" or \"file:/run/secrets/name\".", tokenForm, func(c *Config) any { return c.Admin.Token }},
	{"admin.unready_on_store_loss", "When /readyz fails because this gateway is cut off from its store: if another gateway has it (alone), always or never.", formOf(unreadyRules.kind(), unreadyRules.parse), func(c *Config) any { return c.Admin.UnreadyOnStoreLoss }},
	{"admission.listen", "Where other gateways and programs reserve before they call a model. Without a token, on loopback only. Left empty, nowhere.", formOf(noListenKind, parseNoListen), func(c *Config) any { return c.Admission.Listen }},
	{"admission.token", "What callers present that may reserve for any tenant; others present a tenant's key. Best \"${NAME}\" or \"file:/run/secrets/name\".", tokenForm, func(c *Config) any { return c.Admission.Token }},
	{"admission.tenant", "Where calls of Envoy's external processing name their tenant: \"key\", \"header NAME\" or \"metadata NAMESPACE PATH\". The proxy must set it, and take it from clients.", formOf(strictyaml.TextKind(sourcePattern.String()), parseSource), func(c *Config) any { return c.Admission.Tenant }},
	{"admission.descriptors", "The names of the descriptor entries by which Envoy's rate limit filter says who asks and for what, such as \"tenant=team model=model\". What is left out has its own name.", formOf(strictyaml.TextKind(descriptorsPattern.String()), parseDescriptors), func(c *Config) any { return c.Admission.Descriptors }},
	{"admission.most_open", "How many reservations may be open in all; a tenant may have as many as there are places left.", whole(1, maxOpen), func(c *Config) any { return c.Admission.MostOpen }},
	{"node", "This process's name, unique among gateways that share a store. Left empty: host name and process id.", formOf(strictyaml.TextKind(`^\S*$`), parseOptionalName), func(c *Config) any { return c.Node }},
	{"region", "Where this process runs.", formOf(strictyaml.NameKind, parseName), func(c *Config) any { return c.Region }},
	{"store", "Where limits are shared between gateways: postgres://user:password@host/database or redis://user:password@host:6379. memory shares nothing.", storeForm, func(c *Config) any { return c.Store }},
	{"default_pool", "The pool of calls to routes that name no model. Left empty: the only pool.", formOf(strictyaml.TextKind(`^\S*$`), parseOptionalName), func(c *Config) any { return c.DefaultPool }},
	{"state_dir", "The folder in which a node keeps state over restarts. Left empty, it forgets.", pathTo("a folder, such as /var/lib/llmgov"), func(c *Config) any { return c.StateDir }},
	{"keys_file", "The file of keys made at run time, relative to this one. Left empty, beside it: llmgov.keys.yaml of llmgov.yaml.", pathTo("a file, such as llmgov.keys.yaml"), func(c *Config) any { return c.KeysFile }},
	{"timezone", "IANA name of the zone in which budgets' days, weeks and months begin.", formOf(zoneKind, parseTimezone), func(c *Config) any { return c.Timezone }},
	{"timeouts.read_header", "How long a client may take to send its request's headers.", lasting(time.Millisecond, maxTimeout), func(c *Config) any { return c.Timeouts.ReadHeader }},
	{"timeouts.upstream_header", "How long an upstream may take to begin a stream.", lasting(time.Millisecond, maxTimeout), func(c *Config) any { return c.Timeouts.UpstreamHeader }},
	{"timeouts.upstream_answer", "How long an upstream may take to begin an answer that is no stream.", lasting(time.Millisecond, maxTimeout), func(c *Config) any { return c.Timeouts.UpstreamAnswer }},
	{"timeouts.stream_idle", "The longest silence inside a stream.", lasting(time.Millisecond, maxTimeout), func(c *Config) any { return c.Timeouts.StreamIdle }},
	{"timeouts.drain", "How long a shutdown waits for what is in flight. For a sixth of it, 5s at most, new calls are still told to go elsewhere.", lasting(0, maxTimeout), func(c *Config) any { return c.Timeouts.Drain }},
	{"max_body", "The largest request body.", size(maxBodyBytes), func(c *Config) any { return c.MaxBody }},
	{"body_memory.process", "The memory for all bodies together; at least twice body_memory.tenant.", size(maxBodyBytes), func(c *Config) any { return c.BodyMemory.Process }},
	{"body_memory.tenant", "The memory for the bodies of one tenant with all its teams; at least max_body.", size(maxBodyBytes), func(c *Config) any { return c.BodyMemory.Tenant }},
	{"decision_log.path", "The file in which all decisions are written down, as JSON lines. Left empty, none is.", pathTo("a file, such as /var/log/llmgov/decisions.jsonl"), func(c *Config) any { return c.DecisionLog.Path }},
	{"decision_log.max_size", "How large that file may grow before another one is begun.", size(maxLogSize), func(c *Config) any { return c.DecisionLog.MaxSize }},
	{"decision_log.keep", "How many older ones are kept.", whole(0, maxLogsKept), func(c *Config) any { return c.DecisionLog.Keep }},
	{"policies", "", formOf(nil, parsePolicies), func(c *Config) any { return c.Policies }},
}

// whole is the form of whole numbers.
func whole(least, most int64) form {
	return formOf(strictyaml.WholeKind(least, most), func(text string) (int64, string) {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < least || n > most {
			return 0, fmt.Sprintf("is out of range; write a whole number from %d to %d", least, most)
		}
		return n, ""
	})
}

func lasting(least, most time.Duration) form {
	return formOf(strictyaml.DurationKindTo(least, most), func(text string) (time.Duration, string) { return strictyaml.ParseDuration(text, least, most) })
}

func size(most int64) form {
	return formOf(strictyaml.SizeKindTo(most), func(text string) (int64, string) { return strictyaml.ParseSize(text, 1<<10, most) })
}

// pathTo is the form of names of files and folders. Whether one is there, and may be written, is for who opens it to find.
func pathTo(example string) form {
	return formOf(strictyaml.TextKind(`^(\S(.*\S)?)?$`), func(text string) (string, string) {
		switch {
		case strings.ContainsFunc(text, unicode.IsControl) || !utf8.ValidString(text):
			return "", "holds control characters; write the path of " + example
		case strings.TrimSpace(text) != text:
			return "", "begins or ends with a space; write the path of " + example
		}
		return text, ""
	})
}

var (
	tokenForm = form{strictyaml.TextKind(tokenPattern), formOf(nil, parseToken).parse, true}
	storeForm = form{strictyaml.TextKind(storePattern), formOf(nil, parseStore).parse, true}
)

func parseName(text string) (string, string) { return text, strictyaml.CheckName(text) }

func parseOptionalName(text string) (string, string) {
	if text == "" {
		return "", ""
	}
	return parseName(text)
}

// leastToken is how long the admin token must be: a shorter one could be found by trying.
const leastToken = 16

// tokenPattern matches an admin token, or none.
const tokenPattern = `^(file:\S+|[!-~]{16,})?$`

func parseToken(text string) (string, string) {
	if complaint := checkSecret(text); complaint != "" {
		return text, complaint
	}
	if text != "" && len(text) < leastToken && !strings.HasPrefix(text, inFile) {
		return "", "is shorter than " + strconv.Itoa(leastToken) + " characters; make one with: openssl rand -hex 24"
	}
	return text, ""
}

// unreadyRules are the values of Admin.UnreadyOnStoreLoss.
var unreadyRules = words[string]{"a rule for a lost store", []string{UnreadyAlone, UnreadyAlways, UnreadyNever}}

func parseSwitch(text string) (bool, string) {
	if text != "true" && text != "false" {
		return false, "is neither true nor false"
	}
	return text == "true", ""
}

// leastConnections leaves room for clients beside those without a key.
const leastConnections = 16

// sourcePattern matches where the calls of a proxy name their tenant.
var sourcePattern = regexp.MustCompile(`^(key|header [A-Za-z0-9_-]+|metadata \S+ [^\s.]+(\.[^\s.]+)*)$`)

func parseSource(text string) (string, string) {
	if !sourcePattern.MatchString(text) {
		return "", "is no place; write key, header NAME or metadata NAMESPACE PATH, such as header x-team"
	}
	return text, ""
}

// descriptorsPattern matches the names of entries of descriptors.
var descriptorsPattern = regexp.MustCompile(`^(tenant|key|model|pool)=[^\s=]+( (tenant|key|model|pool)=[^\s=]+){0,3}$`)

func parseDescriptors(text string) (string, string) {
	if !descriptorsPattern.MatchString(text) {
		return "", "names no entries; write them as in tenant=tenant key=key model=model pool=pool"
	}
	return text, ""
}

// parseTimezone refuses "Local" too: it is another zone on every machine.
func parseTimezone(text string) (string, string) {
	_, err := time.LoadLocation(text)
	if err != nil || text == "" || text == "Local" {
		return "", "is not a time zone; write an IANA name, such as UTC or Europe/Berlin"
	}
	return text, ""
}

// storePattern matches addresses of stores.
const storePattern = `^(memory|file:\S+|(postgres(ql)?|rediss?(\+sentinel)?)://\S+)$`

const goodStores = "write memory, postgres://user:password@host/database or redis://user:password@host:6379"

// storeSchemes are those of addresses of stores.
var storeSchemes = []string{"postgres", "postgresql", "redis", "rediss", "redis+sentinel", "rediss+sentinel"}

// parseStore shows at most a known scheme of an address that it refuses, since anything else may be a password.
func parseStore(text string) (string, string) {
	if text == "memory" || strings.HasPrefix(text, inFile) {
		return text, ""
	}
	scheme, _, isURL := strings.Cut(text, "://")
	switch {
	case isURL && slices.Contains(storeSchemes, scheme):
		if u, err := url.Parse(text); err != nil || u.Host == "" || strings.ContainsFunc(text, unicode.IsSpace) {
			return "", scheme + "://… (not shown) is not a valid address; " + goodStores
		}
		return text, ""
	case isURL:
		return "", "the address (not shown) has an unknown scheme; " + goodStores
	}
	if near, ok := strictyaml.Nearest(text, []string{"memory"}); ok {
		return "", "value (not shown) is not a store; did you mean " + strictyaml.Show(near) + "?"
	}
	return "", "value (not shown) is not a store; " + goodStores
}

// parsePolicies reads the comma-separated form of environment and flags.
func parsePolicies(text string) ([]string, string) {
	var globs []string
	for glob := range strings.SplitSeq(text, ",") {
		glob = strings.TrimSpace(glob)
		if glob != "" {
			globs = append(globs, glob)
		}
	}
	if len(globs) == 0 {
		return nil, "names no file; write globs with commas between them"
	}
	return globs, ""
}

// path is the key as a path.
func (s setting) path() string { return strings.ReplaceAll(s.key, ".", strictyaml.PathSep) }

// env is the environment's name for the key: LLMGOV_ADMIN_LISTEN.
func (s setting) env() string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(s.key, ".", "_"))
}

// flag is the flag's name for the key: --admin-listen.
func (s setting) flag() string {
	return "--" + strings.NewReplacer(".", "-", "_", "-").Replace(s.key)
}

// complain puts a value and a complaint about it into one message.
func (s setting) complain(shown, complaint string) string {
	switch {
	case !s.secret:
		return s.key + ": " + shown + " " + complaint
	case s.key == "store":
		return s.key + ": " + complaint
	}
	return s.key + ": value (not shown) " + complaint
}

// envPrefix begins every variable that is a setting.
const envPrefix = "LLMGOV_"
