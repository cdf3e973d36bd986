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
// upstreams. Its parser answers the typed value, or a complaint that follows the value in a message.
type setting struct {
	key    string // as in the file: admin.listen
	about  string // for the authors of files
	kind   kind
	get    func(*Config) any
	parse  func(text string) (any, string)
	secret bool // never shown
}

var settings = slices.Concat(general, tlsSettings("tls.", func(c *Config) *TLS { return &c.TLS }),
	tlsSettings("admin.tls.", func(c *Config) *TLS { return &c.Admin.TLS }), tlsSettings("admission.tls.", func(c *Config) *TLS { return &c.Admission.TLS }))

// tlsSettings are those of one listener's TLS, or of all listeners'.
func tlsSettings(prefix string, of func(*Config) *TLS) []setting {
	file := func(name, about string, at func(*TLS) *string) setting {
		return setting{
			key: prefix + name, about: about, kind: strictyaml.TextKind(`^(\S(.*\S)?)?$`),
			get: func(c *Config) any { return *at(of(c)) }, parse: typed(parsePEM),
		}
	}
	return []setting{
		file("cert", "The file of the certificate and those between it and its root, in PEM. Left empty: without TLS, or as all listeners.", func(t *TLS) *string { return &t.Cert }),
		file("key", "The file of its private key.", func(t *TLS) *string { return &t.Key }),
		file("client_ca", "The file of the roots of certificates that clients must present. Left empty, they need none.", func(t *TLS) *string { return &t.ClientCA }),
	}
}

