package tenants

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// microUSD is one US dollar in the unit that money is kept in.
const microUSD = 1_000_000

// maxPrice is the highest price of a million tokens, in millionths of a dollar: $10,000.
const maxPrice = 10_000 * microUSD

// Price is what tokens cost, in millionths of a US dollar a million tokens: 2_500_000 is $2.50.
type Price struct{ Input, CachedInput, Output int64 }

// ModelPrice is the price of a model, or of every model that a glob stands for.
type ModelPrice struct {
	Model string
	Price
}

var priceShape = shape[Price]{
	fields: []field[Price]{
		priceField("input", "US dollars a million tokens that are sent; 0 is free.", func(p *Price) *int64 { return &p.Input }),
		priceField("cached_input", "The same, of what the provider had cached. Left out, it is as input.",
			func(p *Price) *int64 { return &p.CachedInput }),
		priceField("output", "US dollars a million tokens that are produced; 0 is free.", func(p *Price) *int64 { return &p.Output }),
	},
	also: schema{"required": []any{"input", "output"}},
}

func priceField(key, about string, at func(*Price) *int64) field[Price] {
	return decimalField(key, about, 6, 0, maxPrice, 0, at)
}

func readPrices(v value, c *configFile) {
	list, _ := v.pairs()
	if len(list) > maxPatterns {
		v.problem("lists %d models, more than the %d that are supported; use patterns", len(list), maxPatterns)
		return
	}
	first := map[string]string{}
	for _, p := range list {
		if complaint := checkPattern(p.key); complaint != "" {
			p.r.refused[v.path] = true
			p.r.add(p.at, "model %s %s", show(p.key), complaint)
			continue
		}
		model := plain(p.key)
		if path, dup := first[model]; dup {
			p.r.add(p.at, "model %s is priced twice; the other is at %s, remove one", show(model), p.r.place(path))
			continue
		}
		first[model] = p.path
		p.r.places[child(v.path, model)] = p.r.places[p.path] // checks know it by its plain form
		c.prices = append(c.prices, ModelPrice{model, p.modelPrice()})
	}
}

// modelPrice reads one entry. What is cached costs as much as what is not, unless that is said.
func (v value) modelPrice() Price {
	var price Price
	list, ok := v.pairs()
	if !ok || !readPairs(list, priceShape, &price) {
		return price
	}
	for _, key := range []string{"input", "output"} {
		if !has(list, key) {
			v.problem("has no %s; write US dollars a million tokens, or 0 where it is free", key)
		}
	}
	if !has(list, "cached_input") {
		price.CachedInput = price.Input
	}
	return price
}

// pricing finds what a model costs. An alias costs what is said of just that name, else what its model does.
type pricing struct {
	routes
	aliases map[string]string
}

func newPricing(prices []ModelPrice, pools []Pool) pricing {
	lists := make([][]string, len(prices))
	for i, p := range prices {
		lists[i] = []string{p.Model}
	}
	return pricing{routesTo(lists), aliasMap(pools)}
}

// find answers with the index of the price.
func (p *pricing) find(model string) (at int, ok bool) {
	if real, isAlias := p.aliases[model]; isAlias {
		at, ok = p.exact[model]
		if ok {
			return at, true
		}
		model = real
	}
	return p.routes.find(model)
}

// covers reports whether one entry matches every name that pattern does. A star of pattern is taken as a character
// that only a star matches.
func (p *pricing) covers(pattern string) bool {
	_, ok := p.find(pattern)
	return ok
}

// prices checks that each model has one price.
func (c *compiler) prices() {
	globs := slices.DeleteFunc(slices.Clone(c.cfg.Prices), func(p ModelPrice) bool { return !isGlob(p.Model) })
	slices.SortStableFunc(globs, func(a, b ModelPrice) int { return cmp.Compare(literals(a.Model), literals(b.Model)) })
	for i, b := range globs {
		for j := i - 1; j >= 0 && literals(globs[j].Model) == literals(b.Model); j-- {
			a := globs[j]
			if a.Model == b.Model || !overlap(a.Model, b.Model) {
				continue
			}
			c.r.at(child("prices", b.Model), "overlaps %s at %s and neither has more literal characters; make one longer",
				show(a.Model), c.r.place(child("prices", a.Model)).or("its list"))
			break
		}
	}
}

// usdBudgets checks that whatever a budget in money counts has a price.
func (c *compiler) usdBudgets() {
	if c.r.refused["prices"] {
		return
	}
	priced := newPricing(c.cfg.Prices, c.cfg.Pools)
	for _, p := range c.cfg.Pools {
		if at := countsUSD(p.Budgets); at >= 0 {
			models := slices.DeleteFunc(slices.Clone(p.Models), func(m string) bool { return m == "" || priced.covers(m) })
			c.needPrices(item(child(child("pools", p.Name), "budgets"), at), "pool "+show(p.Name)+" serves", models)
		}
	}
	memo := map[string][]string{}
	for i := range c.tenants {
		t := &c.tenants[i]
		at := countsUSD(t.Budgets)
		if at < 0 {
			continue
		}
		var models []string
		for _, grant := range c.scopes[t.Index] {
			list, known := memo[grant]
			if !known || len(t.Bounds) > 0 {
				list = c.unpriced(&priced, t, grant)
			}
			if len(t.Bounds) == 0 {
				memo[grant] = list
			}
			models = append(models, list...)
		}
		c.needPrices(item(c.origin(t, "budgets"), at), "tenant "+show(t.Name)+" may use", models)
	}
}

// needPrices reports the models that a budget cannot count; once where it is a tier's, though its tenants share it.
func (c *compiler) needPrices(path, who string, models []string) {
	slices.Sort(models)
	models = slices.Compact(models)
	key := path + pathSep + strings.Join(models, pathSep)
	if len(models) == 0 || c.said[key] {
		return
	}
	c.said[key] = true
	const most = 5
	shown := make([]string, min(len(models), most))
	more := ""
	for i := range shown {
		shown[i] = c.showModel(models[i])
	}
	if n := len(models) - most; n > 0 {
		more = " and " + strconv.Itoa(n) + " more"
	}
	c.r.at(path, "counts usd, but %s models without a price: %s%s; add them to prices", who, strings.Join(shown, ", "), more)
}

// showModel is a model as a message shows it: as the pool that has it writes it.
func (c *compiler) showModel(model string) string {
	for _, p := range c.cfg.Pools {
		if i := slices.Index(p.Models, model); i >= 0 {
			return c.r.shown(item(child(child("pools", p.Name), "models"), i), model)
		}
	}
	return show(model)
}

// unpriced lists what a pattern of t's scope leads to and nothing in prices covers, in the narrower of the grant's and the
// pool's words. A price must cover one of the two whole: what several globs cover together is not seen.
func (c *compiler) unpriced(priced *pricing, t *Tenant, grant string) []string {
	if !isGlob(grant) {
		if _, served := c.routes.find(grant); served && !priced.covers(grant) {
			return []string{grant}
		}
		return nil
	}
	var list []string
	for _, p := range c.cfg.Pools {
		for _, m := range p.Models {
			if m == "" || !t.grants(grant, m) || priced.covers(m) || isGlob(m) && priced.covers(grant) {
				continue
			}
			if isGlob(m) && literals(grant) > literals(m) {
				m = grant
			}
			list = append(list, m)
		}
	}
	return list
}
