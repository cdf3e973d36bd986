package litellm

import (
	"fmt"
	"math/big"
	"slices"
	"strings"
	"unicode"
)

// upstream is one provider with one key.
type upstream struct {
	name, base, key string // base and key as the file will hold them, ${…} included
}

// price is in US dollars a million tokens.
type price struct{ input, cached, output string }

// models reads model_list.
func (c *converter) models(list node) {
	for _, item := range list.items() {
		c.deployment(item)
	}
}

func (c *converter) deployment(item node) {
	alias, params := item.get("model_name"), item.get("litellm_params")
	model := params.get("model")
	if model.text() == "" {
		item.note("has no litellm_params.model, and is left out")
		item.takeAll()
		return
	}
	who, real := split(model.text())
	p, known := providers[who]
	base := params.get("api_base")
	if !base.there() {
		base = params.get("base_url")
	}
	switch {
	case !known && !base.there(), who == "azure", who == "azure_ai", who == "anthropic", who == "bedrock", who == "vertex_ai":
		model.note("only upstreams of OpenAI's dialect are imported yet, so the models of %s are left out", who)
		item.takeAll()
		return
	case !known:
		who, real, p = "openai", model.text(), provider{} // somebody's own server, whose model names hold a slash
	case p.base == "" && !base.there():
		model.note("has no api_base, and is left out")
		item.takeAll()
		return
	}
	if strings.ContainsAny(real, " \t\n") || real == "" {
		model.note("is no name of a model here, and is left out")
		item.takeAll()
		return
	}
	up := c.upstream(who, p, base, params.get("api_key"))
	name := alias.text()
	if name != real && !canBeAlias(name, real) {
		alias.note("is no name that can lead to another one: callers ask for %q", real)
		name = real
	}
	if !c.limits(model, up, name, real, params) {
		item.takeAll()
		return
	}
	c.names[alias.text()] = name
	info := item.get("model_info")
	for _, key := range []string{"id", "mode", "description"} { // they only describe
		_ = info.get(key)
	}
	c.price(name, params, info)
}

// canBeAlias reports whether callers can ask for a model by another name: one word for one model.
func canBeAlias(name, real string) bool {
	return name != "" && !strings.ContainsFunc(name+real, func(c rune) bool { return c == '*' || unicode.IsSpace(c) || !unicode.IsPrint(c) })
}

// upstream is the one with that address and key, made when it is new.
func (c *converter) upstream(who string, p provider, base, key node) string {
	address := c.value(base)
	if address == "" {
		address = p.base
	}
	address = strings.TrimRight(address, "/")
	if strings.HasPrefix(who, "ollama") && !strings.HasSuffix(address, "/v1") && !strings.HasSuffix(address, "}") {
		address += "/v1" // where it speaks OpenAI's dialect
	}
	secret := c.value(key)
	if secret == "" && p.key != "" {
		secret = "${" + p.key + "}"
	} else if secret != "" && !strings.HasPrefix(secret, "${") {
		key.note("stands in the file as it is; better put it into the environment, and write ${NAME}")
		c.secrets = true
	}
	for _, u := range c.upstreams {
		if u.base == address && u.key == secret {
			return u.name
		}
	}
	u := upstream{c.uniqueUpstream(who), address, secret}
	c.upstreams = append(c.upstreams, u)
	return u.name
}

// uniqueUpstream is name, or name-2 and so on, as an upstream.
func (c *converter) uniqueUpstream(name string) string {
	return unique(name, func(n string) bool {
		return slices.ContainsFunc(c.upstreams, func(u upstream) bool { return u.name == n })
	})
}

// unique is name, or the first of name-2 and so on that is not taken.
func unique(name string, taken func(string) bool) string {
	for i, n := 2, name; ; i++ {
		if !taken(n) {
			return n
		}
		n = fmt.Sprintf("%s-%d", name, i)
	}
}

// price reads what the tokens of a model cost, by the name that callers ask for.
func (c *converter) price(name string, params, info node) {
	find := func(key string) node {
		if n := params.get(key); n.there() {
			_ = info.get(key)
			return n
		}
		return info.get(key)
	}
	in, out, cached := find("input_cost_per_token"), find("output_cost_per_token"), find("cache_read_input_token_cost")
	if !in.there() && !out.there() {
		return
	}
	if !in.there() || !out.there() {
		model := in
		if !in.there() {
			model = out
		}
		model.note("only one of input and output has a price, so %q has none", name)
		return
	}
	p := price{input: perMillion(in), output: perMillion(out)}
	if cached.there() {
		p.cached = perMillion(cached)
	}
	if p.input == "" || p.output == "" {
		return
	}
	if _, known := c.prices[name]; !known {
		c.prices[name] = p
	}
}

// perMillion makes a price a million tokens of one a token, with at most 6 decimals.
func perMillion(n node) string {
	r, ok := new(big.Rat).SetString(n.text())
	if !ok || r.Sign() < 0 {
		n.note("is no price, and left out")
		return ""
	}
	r.Mul(r, big.NewRat(1_000_000, 1))
	text := r.FloatString(6)
	if rounded, _ := new(big.Rat).SetString(text); rounded.Cmp(r) != 0 {
		n.note("is rounded to %s a million tokens", text)
	}
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}