var general = []setting{
	{
		key: "listen", about: "Where tenants call, host:port. Port 0 picks a free one.", kind: listenKind,
		get: func(c *Config) any { return c.Listen }, parse: typed(parseListen),
	},
	{
		key: "h2c", about: "Whether clients may speak HTTP/2 without TLS, such as a proxy that ends it.", kind: strictyaml.BoolKind,
		get: func(c *Config) any { return c.H2C }, parse: typed(parseSwitch),
	},
	{
		key: "healthz", about: "Whether the data side answers GET /healthz too, without a key: 200, or 503 as /readyz of the admin side.", kind: strictyaml.BoolKind,
		get: func(c *Config) any { return c.Healthz }, parse: typed(parseSwitch),
	},
	{
		key: "lean_http", about: "Whether llmgov speaks plain HTTP/1.1 itself, at less cost. false leaves all to Go's net/http, on both sides.", kind: strictyaml.BoolKind,
		get: func(c *Config) any { return c.LeanHTTP }, parse: typed(parseSwitch),
	},
	{
		key: "max_connections", about: "How many connections clients may have; further ones wait to be accepted.", kind: strictyaml.WholeKind(leastConnections, maxConnections),
		get: func(c *Config) any { return c.MaxConnections }, parse: whole(leastConnections, maxConnections),
	},
	{
		key: "max_tenants", about: "How many tenants and teams the policy files may have together. Each takes some 4 KB.", kind: strictyaml.WholeKind(1, maxMaxTenants),
		get: func(c *Config) any { return c.MaxTenants }, parse: whole(1, maxMaxTenants),
	},
	{
		key: "metrics.tenants", about: "How many tenants have series of their own in /metrics, counted once for each pool. The others have them together.", kind: strictyaml.WholeKind(0, maxMaxTenants),
		get: func(c *Config) any { return c.Metrics.Tenants }, parse: whole(0, maxMaxTenants),
	},
	{
		key: "metrics.idle", about: "How long after its last call a tenant has no series any more.", kind: strictyaml.DurationKindTo(time.Minute, maxIdle),
		get: func(c *Config) any { return c.Metrics.Idle }, parse: typed(func(text string) (time.Duration, string) {
			return strictyaml.ParseDuration(text, time.Minute, maxIdle)
		}),
	},
	{
		key: "admin.listen", about: "Where operators look. Without a token, on loopback only.", kind: listenKind,
		get: func(c *Config) any { return c.Admin.Listen }, parse: typed(parseListen),
	},
	{
		key: "admin.token", about: "What callers of the admin side present. Best \"${NAME}\" or \"file:/run/secrets/name\".", kind: strictyaml.TextKind(tokenPattern),
		get: func(c *Config) any { return c.Admin.Token }, parse: typed(parseToken), secret: true,
	},
	{
		key: "admin.unready_on_store_loss", about: "When /readyz fails because this gateway is cut off from its store: if another gateway has it (alone), always or never.",
		kind: strictyaml.WordKind(unreadyRules...),
		get:  func(c *Config) any { return c.Admin.UnreadyOnStoreLoss }, parse: typed(parseUnready),
	},
	{
		key: "admission.listen", about: "Where other gateways and programs reserve before they call a model. Without a token, on loopback only. Left empty, nowhere.", kind: noListenKind,
		get: func(c *Config) any { return c.Admission.Listen }, parse: typed(parseNoListen),
	},
	{
		key: "admission.token", about: "What callers present that may reserve for any tenant; others present a tenant's key. Best \"${NAME}\" or \"file:/run/secrets/name\".", kind: strictyaml.TextKind(tokenPattern),
		get: func(c *Config) any { return c.Admission.Token }, parse: typed(parseToken), secret: true,
	},
	{
		key: "admission.tenant", about: "Where calls of Envoy's external processing name their tenant: \"key\", \"header NAME\" or \"metadata NAMESPACE PATH\". The proxy must set it, and take it from clients.", kind: strictyaml.TextKind(sourcePattern.String()),
		get: func(c *Config) any { return c.Admission.Tenant }, parse: typed(parseSource),
	},
	{
		key: "admission.descriptors", about: "The names of the descriptor entries by which Envoy's rate limit filter says who asks and for what, such as \"tenant=team model=model\". What is left out has its own name.", kind: strictyaml.TextKind(descriptorsPattern.String()),
		get: func(c *Config) any { return c.Admission.Descriptors }, parse: typed(parseDescriptors),
	},
	{
		key: "admission.most_open", about: "How many reservations may be open in all; a tenant may have as many as there are places left.", kind: strictyaml.WholeKind(1, maxOpen),
		get: func(c *Config) any { return c.Admission.MostOpen }, parse: whole(1, maxOpen),
	},
	{
		key: "node", about: "This process's name, unique among gateways that share a store. Left empty: host name and process id.", kind: strictyaml.TextKind(`^\S*$`),
		get: func(c *Config) any { return c.Node }, parse: typed(parseOptionalName),
	},
	{
		key: "region", about: "Where this process runs.", kind: strictyaml.NameKind,
		get: func(c *Config) any { return c.Region }, parse: typed(parseName),
	},
	{
		key: "store", about: "Where limits are shared between gateways: postgres://user:password@host/database or redis://user:password@host:6379. memory shares nothing.",
		kind: strictyaml.TextKind(storePattern),
		get:  func(c *Config) any { return c.Store }, parse: typed(parseStore), secret: true,
	},
	{
		key: "default_pool", about: "The pool of calls to routes that name no model. Left empty: the only pool.", kind: strictyaml.TextKind(`^\S*$`),
		get: func(c *Config) any { return c.DefaultPool }, parse: typed(parseOptionalName),
	},
	{
		key: "state_dir", about: "The folder in which a node keeps state over restarts. Left empty, it forgets.",
		kind: strictyaml.TextKind(`^(\S(.*\S)?)?$`), get: func(c *Config) any { return c.StateDir }, parse: typed(parseDir),
	},
	{
		key: "keys_file", about: "The file of keys made at run time, relative to this one. Left empty, beside it: llmgov.keys.yaml of llmgov.yaml.",
		kind: strictyaml.TextKind(`^(\S(.*\S)?)?$`), get: func(c *Config) any { return c.KeysFile }, parse: typed(parseKeysFile),
	},
	{
		key: "timezone", about: "IANA name of the zone in which budgets' days, weeks and months begin.",
		kind: zoneKind, get: func(c *Config) any { return c.Timezone }, parse: typed(parseTimezone),
	},
	{
		key: "timeouts.read_header", about: "How long a client may take to send its request's headers.", kind: strictyaml.DurationKindTo(time.Millisecond, maxTimeout),
		get: func(c *Config) any { return c.Timeouts.ReadHeader }, parse: timeout(1),
	},
	{
		key: "timeouts.upstream_header", about: "How long an upstream may take to begin a stream.", kind: strictyaml.DurationKindTo(time.Millisecond, maxTimeout),
		get: func(c *Config) any { return c.Timeouts.UpstreamHeader }, parse: timeout(1),
	},
	{
		key: "timeouts.upstream_answer", about: "How long an upstream may take to begin an answer that is no stream.", kind: strictyaml.DurationKindTo(time.Millisecond, maxTimeout),
		get: func(c *Config) any { return c.Timeouts.UpstreamAnswer }, parse: timeout(1),
	},
	{
		key: "timeouts.stream_idle", about: "The longest silence inside a stream.", kind: strictyaml.DurationKindTo(time.Millisecond, maxTimeout),
		get: func(c *Config) any { return c.Timeouts.StreamIdle }, parse: timeout(1),
	},
	{
		key: "timeouts.drain", about: "How long a shutdown waits for what is in flight. For a sixth of it, 5s at most, new calls are still told to go elsewhere.", kind: strictyaml.DurationKindTo(0, maxTimeout),
		get: func(c *Config) any { return c.Timeouts.Drain }, parse: timeout(0),
	},
	{
		key: "max_body", about: "The largest request body.", kind: strictyaml.SizeKindTo(maxBodyBytes),
		get: func(c *Config) any { return c.MaxBody }, parse: typed(parseBody),
	},
	{
		key: "body_memory.process", about: "The memory for all bodies together; at least twice body_memory.tenant.", kind: strictyaml.SizeKindTo(maxBodyBytes),
		get: func(c *Config) any { return c.BodyMemory.Process }, parse: typed(parseBody),
	},
	{
		key: "body_memory.tenant", about: "The memory for the bodies of one tenant with all its teams; at least max_body.", kind: strictyaml.SizeKindTo(maxBodyBytes),
		get: func(c *Config) any { return c.BodyMemory.Tenant }, parse: typed(parseBody),
	},
	{
		key: "decision_log.path", about: "The file in which all decisions are written down, as JSON lines. Left empty, none is.",
		kind: strictyaml.TextKind(`^(\S(.*\S)?)?$`), get: func(c *Config) any { return c.DecisionLog.Path }, parse: typed(parseLogPath),
	},
	{
		key: "decision_log.max_size", about: "How large that file may grow before another one is begun.", kind: strictyaml.SizeKindTo(maxLogSize),
		get: func(c *Config) any { return c.DecisionLog.MaxSize }, parse: typed(parseLogSize),
	},
	{
		key: "decision_log.keep", about: "How many older ones are kept.", kind: strictyaml.WholeKind(0, maxLogsKept),
		get: func(c *Config) any { return c.DecisionLog.Keep }, parse: typed(parseLogsKept),
	},
	{key: "policies", get: func(c *Config) any { return c.Policies }, parse: typed(parsePolicies)},
}

