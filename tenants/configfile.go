package tenants

import "slices"

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
		{"admin", func(v value, c *configFile) { read(v, adminShape, c) }},
		settingField("node"),
		settingField("region"),
		settingField("store"),
		{"upstreams", readUpstreams},
		{"pools", readPools},
		settingField("default_pool"),
		settingField("state_dir"),
		{"prices", readPrices},
		settingField("timezone"),
		{"timeouts", func(v value, c *configFile) { read(v, timeoutShape, c) }},
		settingField("max_body"),
		{"policies", readPolicies},
	},
	notYet: []string{"decision_log"},
}

var (
	adminShape   = shape[configFile]{fields: []field[configFile]{settingField("listen"), settingField("token")}}
	timeoutShape = shape[configFile]{fields: []field[configFile]{
		settingField("read_header"), settingField("upstream_header"), settingField("stream_idle"), settingField("drain"),
	}}
)

// settingField reads the setting at the value's own path with the parser that all its layers share.
func settingField(name string) field[configFile] {
	return field[configFile]{name, func(v value, c *configFile) {
		text, ok := v.scalar()
		if !ok {
			return
		}
		s := settings[slices.IndexFunc(settings, func(s setting) bool { return s.path() == v.path })]
		val, complaint := s.parse(text)
		if complaint != "" {
			v.r.add(v.r.place(v.path), "%s", s.complain(v.say(text), complaint))
			return
		}
		c.settings[v.path] = val
	}}
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
		u := Upstream{Name: p.key, Kind: "openai"}
		p.checkName()
		read(p.value, upstreamShape, &u)
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
