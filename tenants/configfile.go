package tenants

import (
	"slices"
	"strings"
	"time"

	"github.com/llmgov/llmgov/internal/lib/strictyaml"
)

// configFile holds the values of the config file, before the layers above it.
type configFile struct {
	settings  map[string]any // path → typed value
	upstreams []Upstream
	pools     []Pool
	prices    []ModelPrice
	identity  Identity
	notify    []Webhook
	roles     []AdminRole
	proxy     AdminProxy

	priceFile     string // of a list of prices; "" is none
	builtinPrices bool
}

// configShape is the config file's root. Its settings all read the same way, from the settings table.
var configShape = shape[configFile]{
	Fields: []field[configFile]{
		settingField("listen"),
		settingField("h2c"),
		settingField("healthz"),
		settingField("lean_http"),
		settingField("max_connections"),
		tlsField("tls"),
		{
			Name: "admin", About: "The listener for metrics and the admin API.",
			Kind: func() schema { return adminShape.Schema(&configFile{}) },
			Read: func(v value, c *configFile) { adminShape.Read(v, c) },
		},
		{
			Name: "admission", About: "The listener for gateways and programs that call models themselves.",
			Kind: func() schema { return admissionShape.Schema(&configFile{}) },
			Read: func(v value, c *configFile) { admissionShape.Read(v, c) },
		},
		settingField("node"),
		settingField("region"),
		settingField("store"),
		{
			Name: "upstreams", About: "The providers, by name.", Read: readUpstreams,
			Kind: strictyaml.MapOf(anyName, func() schema { return upstreamShape.Schema(&Upstream{Kind: OpenAI}) }, 1),
		},
		{
			Name: "pools", About: "The shared capacities, by name.", Read: readPools,
			Kind: strictyaml.MapOf(anyName, func() schema { start := DefaultPool(""); return poolShape.Schema(&start) }, 1),
		},
		settingField("default_pool"),
		settingField("state_dir"),
		settingField("keys_file"),
		{
			Name: "prices", About: "What tokens of models cost, by name or pattern. Budgets in usd need them.", Read: readPrices,
			Kind: pricesSchema,
		},
		{
			Name: "identity", About: "The identity providers whose tokens callers may present in place of keys.", Read: func(v value, c *configFile) { identityShape.Read(v, &c.identity) },
			Kind: func() schema { return identityShape.Schema(&Identity{}) },
		},
		{
			Name: "notify", About: "The webhooks that are told of budgets, starved tenants, invalid files, and a store or upstreams that are lost.", Read: readNotify,
			Kind: strictyaml.ListOf(func() schema { return webhookShape.Schema(&Webhook{}) }, 0, true),
		},
		settingField("timezone"),
		{
			Name: "timeouts", About: "How long each stage of a call, and a shutdown, may take.",
			Kind: func() schema { return timeoutShape.Schema(&configFile{}) },
			Read: func(v value, c *configFile) { timeoutShape.Read(v, c) },
		},
		settingField("max_body"),
		{
			Name: "body_memory", About: "How much memory bodies may take together.",
			Kind: func() schema { return bodyMemoryShape.Schema(&configFile{}) },
			Read: func(v value, c *configFile) { bodyMemoryShape.Read(v, c) },
		},
		{
			Name: "decision_log", About: "What was decided, written down to be replayed.",
			Kind: func() schema { return decisionLogShape.Schema(&configFile{}) },
			Read: func(v value, c *configFile) { decisionLogShape.Read(v, c) },
		},
		{
			Name: "policies", About: "Globs of the policy files, relative to this file.",
			Kind: strictyaml.ListOf(strictyaml.TextKind(`.`), 0, false), Read: readPolicies,
			Start: func(*configFile) any { return DefaultConfig().Policies },
		},
		settingField("max_tenants"),
		{
			Name: "metrics", About: "How many series /metrics has of tenants.",
			Kind: func() schema { return metricsShape.Schema(&configFile{}) },
			Read: func(v value, c *configFile) { metricsShape.Read(v, c) },
		},
	},
}

