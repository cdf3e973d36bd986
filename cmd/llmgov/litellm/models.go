package litellm

import (
	"fmt"
	"math/big"
	"slices"
	"strings"
)

// upstream is one provider with one key.
type upstream struct {
	name, base, key string // base and key as the file will hold them, ${…} included
}

// pool is a model, or several without limits of their own, of one upstream.
type pool struct {
	name, upstream        string
	models                []string
	tpm, rpm, concurrency int64
	unlimited             bool
}

// price is in US dollars a million tokens.
type price struct{ input, cached, output string }

// unlimitedConcurrency is what a pool gets that had no limit: llmgov shares something, so there must be some.
const unlimitedConcurrency = 256

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
		model.note("only upstreams of OpenAI's dialect are supported yet, so the models of %s are left out", who)
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
	if c.limits(model, up, real, params) {
		c.aliases[alias.text()] = append(c.aliases[alias.text()], real)
		if alias.text() != real {
			alias.note("other names for models are not supported yet: callers ask for %q", real)
		}
	}
	info := item.get("model_info")
	for _, key := range []string{"id", "mode", "description"} { // they only describe
		_ = info.get(key)
	}
	c.price(real, params, info)
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
	u := upstream{c.unique(who), address, secret}
	c.upstreams = append(c.upstreams, u)
	return u.name
}

// unique is name, or name-2 and so on, as an upstream.
func (c *converter) unique(name string) string {
	taken := func(n string) bool {
		return slices.ContainsFunc(c.upstreams, func(u upstream) bool { return u.name == n })
	}
	for i, n := 2, name; ; i++ {
		if !taken(n) {
			return n
		}
		n = fmt.Sprintf("%s-%d", name, i)
	}
}

// limits puts a model into a pool, unless another upstream serves it: who was granted this one is not granted that one.
func (c *converter) limits(model node, up, real string, params node) (put bool) {
	tpm, rpm, slots := params.get("tpm").amount(), params.get("rpm").amount(), params.get("max_parallel_requests").amount()
	if slots == 0 {
		slots = c.slots
	}
	if i := slices.IndexFunc(c.pools, func(p pool) bool { return slices.Contains(p.models, real) }); i >= 0 {
		p := &c.pools[i]
		if p.upstream != up {
			model.note("%q is served by upstream %s already, and a model has one upstream yet: this deployment and its limits are left out", real, p.upstream)
			return false
		}
		if p.unlimited {
			model.note("%q is there twice with the same upstream, once without limits: it has none", real)
			return true
		}
		if sum := [3]int64{both(p.tpm, tpm), both(p.rpm, rpm), both(p.concurrency, slots)}; sum != [3]int64{} {
			p.tpm, p.rpm, p.concurrency = sum[0], sum[1], sum[2]
		}
		model.note("%q is there twice with the same upstream: limits that both have are added up", real)
		return true
	}
	if tpm > 0 || rpm > 0 || slots > 0 {
		c.pools = append(c.pools, pool{name: real, upstream: up, models: []string{real}, tpm: tpm, rpm: rpm, concurrency: slots})
		return true
	}
	i := slices.IndexFunc(c.pools, func(p pool) bool { return p.unlimited && p.upstream == up })
	if i < 0 {
		model.note("has no rpm or tpm, and a pool needs a limit: pool %s has concurrency %d; write what your contract says",
			up, unlimitedConcurrency)
		c.pools = append(c.pools, pool{name: up, upstream: up, models: []string{real}, concurrency: unlimitedConcurrency, unlimited: true})
		return true
	}
	c.pools[i].models = append(c.pools[i].models, real)
	return true
}

// both adds two limits up, of which 0 is none.
func both(a, b int64) int64 {
	if a == 0 || b == 0 {
		return 0
	}
	return a + b
}

// price reads what a model's tokens cost.
func (c *converter) price(real string, params, info node) {
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
		model.note("only one of input and output has a price, so %q has none", real)
		return
	}
	p := price{input: perMillion(in), output: perMillion(out)}
	if cached.there() {
		p.cached = perMillion(cached)
	}
	if p.input == "" || p.output == "" {
		return
	}
	if _, known := c.prices[real]; !known {
		c.prices[real] = p
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
