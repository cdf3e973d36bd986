package litellm

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// files are the config, the tiers, and a file a tenant.
func (c *converter) files() []File {
	list := []File{{"llmgov.yaml", c.config()}}
	if len(c.tierList) > 0 {
		list = append(list, File{"tenants/tiers.yaml", c.header() + "tiers:\n" + c.entries(c.tierList)})
	}
	for _, t := range c.tenants {
		list = append(list, File{c.fileOf(t, list), c.header() + "tenants:\n" + c.entries([]tenant{t})})
	}
	return list
}

func (c *converter) header() string {
	return "# Imported from " + strings.ReplaceAll(c.source, "\n", " ") + " of LiteLLM.\n"
}

var unusual = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// fileOf is a name of a file for a tenant that no other has, also where upper and lower case are one.
func (c *converter) fileOf(t tenant, taken []File) string {
	base := strings.Trim(unusual.ReplaceAllString(t.name, "-"), ".-")
	if base == "" {
		base = "tenant"
	}
	name := "tenants/" + base + ".yaml"
	for i := 2; slices.ContainsFunc(taken, func(f File) bool { return strings.EqualFold(f.Name, name) }); i++ {
		name = fmt.Sprintf("tenants/%s-%d.yaml", base, i)
	}
	return name
}

// config is llmgov.yaml.
func (c *converter) config() string {
	var b strings.Builder
	b.WriteString(c.header() + "upstreams:\n")
	for _, u := range c.upstreams {
		fmt.Fprintf(&b, "  %s:\n    base_url: %s\n", quote(u.name), quote(u.base))
		if u.kind != "" {
			fmt.Fprintf(&b, "    kind: %s\n", u.kind)
		}
		if u.key != "" {
			fmt.Fprintf(&b, "    api_key: %s\n", quote(u.key))
		}
	}
	b.WriteString("pools:\n")
	for _, p := range c.pools {
		fmt.Fprintf(&b, "  %s:\n    models: %s\n    %s\n", quote(p.name), c.served(p.models), p.from())
		for _, l := range []struct {
			key string
			n   int64
		}{{"tpm", p.tpm}, {"rpm", p.rpm}, {"concurrency", p.concurrency}} {
			if l.n > 0 {
				fmt.Fprintf(&b, "    %s: %d\n", l.key, l.n)
			}
		}
		if p.ownServers && p.tpm > 0 {
			b.WriteString("    accounting: production\n")
		}
		if c.whole.usd != "" {
			c.needPrices(c.whole, p.models)
			fmt.Fprintf(&b, "    budgets: [%s]\n", c.whole.usd)
		}
	}
	if len(c.prices) > 0 {
		b.WriteString("prices:                       # US dollars a million tokens\n")
	}
	for _, m := range slices.Sorted(maps.Keys(c.prices)) {
		p := c.prices[m]
		cached := ""
		if p.cached != "" {
			cached = ", cached_input: " + p.cached
		}
		fmt.Fprintf(&b, "  %s: {input: %s%s, output: %s}\n", quote(m), p.input, cached, p.output)
	}
	if c.timeout > 0 {
		fmt.Fprintf(&b, "timeouts: {upstream_header: %.0[1]fs, upstream_answer: %.0[1]fs}\n", c.timeout.Seconds())
	}
	b.WriteString("policies: [\"tenants/*.yaml\"]\n")
	return b.String()
}

// from are the upstreams of a pool.
func (p *pool) from() string {
	if len(p.upstreams) == 1 && len(p.upstreams[0].models) == 0 {
		return "upstream: " + quote(p.upstreams[0].name)
	}
	var list []string
	for _, m := range p.upstreams {
		one := "{name: " + quote(m.name)
		if m.weight > 1 {
			one += fmt.Sprintf(", weight: %d", m.weight)
		}
		if m.order > 0 {
			one += fmt.Sprintf(", order: %d", m.order)
		}
		if len(m.models) > 0 {
			one += ", models: " + ownNames(m.models)
		}
		list = append(list, one+"}")
	}
	return "upstreams: [" + strings.Join(list, ", ") + "]"
}

