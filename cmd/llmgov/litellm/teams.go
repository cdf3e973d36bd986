package litellm

import (
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// limits are the keys of a tier or a tenant, as lines of YAML.
type limits struct {
	lines []string // key: value
	// usd is a budget in money, which needs prices: "100, per: month". budget is where it stands.
	usd    string
	budget node
}

// tenant is a team, or a key of no team; below one of these, a key that has less than its team.
type tenant struct {
	name, tier string
	ids        []string // its names in keys
	limits
	models []string // granted; nil grants all, or its parent's
	keys   []string // as YAML
	teams  []tenant
	at     node
}

// limitsOf reads the limits that teams, keys and templates have in common.
func (c *converter) limitsOf(n node) limits {
	var l limits
	for _, key := range [][2]string{{"rpm_limit", "rpm"}, {"tpm_limit", "tpm"}, {"max_parallel_requests", "concurrency"}} {
		if v := n.get(key[0]).amount(); v > 0 {
			l.lines = append(l.lines, fmt.Sprintf("%s: %d", key[1], v))
		}
	}
	budget := n.get("max_budget")
	every := n.get("budget_duration")
	switch amount, ok := new(big.Rat).SetString(budget.text()); {
	case budget.text() == "":
		if every.there() {
			every.lost("is left out, since there is no max_budget beside it")
		}
	case !ok || amount.Sign() <= 0:
		budget.lost("is not an amount above 0, and is left out")
	case period(every.text()) == "":
		budget.lost("only budgets by hour, day, week and month (1h, 1d, 7d, 30d) have a counterpart; it is left out")
	default:
		l.budget = budget
		l.usd = fmt.Sprintf("{usd: %s, per: %s}", strings.TrimSuffix(strings.TrimRight(amount.FloatString(6), "0"), "."), period(every.text()))
		every.differs("LiteLLM counts it from the first call; here it begins with the calendar %s", period(every.text()))
	}
	return l
}

// over puts limits before those of base, which fill in the keys that they leave out.
func (l limits) over(base limits) limits {
	lines := slices.Clone(l.lines)
	for _, line := range base.lines {
		key, _, _ := strings.Cut(line, ":")
		if !slices.ContainsFunc(lines, func(own string) bool { return strings.HasPrefix(own, key+":") }) {
			lines = append(lines, line)
		}
	}
	l.lines = lines
	if l.usd == "" {
		l.usd = base.usd
		l.budget = base.budget
	}
	return l
}

// period is the calendar period that is nearest to a duration of a budget.
func period(every string) string {
	return map[string]string{
		"1h": "hour", "60m": "hour", "3600s": "hour", "1d": "day", "24h": "day", "7d": "week", "168h": "week", "1w": "week",
		"30d": "month", "31d": "month", "720h": "month", "1mo": "month",
	}[every]
}

// everyone is the tier of the defaults for all teams or keys.
const everyone = "everyone"

// makeTemplate makes a tier of the defaults in n.
func (c *converter) makeTemplate(n node) {
	if c.template {
		n.lost("there is one template already; this one is left out")
		n.takeAll()
		return
	}
	c.template = true
	c.tierList = append(c.tierList, tenant{name: everyone, limits: c.limitsOf(n), at: n})
}

// tiers reads templates, and shares by priority.
func (c *converter) tiers(settings node) {
	for _, key := range []string{"default_team_params", "default_key_generate_params"} {
		if n := settings.get(key); n.there() {
			c.makeTemplate(n)
		}
	}
	shares := settings.get("priority_reservation")
	list, keys := shares.pairs()
	for i, share := range list {
		part, ok := new(big.Rat).SetString(share.text())
		if !ok || part.Sign() <= 0 {
			continue
		}
		share.tree.taken[share.val] = true
		weight := strings.TrimSuffix(strings.TrimRight(part.Mul(part, big.NewRat(100, 1)).FloatString(3), "0"), ".")
		c.tierList = append(c.tierList, tenant{
			name: c.name(keys[i]), at: share, limits: limits{lines: []string{"group: true", "weight: " + weight}},
		})
	}
	if len(list) > 0 {
		shares.differs("became tiers with weights: a share is not set aside, and what is idle is used by others")
	}
}

// teams reads teams, as a list or by name.
func (c *converter) teams(list node) {
	for _, n := range list.items() {
		if n.get("team_id").text() == "default-settings" {
			c.makeTemplate(n)
			continue
		}
		c.add(n, "", "team_alias", "team_id")
	}
	entries, keys := list.pairs()
	for _, n := range entries {
		if content(n.val).Kind != yaml.MappingNode { // not teams, but defaults of all
			c.makeTemplate(list)
			return
		}
	}
	for i, n := range entries {
		n.tree.taken[n.val] = true
		c.add(n, keys[i])
	}
}

// add makes a tenant of a team or key, named by the first of the keys that is there. The keys of one that is left out
// must not become tenants by themselves, without its limits.
func (c *converter) add(n node, name string, by ...string) {
	before := len(c.tenants)
	ids := c.tryAdd(n, name, by...)
	if len(c.tenants) == before {
		c.gone = append(c.gone, ids...)
	}
}

// tryAdd answers the name of the team or key, whether it became a tenant or not.
func (c *converter) tryAdd(n node, name string, by ...string) []string {
	t := tenant{at: n}
	for _, key := range by {
		if text := n.get(key).text(); text != "" {
			t.ids = append(t.ids, text)
		}
	}
	if name != "" {
		t.ids = []string{name}
	}
	if len(t.ids) == 0 {
		n.lost("has no name, and is left out")
		n.takeAll()
		return nil
	}
	if c.barred(n) {
		return t.ids
	}
	t.name, t.limits = c.name(t.ids[0]), c.limitsOf(n)
	end := expiry(n)
	for _, key := range []string{"key", "api_key", "token"} {
		c.keyOf(&t, n.get(key), end)
	}
	for _, key := range n.get("keys").items() {
		c.keyOf(&t, key, end)
	}
	if p := n.get("metadata").get("priority"); p.there() {
		t.tier = c.name(p.text())
	}
	if !c.grants(&t, n.get("models")) {
		return t.ids
	}
	if slices.ContainsFunc(c.tenants, func(o tenant) bool { return o.name == t.name }) {
		n.lost("there is a tenant %q already, and it is left out", t.name)
		return t.ids
	}
	c.tenants = append(c.tenants, t)
	return t.ids
}

// grants reads which models a tenant may use, by the names that callers ask for. Nobody is granted more than before: what
// has no counterpart is not granted, and who is left with nothing is left out.
func (c *converter) grants(t *tenant, list node) (some bool) {
	if list.text() != "" {
		list.lost("is not a list, so nothing is granted, and its owner is left out")
		t.at.takeAll()
		return false
	}
	for _, it := range list.items() {
		name := it.text()
		if name == "all-proxy-models" || name == "*" {
			t.models = nil
			return true
		}
		also := c.granting[name]
		if m, known := c.names[name]; known {
			also = append([]string{m}, also...)
		}
		if len(also) == 0 {
			it.lost("no model of this name was imported, so it is not granted")
		}
		for _, m := range also {
			if c.beyond(m) {
				it.lost("%q would grant models of other upstreams too, so it is not granted; list models", m)
			} else if !slices.Contains(t.models, m) {
				t.models = append(t.models, m)
			}
		}
	}
	if len(list.items()) > 0 && t.models == nil {
		t.at.lost("none of its models was imported, so it is left out")
		t.at.takeAll()
		return false
	}
	return true
}

// beyond reports whether a pattern may match models of another upstream than its own.
func (c *converter) beyond(pattern string) bool {
	head, _, isPattern := strings.Cut(pattern, "*")
	if !isPattern {
		return false
	}
	own := slices.IndexFunc(c.pools, func(p pool) bool { return slices.Contains(p.models, pattern) })
	return slices.ContainsFunc(c.pools, func(p pool) bool {
		return own < 0 || p.key() != c.pools[own].key() && slices.ContainsFunc(p.models, func(m string) bool {
			return strings.HasPrefix(m, head) || strings.HasPrefix(head, strings.SplitN(m, "*", 2)[0]) && strings.Contains(m, "*")
		})
	})
}

var gaps = regexp.MustCompile(`[\s/\x00-\x1f\x7f]+`)

// name is a text as the name of a tenant or tier.
func (c *converter) name(text string) string {
	return gaps.ReplaceAllString(strings.TrimSpace(text), "-")
}
