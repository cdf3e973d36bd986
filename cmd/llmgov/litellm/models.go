package litellm

import (
	"math/big"
	"strings"
	"unicode"
)

// deployment is an entry of model_list that can be served.
type deployment struct {
	item, alias, model, params node
	real                       string // the provider's name of the model
	up                         upstream
	provider                   provider
	limits                     amounts
	weight                     *big.Rat // nil when it says none
	order                      int64    // 0 when it says none
}

// price is in US dollars a million tokens.
type price struct{ input, cached, output string }

// models reads model_list, where the entries of one model_name are one model.
func (c *converter) models(list, credentials node) {
	for _, n := range credentials.items() {
		c.logins[n.get("credential_name").text()] = n.get("credential_values")
		n.get("credential_info").takeAll() // it only describes
	}
	var order []string
	groups := map[string][]deployment{}
	for _, item := range list.items() {
		d, ok := c.deployment(item)
		if !ok {
			item.takeAll()
			continue
		}
		name := d.alias.text()
		if groups[name] == nil {
			order = append(order, name)
		}
		groups[name] = append(groups[name], d)
	}
	for _, name := range order {
		c.group(groups[name])
	}
	c.dropUnused()
}

// deployment reads an entry; it reports whether there is something to serve.
func (c *converter) deployment(item node) (d deployment, ok bool) {
	d = deployment{item: item, alias: item.get("model_name"), params: item.get("litellm_params")}
	d.model = d.params.get("model")
	if d.model.text() == "" {
		item.lost("has no litellm_params.model, and is left out")
		return d, false
	}
	login := d.params.get("litellm_credential_name")
	if _, known := c.logins[login.text()]; login.there() && !known {
		login.harmless("is not in credential_list, so it adds nothing")
	}
	base := c.param(d, "api_base")
	if !base.there() {
		base = c.param(d, "base_url")
	}
	host, ok := servedBy(d, base)
	if !ok {
		return d, false
	}
	d.provider = host.provider
	d.real = host.model
	if strings.ContainsAny(d.real, " \t\n") || d.real == "" {
		d.model.lost("is not a valid name of a model, and is left out")
		return d, false
	}
	if d.real == "*" && d.provider.family != "" {
		d.real = d.provider.family
	}
	d.limits = c.amountsOf(d.params)
	d.order = d.params.get("order").amount()
	d.weight = weightOf(d.params.get("weight"))
	d.up = c.upstream(host.name, d, base)
	return d, true
}

// param is a value of a deployment, or of the credential that it names.
func (c *converter) param(d deployment, key string) node {
	if n := d.params.get(key); n.there() {
		return n
	}
	return c.logins[d.params.get("litellm_credential_name").text()].get(key)
}

// host is who serves a deployment.
type host struct {
	name     string // LiteLLM's for the provider
	provider provider
	model    string // the provider's name of the model
}

// servedBy finds the host of a deployment; ok is false if llmgov cannot speak with it.
func servedBy(d deployment, base node) (h host, ok bool) {
	who, real := split(d.model.text())
	if named := d.params.get("custom_llm_provider").text(); named != "" {
		who = named
		real = strings.TrimPrefix(d.model.text(), named+"/")
	}
	p, known := providers[who]
	switch {
	case foreign[who], !known && !base.there():
		d.model.lost("llmgov speaks OpenAI's dialect, and to Azure and Anthropic in theirs, so the models of %s are left out", who)
		return host{}, false
	case !known: // somebody's own server, whose model names hold a slash
		return host{name: "openai", provider: provider{own: true}, model: d.model.text()}, true
	case p.base == "" && !base.there():
		d.model.lost("has no api_base, and is left out")
		return host{}, false
	}
	if p.kind != anthropicKind {
		for _, way := range []string{"responses/", "o_series/", "gpt5_series/"} { // how LiteLLM is to call it
			real = strings.TrimPrefix(real, way)
		}
	}
	return host{name: who, provider: p, model: real}, true
}

// canBeAlias reports whether callers can ask for a model by another name: one word for one model.
func canBeAlias(name, real string) bool {
	return name != "" && !strings.ContainsFunc(name+real, func(c rune) bool { return c == '*' || unicode.IsSpace(c) || !unicode.IsPrint(c) })
}

// describe takes the keys of model_info: prices, groups of models that teams are granted, and descriptions.
func (c *converter) describe(name string, d deployment) {
	info := d.item.get("model_info")
	for _, key := range []string{"id", "mode", "description"} {
		_ = info.get(key)
	}
	for _, group := range info.get("access_groups").items() {
		c.granting[group.text()] = append(c.granting[group.text()], name)
		group.tree.taken[group.val] = true
	}
	c.price(name, d, info)
}

// price reads the cost of a model's tokens, by the name that callers ask for.
func (c *converter) price(name string, d deployment, info node) {
	find := func(key string) node {
		if n := d.params.get(key); n.there() {
			_ = info.get(key)
			return n
		}
		return info.get(key)
	}
	in := find("input_cost_per_token")
	out := find("output_cost_per_token")
	cached := find("cache_read_input_token_cost")
	if !in.there() && !out.there() {
		if _, known := c.prices[name]; !known {
			c.listedPrice(name, d, info.get("base_model"))
		}
		return
	}
	if !in.there() || !out.there() {
		model := in
		if !in.there() {
			model = out
		}
		model.lost("only one of input and output has a price, so %q has none", name)
		return
	}
	p := price{input: priceOf(in), output: priceOf(out)}
	if cached.there() {
		p.cached = priceOf(cached)
	}
	if p.input == "" || p.output == "" {
		return
	}
	if first, known := c.prices[name]; !known {
		c.prices[name] = p
	} else if first != p {
		in.differs("%q costs what its first deployment says, also where this one serves it", name)
	}
}

// listedPrice takes a price from the price map, by the names by which LiteLLM looks for it.
func (c *converter) listedPrice(name string, d deployment, base node) {
	if p, ok := c.opt.Prices.of(base.text(), d.model.text(), d.real); ok {
		c.prices[name] = p
	}
}

// priceOf reads a price a token, "" if it is none.
func priceOf(n node) string {
	exact := perMillion(n.text())
	if exact == nil {
		n.lost("is not a price, and is left out")
		return ""
	}
	text := decimals(exact)
	if rounded, _ := new(big.Rat).SetString(text); rounded.Cmp(exact) != 0 {
		n.harmless("is rounded to %s a million tokens", text)
	}
	return text
}
