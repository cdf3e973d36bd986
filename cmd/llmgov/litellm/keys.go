package litellm

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/llmgov/llmgov/tenants"
	"github.com/llmgov/llmgov/tenants/keyfile"
)

// keys reads keys. One of a team opens the team's tenant; others are tenants of their own.
func (c *converter) keys(list node) {
	for _, n := range list.items() {
		team := n.get("team_id").text()
		if slices.Contains(c.gone, team) {
			n.lost("its team is left out, and so is it")
			n.takeAll()
			continue
		}
		i := slices.IndexFunc(c.tenants, func(t tenant) bool { return team != "" && slices.Contains(t.ids, team) })
		if i < 0 {
			c.add(n, "", "key_alias", "key_name", "team_id")
			continue
		}
		if !c.barred(n) {
			c.keyIn(&c.tenants[i], n)
		}
	}
}

// keyIn gives a tenant a key. One that has less than its team, limits of its own or fewer models, becomes a team of the
// tenant, since all that holds for the tenant holds for that too.
func (c *converter) keyIn(t *tenant, n node) {
	own := tenant{at: n, limits: c.limitsOf(n)}
	called := "key"
	for _, by := range []string{"key_name", "key_alias"} {
		if text := n.get(by).text(); text != "" {
			called = c.name(text)
		}
	}
	if !c.mayIn(&own, t.models) {
		return
	}
	to := t
	if len(own.lines) > 0 || own.usd != "" || own.models != nil {
		to = &own
	}
	for _, key := range []string{"key", "token"} {
		c.keyOf(to, n.get(key), expiry(n))
	}
	if to == t {
		return
	}
	own.name = unique(called, func(name string) bool {
		return slices.ContainsFunc(t.teams, func(o tenant) bool { return o.name == name })
	})
	n.differs("has less than its team, so it became team %q of tenant %q, with a share of its own", own.name, t.name)
	t.teams = append(t.teams, own)
}

// mayIn reads the models of a key of a team, of which it keeps those that the team may use; none where it may use all
// of them. It reports whether there are any, and leaves the key out if not: it would be granted more.
func (c *converter) mayIn(own *tenant, team []string) bool {
	list := own.at.get("models")
	if slices.ContainsFunc(list.items(), func(it node) bool { return it.text() == "all-team-models" }) {
		return true
	}
	if !c.grants(own, list) {
		return false
	}
	if own.models == nil || team != nil && !slices.ContainsFunc(team, func(m string) bool { return !slices.Contains(own.models, m) }) {
		own.models = nil
		return true
	}
	own.models = slices.DeleteFunc(own.models, func(m string) bool { return team != nil && !slices.Contains(team, m) })
	if len(own.models) > 0 {
		return true
	}
	own.at.lost("may use no model that its team may, so it is left out")
	own.at.takeAll()
	return false
}

// barred reports whether a team or key is not to be let in, and leaves it out.
func (c *converter) barred(n node) bool {
	end := n.get("expires")
	switch {
	case strings.EqualFold(n.get("blocked").text(), "true"):
		n.lost("is blocked, and left out")
	case end.there() && end.text() != "null" && expiry(n) == "":
		end.lost("is not a time from 2000 to 2999, and is left out")
	default:
		return false
	}
	n.takeAll()
	return true
}

// expiry is when a key ends, as a policy file has it; "" is never.
func expiry(n node) string {
	for _, layout := range []string{time.RFC3339, "2006-01-02 15:04:05Z07:00", "2006-01-02T15:04:05", time.DateTime, time.DateOnly} {
		if at, err := time.Parse(layout, n.get("expires").text()); err == nil && at.UTC().Year() >= 2000 && at.UTC().Year() < 3000 {
			return at.UTC().Format(time.RFC3339)
		}
	}
	return ""
}

// keyOf adds a key's hash. A key in a variable is only known where it is set.
func (c *converter) keyOf(t *tenant, n node, end string) {
	text := n.text()
	if text == "" {
		return
	}
	name, isVariable := strings.CutPrefix(text, variable)
	if isVariable {
		text = c.opt.Env[name]
		if text == "" {
			n.lost("is in %s, which is not set, so its hash is not known: run llmgov keys hash", name)
			return
		}
	}
	h, ok := keyfile.ParseHash("sha256:" + text) // as LiteLLM's database has it
	if !ok {
		if err := keyfile.CheckStrength(text); err != nil {
			n.lost("is left out: %v", err)
			return
		}
		h = tenants.HashKey(text)
	}
	key := quote(h.String())
	if end != "" {
		key = fmt.Sprintf("{hash: %s, expires: %s}", key, end)
	}
	t.keys = append(t.keys, key)
}
