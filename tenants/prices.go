package tenants

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/llmgov/llmgov/internal/lib/strictyaml"
	"github.com/llmgov/llmgov/tenants/internal/glob"
)

// maxPrice is the highest price of a million tokens, in millionths of a dollar: $10,000.
const maxPrice = 10_000 * microUSD

var priceShape = shape[Price]{
	Fields: []field[Price]{
		priceField("input", "US dollars a million tokens that are sent; 0 is free.", func(p *Price) *int64 { return &p.Input }),
		priceField("cached_input", "The same, of what the provider had cached. Left out, it is as input.",
			func(p *Price) *int64 { return &p.CachedInput }),
		priceField("output", "US dollars a million tokens that are produced; 0 is free.", func(p *Price) *int64 { return &p.Output }),
	},
	Also: schema{"required": []any{"input", "output"}},
}

func priceField(key, about string, at func(*Price) *int64) field[Price] {
	return strictyaml.DecimalField(key, about, strictyaml.Decimals{Places: 6, Most: maxPrice}, at)
}

func readPrices(v value, c *configFile) {
	list, _ := v.Pairs()
	if len(list) > maxPatterns {
		v.Problem("lists %d models, more than the %d that are supported; use patterns", len(list), maxPatterns)
		return
	}
	first := map[string]string{}
	for _, p := range list {
		if complaint := checkPattern(p.Key); complaint != "" {
			p.Report.Refused[v.Path] = true
			p.Report.Add(p.At, "model %s %s", strictyaml.Show(p.Key), complaint)
			continue
		}
		model := glob.Plain(p.Key)
		if path, dup := first[model]; dup {
			p.Report.Add(p.At, "model %s is priced twice; the other is at %s, remove one", strictyaml.Show(model), p.Report.Place(path))
			continue
		}
		first[model] = p.Path
		p.Report.Places[strictyaml.Child(v.Path, model)] = p.Report.Places[p.Path] // checks know it by its plain form
		c.prices = append(c.prices, ModelPrice{model, readPrice(p.Value)})
	}
}

// readPrice reads one entry. Cached input costs as much as other input, unless the entry says so.
func readPrice(v value) Price {
	var price Price
	list, ok := v.Pairs()
	if !ok || !priceShape.ReadPairs(list, &price) {
		return price
	}
	for _, key := range []string{"input", "output"} {
		if !strictyaml.Has(list, key) {
			v.Problem("has no %s; write US dollars a million tokens, or 0 where it is free", key)
		}
	}
	if !strictyaml.Has(list, "cached_input") {
		price.CachedInput = price.Input
	}
	return price
}

// readUpstreamPrice reads the price of an upstream of a pool.
func readUpstreamPrice(v value, u *PoolUpstream) {
	price := readPrice(v)
	u.Price = &price
}

// pricedItself reports whether no price of a model counts in the pool, because all of its upstreams have prices of their own.
func (p *Pool) pricedItself() bool {
	return !slices.ContainsFunc(p.Upstreams, func(u PoolUpstream) bool { return u.Price == nil })
}

// PriceAt is the price of a model at an upstream of a pool, by its name.
func (s *Snapshot) PriceAt(p *Pool, upstream, model string) (Price, bool) {
	for i := range p.Upstreams {
		if u := &p.Upstreams[i]; u.Name == upstream && u.Price != nil {
			return *u.Price, true
		}
	}
	return s.Price(model)
}

// DearestPrice is the price of a model at the dearest of some of a pool's upstreams (see Pool.Reach), for each kind of tokens.
func (s *Snapshot) DearestPrice(p *Pool, some uint64, model string) (dearest Price) {
	for i := range p.Upstreams {
		if some != 0 && some&(1<<i) == 0 {
			continue
		}
		price, _ := s.PriceAt(p, p.Upstreams[i].Name, model)
		dearest.Input = max(dearest.Input, price.Input)
		dearest.CachedInput = max(dearest.CachedInput, price.CachedInput)
		dearest.Output = max(dearest.Output, price.Output)
	}
	return dearest
}

