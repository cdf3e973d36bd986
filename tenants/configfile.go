package tenants

import (
	"slices"
	"strings"
	"time"
)

// configFile is what the config file says, before the layers above it.
type configFile struct {
	settings  map[string]any // path → typed value
	upstreams []Upstream
	pools     []Pool
	prices    []ModelPrice
}

// configShape is the config file's root. Its settings all read the same way, from the settings table.
var configShape = shape[configFile]{
	fields: []field[configFile]{
		settingField("listen"),
		settingField("h2c"),
		settingField("max_connections"),
		{
			name: "admin", about: "The listener for metrics and the admin API.",
			kind: func() schema { return adminShape.schema(&configFile{}) },
			read: func(v value, c *configFile) { read(v, adminShape, c) },
		},
		settingField("node"),
		settingField("region"),
		settingField("store"),
		{
			name: "upstreams", about: "The providers, by name.", read: readUpstreams,
			kind: mapOf(anyName, func() schema { return upstreamShape.schema(&Upstream{Kind: OpenAI}) }, 1),
		},
		{
			name: "pools", about: "The shared capacities, by name.", read: readPools,
			kind: mapOf(anyName, func() schema { start := DefaultPool(""); return poolShape.schema(&start) }, 1),
		},
		settingField("default_pool"),
		settingField("state_dir"),
		settingField("keys_file"),
		{
			name: "prices", about: "What tokens of models cost, by name or pattern. Budgets in usd need them.", read: readPrices,
			kind: mapOf(anyName, func() schema { return priceShape.schema(nil) }, 0),
		},
		settingField("timezone"),
		{
			name: "timeouts", about: "How long each stage of a call, and a shutdown, may take.",
			kind: func() schema { return timeoutShape.schema(&configFile{}) },
			read: func(v value, c *configFile) { read(v, timeoutShape, c) },
		},
		settingField("max_body"),
		{
			name: "body_memory", about: "How much memory bodies may take together.",
			kind: func() schema { return bodyMemoryShape.schema(&configFile{}) },
			read: func(v value, c *configFile) { read(v, bodyMemoryShape, c) },
		},
		{
			name: "decision_log", about: "What was decided, written down to be replayed.",
			kind: func() schema { return decisionLogShape.schema(&configFile{}) },
			read: func(v value, c *configFile) { read(v, decisionLogShape, c) },
		},
		{
			name: "policies", about: "Globs of the policy files, relative to this file.",
			kind: listOf(textKind(`.`), 0, false), read: readPolicies,
			start: func(*configFile) any { return DefaultConfig().Policies },
		},
	},
}

var (
	adminShape = shape[configFile]{fields: []field[configFile]{
		settingField("admin.listen"), settingField("admin.token"),
	}}
	bodyMemoryShape = shape[configFile]{fields: []field[configFile]{
		settingField("body_memory.process"), settingField("body_memory.tenant"),
	}}
	decisionLogShape = shape[configFile]{fields: []field[configFile]{
		settingField("decision_log.path"), settingField("decision_log.max_size"), settingField("decision_log.keep"),
	}}
	timeoutShape = shape[configFile]{fields: []field[configFile]{
		settingField("timeouts.read_header"), settingField("timeouts.upstream_header"),
		settingField("timeouts.stream_idle"), settingField("timeouts.drain"),
	}}
)

// settingField reads a setting with the parser that all its layers share.
func settingField(key string) field[configFile] {
	s := settings[slices.IndexFunc(settings, func(s setting) bool { return s.key == key })]
	return field[configFile]{
		name: key[strings.LastIndexByte(key, '.')+1:], about: s.about, kind: s.kind,
		read: func(v value, c *configFile) {
			text, ok := v.scalar()
			if !ok {
				return
			}
			val, complaint := s.parse(text)
			if complaint != "" {
				v.r.add(v.r.place(v.path), "%s", s.complain(v.say(text), v.plainly(text, complaint)))
				return
			}
			c.settings[v.path] = val
		},
		start: func(*configFile) any {
			cfg := DefaultConfig()
			if d, isDuration := s.get(&cfg).(time.Duration); isDuration {
				return spellDuration(d)
			}
			return s.get(&cfg)
		},
	}
}

func readPolicies(v value, c *configFile) {
	globs := v.texts(func(it value) string {
		text, ok := it.scalar()
		if ok && text == "" {
			it.problem(`"" names no file; write a glob, such as tenants/*.yaml`)
		}
		return text
	})
	c.settings[v.path] = slices.DeleteFunc(globs, func(g string) bool { return g == "" })
}

func readUpstreams(v value, c *configFile) {
	list, ok := v.pairs()
	if ok && len(list) == 0 {
		v.problem("is empty; write at least one upstream with its base_url")
	}
	for _, p := range list {
		u := Upstream{Name: p.key, Kind: OpenAI}
		p.checkName()
		read(p.value, upstreamShape, &u)
		if complaint := checkQueryOf(&u); complaint != "" {
			v.r.at(child(p.path, "base_url"), "value (not shown) %s", complaint)
		}
		c.upstreams = append(c.upstreams, u)
	}
}

func readPools(v value, c *configFile) {
	list, ok := v.pairs()
	if ok && len(list) == 0 {
		v.problem("is empty; write at least one pool with its models and a limit")
	}
	for _, p := range list {
		pool := DefaultPool(p.key)
		p.checkName()
		read(p.value, poolShape, &pool)
		c.pools = append(c.pools, pool)
	}
}

// checkName complains about the key itself, as the name of what it holds.
func (p pair) checkName() {
	if complaint := checkName(p.key); complaint != "" {
		p.r.add(p.at, "name %s %s", show(p.key), complaint)
	}
}
