package tenants

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/llmgov/llmgov/governor/terms"
	"github.com/llmgov/llmgov/internal/lib/strictyaml"
	"github.com/llmgov/llmgov/tenants/internal/glob"
)

// maxPrice is the highest price of a million tokens, or of a call, in millionths of a dollar: $10,000.
const maxPrice = 10_000 * microUSD

// maxFactor is the highest factor of a service tier, in thousandths: 100.
const maxFactor = 100 * 1000

// rates are the prices of tokens, and of what has a price by the piece. One that is left out is a part of another.
var rates = []struct {
	key, about string
	at         func(*Price) *int64
	of         string // of which it is, left out, a quarter so many times; "" is free
	quarters   int64
	listed     string // its name in lists of prices, see ReadPriceList; "" is none
}{
	{"input", "US dollars a million tokens that are sent; 0 is free.", func(p *Price) *int64 { return &p.Input }, "", 0, "input_cost_per_token"},
	{"output", "US dollars a million tokens that are produced; 0 is free.", func(p *Price) *int64 { return &p.Output }, "", 0, "output_cost_per_token"},
	{"cached_input", "The same, of what the provider had cached. Left out, it is as input.", func(p *Price) *int64 { return &p.CachedInput }, "input", 4, "cache_read_input_token_cost"},
	{"cache_write", "The same, of what the provider puts into its cache. Left out, it is 1.25 times input for Claude or if cache_write_1h is there, else as input.", func(p *Price) *int64 { return &p.CacheWrite }, "input", 5, "cache_creation_input_token_cost"},
	{"cache_write_1h", "The same, of what is kept there for an hour. Left out, it is twice input for Claude or if cache_write is there, else as input.", func(p *Price) *int64 { return &p.CacheWriteHour }, "input", 8, "cache_creation_input_token_cost_above_1hr"},
	{"audio_input", "The same, of sound that is sent. Left out, it is as input.", func(p *Price) *int64 { return &p.AudioInput }, "input", 4, "input_cost_per_audio_token"},
	{"audio_output", "The same, of sound that is produced. Left out, it is as output.", func(p *Price) *int64 { return &p.AudioOutput }, "output", 4, "output_cost_per_audio_token"},
	{"image_input", "The same, of images that are sent. Left out, it is as input.", func(p *Price) *int64 { return &p.ImageInput }, "input", 4, "input_cost_per_image_token"},
	{"image_output", "The same, of images that are produced. Left out, it is as output.", func(p *Price) *int64 { return &p.ImageOutput }, "output", 4, "output_cost_per_image_token"},
	{"per_call", "US dollars a call, beside its tokens.", func(p *Price) *int64 { return &p.Call }, "", 0, ""},
	{"tool_call", "US dollars a web search that the provider runs for a call.", func(p *Price) *int64 { return &p.Tool }, "", 0, ""},
	{"file_search", "US dollars a search of files that it runs.", func(p *Price) *int64 { return &p.FileSearch }, "", 0, ""},
	{"code_session", "US dollars a session of its code interpreter; an answer that ran code counts as one.", func(p *Price) *int64 { return &p.CodeSession }, "", 0, ""},
}

// rateFields are the keys of rates.
func rateFields[T any](price func(*T) *Price) (list []field[T]) {
	for _, r := range rates {
		list = append(list, strictyaml.DecimalField(r.key, r.about, strictyaml.Decimals{Places: 6, Most: maxPrice},
			func(t *T) *int64 { return r.at(price(t)) }))
	}
	return list
}

var aboveShape = shape[terms.Above]{
	Fields: append([]field[terms.Above]{
		{
			Name: "context", About: "Tokens of the prompt, cached or not, above which the whole call has this price, such as 200000 or 200k.",
			Kind: strictyaml.TextKind(`^[1-9][0-9]{0,11}k?$`), Read: readContext, Need: "write above how many tokens of a prompt it holds",
		},
	}, rateFields(func(a *terms.Above) *Price { return &a.Price })...),
}

var priceShape = shape[Price]{
	Fields: append(rateFields(func(p *Price) *Price { return p }),
		field[Price]{
			Name: "above", About: "The prices of calls with long prompts. What one leaves out is as in the entry itself.",
			Kind: strictyaml.ListOf(func() schema { return aboveShape.Schema(nil) }, 0, false),
			Read: func(value, *Price) {}, // readPrice does, once it knows the rest
		},
		field[Price]{
			Name: "tiers", About: "Factors of the prices of tokens at the service tiers that answers name, such as {flex: 0.5, priority: 2}. 1 at others.",
			Kind: strictyaml.MapOf(tierNames, strictyaml.FractionKind(3, 0, maxFactor), 0), Read: readTiers,
		},
		field[Price]{
			Name: "batch", About: "The same factor, of batches.", Kind: strictyaml.FractionKind(3, 0, maxFactor),
			Read: func(v value, p *Price) { addTier(v, p, terms.TierBatch) },
		},
	),
	Also: schema{"required": []any{"input", "output"}},
}