// typed makes a parser of one type answer any.
func typed[T any](parse func(string) (T, string)) func(string) (any, string) {
	return func(text string) (any, string) { return parse(text) }
}

// timeout parses a duration from least milliseconds.
func timeout(least int) func(string) (any, string) {
	return typed(func(text string) (time.Duration, string) {
		return strictyaml.ParseDuration(text, time.Duration(least)*time.Millisecond, maxTimeout)
	})
}

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
var unreadyRules = []string{UnreadyAlone, UnreadyAlways, UnreadyNever}

func parseUnready(text string) (string, string) {
	if !slices.Contains(unreadyRules, text) {
		return "", "is no rule for a lost store; " + strictyaml.AdviseWord(text, unreadyRules)
	}
	return text, ""
}

func parseSwitch(text string) (bool, string) {
	if text != "true" && text != "false" {
		return false, "is neither true nor false"
	}
	return text == "true", ""
}

// leastConnections leaves room for clients beside those without a key.
const leastConnections = 16

// whole parses a whole number.
func whole(least, most int64) func(string) (any, string) {
	return typed(func(text string) (int64, string) {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < least || n > most {
			return 0, fmt.Sprintf("is out of range; write a whole number from %d to %d", least, most)
		}
		return n, ""
	})
}

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

// parseKeysFile reads the name of a file, by the rule for folders.
func parseKeysFile(text string) (string, string) {
	text, complaint := parseDir(text)
	return text, strings.Replace(complaint, "a folder, such as /var/lib/llmgov", "a file, such as llmgov.keys.yaml", 1)
}

// parsePEM reads the name of a file, by the rule for folders.
func parsePEM(text string) (string, string) {
	text, complaint := parseDir(text)
	return text, strings.Replace(complaint, "a folder, such as /var/lib/llmgov", "a file, such as /etc/llmgov/tls.crt", 1)
}

// parseLogPath reads the name of a file, by the rule for folders.
func parseLogPath(text string) (string, string) {
	text, complaint := parseDir(text)
	return text, strings.Replace(complaint, "a folder, such as /var/lib/llmgov", "a file, such as /var/log/llmgov/decisions.jsonl", 1)
}

func parseLogSize(text string) (int64, string) { return strictyaml.ParseSize(text, 1<<10, maxLogSize) }

func parseLogsKept(text string) (int64, string) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > maxLogsKept {
		return 0, "is out of range; write a whole number from 0 to " + strconv.Itoa(maxLogsKept)
	}
	return n, ""
}

// parseDir reads the name of a folder. Whether it is there, and may be written, is for who opens it to find.
func parseDir(text string) (string, string) {
	switch {
	case strings.ContainsFunc(text, unicode.IsControl) || !utf8.ValidString(text):
		return "", "holds control characters; write the path of a folder, such as /var/lib/llmgov"
	case strings.TrimSpace(text) != text:
		return "", "begins or ends with a space; write the path of a folder, such as /var/lib/llmgov"
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

func parseBody(text string) (int64, string) { return strictyaml.ParseSize(text, 1<<10, maxBodyBytes) }

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