var (
	adminShape = shape[configFile]{Fields: []field[configFile]{
		settingField("admin.listen"), settingField("admin.token"), settingField("admin.unready_on_store_loss"), tlsField("admin.tls"),
		{
			Name: "roles", About: "Who may do less than whoever has the token. The first that fits a caller counts.", Read: readAdminRoles,
			Kind: strictyaml.ListOf(func() schema { return adminRoleShape.Schema(nil) }, 1, true),
		},
		{
			Name: "proxy", About: "A proxy in front, which authenticates users and names them in headers that it takes from clients.",
			Read: func(v value, c *configFile) {
				c.proxy = defaultAdminProxy
				adminProxyShape.Read(v, &c.proxy)
			},
			Kind: func() schema { start := defaultAdminProxy; return adminProxyShape.Schema(&start) },
		},
	}}
	admissionShape = shape[configFile]{Fields: []field[configFile]{
		settingField("admission.listen"), settingField("admission.token"), settingField("admission.tenant"), settingField("admission.descriptors"), settingField("admission.most_open"), tlsField("admission.tls"),
	}}
	bodyMemoryShape = shape[configFile]{Fields: []field[configFile]{
		settingField("body_memory.process"), settingField("body_memory.tenant"),
	}}
	metricsShape = shape[configFile]{Fields: []field[configFile]{
		settingField("metrics.tenants"), settingField("metrics.idle"),
	}}
	decisionLogShape = shape[configFile]{Fields: []field[configFile]{
		settingField("decision_log.path"), settingField("decision_log.max_size"), settingField("decision_log.keep"),
	}}
	timeoutShape = shape[configFile]{Fields: []field[configFile]{
		settingField("timeouts.read_header"), settingField("timeouts.upstream_header"), settingField("timeouts.upstream_answer"),
		settingField("timeouts.stream_idle"), settingField("timeouts.drain"),
	}}
)

// tlsField reads the TLS of one listener, or of all.
func tlsField(key string) field[configFile] {
	s := shape[configFile]{Fields: []field[configFile]{settingField(key + ".cert"), settingField(key + ".key"), settingField(key + ".client_ca")}}
	return field[configFile]{
		Name: key[strings.LastIndexByte(key, '.')+1:], About: "The certificate of the listener, or of all that have none of their own; followed when its files change.",
		Kind: func() schema { return s.Schema(&configFile{}) },
		Read: func(v value, c *configFile) { s.Read(v, c) },
	}
}

// settingField reads a setting with the parser that all its layers share.
func settingField(key string) field[configFile] {
	s := settings[slices.IndexFunc(settings, func(s setting) bool { return s.key == key })]
	return field[configFile]{
		Name: key[strings.LastIndexByte(key, '.')+1:], About: s.about, Kind: s.kind,
		Read: func(v value, c *configFile) {
			text, ok := v.Scalar()
			if !ok {
				return
			}
			val, complaint := s.parse(text)
			if complaint != "" {
				v.Report.Add(v.Report.Place(v.Path), "%s", s.complain(v.Say(text), v.Plainly(text, complaint)))
				return
			}
			c.settings[v.Path] = val
		},
		Start: func(*configFile) any {
			cfg := DefaultConfig()
			if d, isDuration := s.get(&cfg).(time.Duration); isDuration {
				return strictyaml.SpellDuration(d)
			}
			return s.get(&cfg)
		},
	}
}

func readPolicies(v value, c *configFile) {
	globs := v.Texts(func(it value) string {
		text, ok := it.Scalar()
		if ok && text == "" {
			it.Problem(`"" names no file; write a glob, such as tenants/*.yaml`)
		}
		return text
	})
	c.settings[v.Path] = slices.DeleteFunc(globs, func(g string) bool { return g == "" })
}

func readUpstreams(v value, c *configFile) {
	list, ok := v.Pairs()
	if ok && len(list) == 0 {
		v.Problem("is empty; write at least one upstream with its base_url")
	}
	for _, p := range list {
		u := Upstream{Name: p.Key, Kind: OpenAI}
		checkKeyName(p)
		upstreamShape.Read(p.Value, &u)
		if complaint := checkQueryOf(&u); complaint != "" {
			v.Report.At(strictyaml.Child(p.Path, "base_url"), "value (not shown) %s", complaint)
		}
		c.upstreams = append(c.upstreams, u)
	}
}

func readPools(v value, c *configFile) {
	list, ok := v.Pairs()
	if ok && len(list) == 0 {
		v.Problem("is empty; write at least one pool with its models and a limit")
	}
	for _, p := range list {
		pool := DefaultPool(p.Key)
		checkKeyName(p)
		poolShape.Read(p.Value, &pool)
		c.pools = append(c.pools, pool)
	}
}