// thousands are a number of them.
var thousands = regexp.MustCompile(`^([1-9][0-9]{0,8})k$`)

func readContext(v value, a *terms.Above) {
	text, _ := v.Scalar()
	if n := thousands.FindStringSubmatch(text); n != nil {
		a.Context, _ = strconv.ParseInt(n[1], 10, 64)
		a.Context *= 1000
		return
	}
	a.Context = v.Amount(1, maxAmount)
}

// tierNames are the names that answers may tell of service tiers.
const tierNames = `^[a-z0-9_-]+$`

var tierName = regexp.MustCompile(tierNames)

// standardTiers are names of the tier that has no factor.
var standardTiers = []string{"default", "standard", "auto", "on_demand"}

func readTiers(v value, p *Price) {
	list, _ := v.Pairs()
	for _, tier := range list {
		switch {
		case !tierName.MatchString(tier.Key):
			tier.Report.Add(tier.At, "tier %s is not one that answers name; write a name such as flex or priority, in lower case", strictyaml.Show(tier.Key))
		case slices.Contains(standardTiers, tier.Key):
			tier.Report.Add(tier.At, "tier %s is the standard one, which has no factor; change the prices of its tokens", strictyaml.Show(tier.Key))
		default:
			addTier(tier.Value, p, tier.Key)
		}
	}
}

// addTier adds the factor of a tier.
func addTier(v value, p *Price, name string) {
	if slices.ContainsFunc(p.Tiers, func(t terms.Tier) bool { return t.Name == name }) {
		v.Problem("is the factor of %s again; remove one", name)
		return
	}
	p.Tiers = append(p.Tiers, terms.Tier{Name: name, Factor: v.Decimal(3, 0, maxFactor, 1000)})
}

// pricesSchema is that of prices: models by name, beside the keys that lead to lists of prices.
func pricesSchema() schema {
	s := strictyaml.MapOf(anyName, func() schema { return priceShape.Schema(nil) }, 0)()
	lists := listShape.Schema(nil)
	s["properties"] = lists["properties"]
	return s
}

// listShape has the keys of prices that lead to lists of them.
var listShape = shape[configFile]{Fields: []field[configFile]{
	{
		Name: "file", About: "A file with LiteLLM's price map, relative to this file, for models that have no entry here. It is followed like a policy.",
		Kind: strictyaml.TextKind(`.`), Read: func(v value, c *configFile) { c.priceFile, _ = v.Scalar() },
	},
	{
		Name: "builtin", About: "Whether models that have no price otherwise have that of the list that this version of llmgov has.",
		Kind: strictyaml.BoolKind, Read: func(v value, c *configFile) { c.builtinPrices = v.Bool() },
	},
}}

func readPrices(v value, c *configFile) {
	list, _ := v.Pairs()
	list = slices.DeleteFunc(slices.Clone(list), func(p pair) bool {
		leads := p.IsScalar() && (p.Key == "file" || p.Key == "builtin")
		if leads {
			listShape.ReadPairs([]pair{p}, c)
		}
		return leads
	})
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

// readPrice reads one entry.
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
	short := price
	fillPrice(&price, func(key string) bool { return strictyaml.Has(list, key) })
	if at := slices.IndexFunc(list, func(p pair) bool { return p.Key == "above" }); at >= 0 {
		items, _ := list[at].Items()
		for _, it := range items {
			price.Above = append(price.Above, readAbove(it, short, list))
		}
		slices.SortStableFunc(price.Above, func(a, b terms.Above) int { return cmp.Compare(a.Context, b.Context) })
		for i := 1; i < len(price.Above); i++ {
			if n := price.Above[i].Context; n > 1 && n == price.Above[i-1].Context {
				list[at].Problem("has two prices above %d; remove one", n)
			}
		}
	}
	return price
}

// readAbove reads the price of long prompts beside one of short ones, as it is written in list.
func readAbove(v value, short Price, list []pair) terms.Above {
	short.Tiers = nil
	above := terms.Above{Price: short}
	own, known := aboveShape.Read(v, &above)
	if !known {
		return above
	}
	fillPrice(&above.Price, func(key string) bool { return strictyaml.Has(own, key) || strictyaml.Has(list, key) })
	return above
}

// unsaid is the rate of cache writes that an entry says nothing of, until priceWrites.
const unsaid = -1

// fillPrice sets the rates that an entry does not say.
func fillPrice(p *Price, says func(key string) bool) {
	writes := says("cache_write") || says("cache_write_1h")
	for _, r := range rates {
		switch {
		case r.of == "" || says(r.key):
		case r.quarters > 4 && !writes:
			*r.at(p) = unsaid
		case r.of == "output":
			*r.at(p) = p.Output
		default:
			*r.at(p) = (p.Input*r.quarters + 3) / 4
		}
	}
}