// ownNames is a mapping of models to an upstream's own names of them.
func ownNames(models map[string]string) string {
	var pairs []string
	for _, model := range slices.Sorted(maps.Keys(models)) {
		pairs = append(pairs, quote(model)+": "+quote(models[model]))
	}
	return "{" + strings.Join(pairs, ", ") + "}"
}

// served are the models of a pool, with the upstream's name if that is another.
func (c *converter) served(names []string) string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = quote(name)
		if c.reals[name] != name {
			out[i] = "{" + out[i] + ": " + quote(c.reals[name]) + "}"
		}
	}
	return "[" + strings.Join(out, ", ") + "]"
}

// entries are tiers or tenants.
func (c *converter) entries(list []tenant) string {
	var b strings.Builder
	c.write(&b, list, nil, "  ")
	return b.String()
}

// write writes tiers, tenants or teams; above are the models of whose teams they are, nil for all.
func (c *converter) write(b *strings.Builder, list []tenant, above []string, indent string) {
	for _, t := range list {
		fmt.Fprintf(b, "%s%s:\n", indent, quote(t.name))
		models := t.models
		if models == nil {
			models = above
		}
		lines := c.lines(t, models)
		if !slices.ContainsFunc(lines, func(l string) bool { return !strings.HasPrefix(l, "#") }) && len(t.teams) == 0 {
			lines = append(lines, "weight: 1")
		}
		for _, l := range lines {
			fmt.Fprintf(b, "%s  %s\n", indent, l)
		}
		if len(t.teams) > 0 {
			fmt.Fprintf(b, "%s  teams:\n", indent)
			c.write(b, t.teams, models, indent+"    ")
		}
	}
}

// lines are the keys of an entry that may use these models.
func (c *converter) lines(t tenant, models []string) []string {
	lines := slices.Clone(t.lines)
	if t.tier != "" {
		lines = append([]string{"tier: " + quote(t.tier)}, lines...)
	}
	if len(t.models) > 0 {
		lines = append(lines, "models: "+quoteAll(t.models))
	}
	if t.usd != "" {
		c.needPrices(t.limits, c.granted(models))
		lines = append(lines, "budgets: ["+t.usd+"]")
	}
	if len(t.keys) > 0 {
		lines = append(lines, "keys: ["+strings.Join(t.keys, ", ")+"]")
	}
	return lines
}

// granted are the models that a list grants; nil is all.
func (c *converter) granted(models []string) []string {
	if models != nil {
		return models
	}
	var all []string
	for _, p := range c.pools {
		all = append(all, p.models...)
	}
	return all
}

// needPrices notes a budget in money that could not be kept, because models have no price.
func (c *converter) needPrices(l limits, models []string) {
	var missing []string
	for _, m := range models {
		if _, ok := c.prices[m]; !ok {
			missing = append(missing, m)
		}
	}
	if len(missing) == 0 {
		return
	}
	said := l.budget
	said.tree = c.unkept
	said.lost("needs prices of %s", strings.Join(missing, ", "))
}

// plain is a text that YAML takes for nothing but a text, also inside of […].
var plain = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._/-]*$`)

// quote is a text as YAML; with quotes where it could be taken for something else.
func quote(text string) string {
	word := strings.ToLower(text)
	if plain.MatchString(text) && !slices.Contains([]string{"true", "false", "null", "yes", "no", "on", "off", "y", "n"}, word) {
		return text
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(text) // a JSON text is a YAML text
	return strings.TrimSuffix(b.String(), "\n")
}

func quoteAll(list []string) string {
	out := make([]string, len(list))
	for i, text := range list {
		out[i] = quote(text)
	}
	return "[" + strings.Join(out, ", ") + "]"
}