// pricing finds the price of a model. An alias has the price of just its name, else its model's.
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
	globs := slices.DeleteFunc(slices.Clone(c.cfg.Prices), func(p ModelPrice) bool { return !glob.Is(p.Model) })
	slices.SortStableFunc(globs, func(a, b ModelPrice) int { return cmp.Compare(glob.Literals(a.Model), glob.Literals(b.Model)) })
	for i, b := range globs {
		for j := i - 1; j >= 0 && glob.Literals(globs[j].Model) == glob.Literals(b.Model); j-- {
			a := globs[j]
			if a.Model == b.Model || !glob.Overlap(a.Model, b.Model) {
				continue
			}
			c.r.At(strictyaml.Child("prices", b.Model), "overlaps %s at %s and neither has more literal characters; make one longer",
				strictyaml.Show(a.Model), c.r.Place(strictyaml.Child("prices", a.Model)).Or("its list"))
			break
		}
	}
}

// usdBudgets checks that whatever a budget in money counts has a price.
func (c *compiler) usdBudgets() {
	if c.r.Refused["prices"] {
		return
	}
	priced := newPricing(c.cfg.Prices, c.cfg.Pools)
	for _, p := range c.cfg.Pools {
		if at := countsUSD(p.Budgets); at >= 0 && !p.pricedItself() {
			models := slices.DeleteFunc(slices.Clone(p.Models), func(m string) bool { return m == "" || priced.covers(m) })
			c.needPrices(strictyaml.Item(strictyaml.Child(strictyaml.Child("pools", p.Name), "budgets"), at), "pool "+strictyaml.Show(p.Name)+" serves", models)
		}
	}
	memo := map[string][]string{}
	for i := range c.tenants {
		t := &c.tenants[i]
		at := countsUSD(t.Budgets)
		path := "budgets"
		if at < 0 && t.Members != nil {
			path = strictyaml.Child(strictyaml.Child("members", "each"), path)
			at = t.Members.countsUSD()
		}
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
		c.needPrices(strictyaml.Item(c.origin(t, path), at), "tenant "+strictyaml.Show(t.Name)+" may use", models)
	}
}

// needPrices reports the models that a budget cannot count; once where it is a tier's, though its tenants share it.
func (c *compiler) needPrices(path, who string, models []string) {
	slices.Sort(models)
	models = slices.Compact(models)
	key := path + strictyaml.PathSep + strings.Join(models, strictyaml.PathSep)
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
	c.r.At(path, "counts usd, but %s models without a price: %s%s; add them to prices", who, strings.Join(shown, ", "), more)
}

// showModel is a model as a message shows it: as the pool that has it writes it.
func (c *compiler) showModel(model string) string {
	for _, p := range c.cfg.Pools {
		if i := slices.Index(p.Models, model); i >= 0 {
			return c.r.Shown(strictyaml.Item(strictyaml.Child(strictyaml.Child("pools", p.Name), "models"), i), model)
		}
	}
	return strictyaml.Show(model)
}

// unpriced lists the models that a pattern of t's scope leads to and no price covers, in the narrower of the grant's and the
// pool's words. A price must cover one of the two whole, because globs that cover it together are not seen.
func (c *compiler) unpriced(priced *pricing, t *Tenant, grant string) []string {
	if !glob.Is(grant) {
		if at, served := c.routes.find(grant); served && !c.cfg.Pools[at].pricedItself() && !priced.covers(grant) {
			return []string{grant}
		}
		return nil
	}
	var list []string
	for _, p := range c.cfg.Pools {
		if p.pricedItself() {
			continue
		}
		for _, m := range p.Models {
			if m == "" || !t.grants(grant, m) || priced.covers(m) || glob.Is(m) && priced.covers(grant) {
				continue
			}
			if glob.Is(m) && glob.Literals(grant) > glob.Literals(m) {
				m = grant
			}
			list = append(list, m)
		}
	}
	return list
}