// priceWrites sets the rates of cache writes that are unsaid: as Anthropic has them if they are dear, or as input, so that no call is held at more
// than it can cost.
func priceWrites(p *Price, dear bool) {
	for i := range p.Above {
		priceWrites(&p.Above[i].Price, dear)
	}
	for _, r := range rates {
		if at := r.at(p); *at == unsaid {
			*at = p.Input
			if dear {
				*at = (p.Input*r.quarters + 3) / 4
			}
		}
	}
}

// priceWrites sets the rates of cache writes that own prices leave out. They are dear for Claude and at upstreams of kind Anthropic.
func (c *configFile) priceWrites() {
	var theirs []string // the models of such upstreams
	for _, p := range c.pools {
		for _, u := range p.Upstreams {
			dear := slices.ContainsFunc(c.upstreams, func(o Upstream) bool { return o.Name == u.Name && o.Kind == Anthropic })
			if dear {
				theirs = append(theirs, p.Models...)
			}
			if u.Price != nil {
				priceWrites(u.Price, dear || slices.ContainsFunc(p.Models, isClaude))
			}
		}
	}
	aliases := aliasMap(c.pools)
	for i := range c.prices {
		model := c.prices[i].Model
		model = cmp.Or(aliases[model], model)
		priceWrites(&c.prices[i].Price, isClaude(model) || slices.ContainsFunc(theirs, func(m string) bool { return glob.Overlap(m, model) }))
	}
}

func isClaude(model string) bool { return strings.Contains(model, "claude") }

// checkPrice checks a price that was made in code.
func checkPrice(r *report, path string, p *Price) {
	priceShape.Check(r, path, p)
	for i := range p.Above {
		aboveShape.Check(r, strictyaml.Item(strictyaml.Child(path, "above"), i), &p.Above[i])
	}
	for _, t := range p.Tiers {
		if t.Factor < 0 || t.Factor > maxFactor {
			r.At(strictyaml.Child(strictyaml.Child(path, "tiers"), t.Name), "%s is out of range; use 0 to 100", strictyaml.SpellDecimal(t.Factor, 3))
		}
	}
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

// PriceAt is the price of a model at an upstream of a pool, by its name; nil if there is none.
func (s *Snapshot) PriceAt(p *Pool, upstream, model string) *Price {
	for i := range p.Upstreams {
		if u := &p.Upstreams[i]; u.Name == upstream && u.Price != nil {
			return u.Price
		}
	}
	return s.Price(model)
}

// DearestPrice is the price of a model at that one of some of a pool's upstreams (see Pool.Reach) where a call of so many tokens that asks for a
// service tier may cost most; nil if it has none.
func (s *Snapshot) DearestPrice(p *Pool, some uint64, model string, input, output int64, tier string) (dearest *Price) {
	for i := range p.Upstreams {
		if some == 0 || some&(1<<i) != 0 {
			dearest = dearest.Dearer(s.PriceAt(p, p.Upstreams[i].Name, model), input, output, tier)
		}
	}
	return dearest
}

// pricing finds the price of a model. An alias has the price of just its name, else its model's.
type pricing struct {
	routes
	aliases map[string]string
	own     []ModelPrice
	listed  map[string]*Price
}

func newPricing(cfg *Config) pricing {
	lists := make([][]string, len(cfg.Prices))
	for i, p := range cfg.Prices {
		lists[i] = []string{p.Model}
	}
	listed := make(map[string]*Price, len(cfg.Listed))
	for i := range cfg.Listed {
		listed[cfg.Listed[i].Model] = &cfg.Listed[i].Price
	}
	return pricing{routesTo(lists), aliasMap(cfg.Pools), cfg.Prices, listed}
}

// find finds an entry, else a listed price, and else the entry of any model.
func (p *pricing) find(model string) *Price {
	if real, isAlias := p.aliases[model]; isAlias {
		if at, ok := p.exact[model]; ok {
			return &p.own[at].Price
		}
		model = real
	}
	at, ok := p.routes.find(model)
	listed := p.listed[model]
	if listed != nil && (!ok || p.own[at].Model == "*") {
		return listed
	}
	if !ok {
		return nil
	}
	return &p.own[at].Price
}

// covers reports whether one entry matches every name that pattern does. A star of pattern is taken as a character
// that only a star matches.
func (p *pricing) covers(pattern string) bool {
	return p.find(pattern) != nil
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
	priced := newPricing(c.cfg)
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
	listed := ""
	if !slices.ContainsFunc(models, func(m string) bool { return !isBuiltin(m) }) {
		listed = ", or write builtin: true there for the public ones that llmgov knows"
	}
	c.r.At(path, "counts usd, but %s models without a price: %s%s; add them to prices%s", who, strings.Join(shown, ", "), more, listed)
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
