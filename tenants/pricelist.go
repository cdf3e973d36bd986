package tenants

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/llmgov/llmgov/governor/terms"
	"github.com/llmgov/llmgov/internal/lib/strictyaml"
	"github.com/llmgov/llmgov/tenants/internal/disk"
)

// wellKnown is the list of prices that every llmgov has: a part of LiteLLM's price map, with its date.
//
//go:embed wellknown.json
var wellKnown []byte

var builtinPrices = sync.OnceValue(func() []ModelPrice {
	list, err := ReadPriceList(wellKnown)
	if err != nil {
		panic("tenants: BUG: wellknown.json " + err.Error())
	}
	return list
})

// isBuiltin reports whether the built-in list knows a model.
func isBuiltin(model string) bool {
	return slices.ContainsFunc(builtinPrices(), func(p ModelPrice) bool { return p.Model == model })
}

// priceLists are the prices of the file that a config names, and of the built-in list, as far as pools serve the models and an entry of
// their own does not price them.
func (l *loader) priceLists(c *configFile) (all []ModelPrice) {
	if c.priceFile != "" {
		all = l.priceFile(c.priceFile)
	}
	if c.builtinPrices {
		known := map[string]bool{}
		for _, p := range all {
			known[p.Model] = true
		}
		all = slices.Concat(all, slices.DeleteFunc(slices.Clone(builtinPrices()), func(p ModelPrice) bool { return known[p.Model] }))
	}
	routes := newRoutes(c.pools)
	real := slices.Collect(maps.Values(aliasMap(c.pools)))
	all = slices.DeleteFunc(slices.Clone(all), func(p ModelPrice) bool {
		_, served := routes.find(p.Model)
		return !served && !slices.Contains(real, p.Model)
	})
	slices.SortFunc(all, func(a, b ModelPrice) int { return strings.Compare(a.Model, b.Model) })
	return all
}

// maxPriceList bounds the file of a list of prices. LiteLLM's has 3.5 MB.
const maxPriceList = 16 << 20

// priceFile reads a list of prices, which is followed like the config.
func (l *loader) priceFile(name string) []ModelPrice {
	file := l.beside(name)
	l.secretFiles = append(l.secretFiles, file)
	l.listFile = file
	data, err := l.readFile(file)
	if err != nil {
		l.r.At(strictyaml.Child("prices", "file"), "%s cannot be read: %v; name a file with LiteLLM's price map", strictyaml.Show(filepath.ToSlash(name)), disk.Reason(err))
		return nil
	}
	if len(data) > maxPriceList {
		l.r.At(strictyaml.Child("prices", "file"), "%s has more than %d MiB; name a file with LiteLLM's price map", strictyaml.Show(filepath.ToSlash(name)), maxPriceList>>20)
		return nil
	}
	if of := l.sums[file]; of != l.listedOf {
		list, err := ReadPriceList(data)
		if err != nil {
			at := int64(1)
			if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
				at = max(1, syntax.Offset)
			}
			before := data[:min(at-1, int64(len(data)))]
			l.r.Add(place{File: l.show(file), Line: bytes.Count(before, []byte("\n")) + 1, Col: len(before) - bytes.LastIndexByte(before, '\n')},
				"%v; write LiteLLM's price map, model_prices_and_context_window.json", err)
			return nil
		}
		l.listed = list
		l.listedOf = of
	}
	return l.listed
}

// ReadPriceList reads prices from LiteLLM's price map: US dollars a token, by model. Models that are not priced by the token are left out.
func ReadPriceList(data []byte) ([]ModelPrice, error) {
	var entries map[string]json.RawMessage
	if err := json.Unmarshal(data, &entries); err != nil {
		return nil, fmt.Errorf("is no price map: %w", err)
	}
	var list []ModelPrice
	for model, entry := range entries {
		var l listedPrice
		if len(model) > strictyaml.MaxName || json.Unmarshal(entry, &l) != nil {
			continue
		}
		if price, ok := l.price(); ok {
			list = append(list, ModelPrice{model, price})
		}
	}
	if len(list) == 0 {
		return nil, errors.New("is no price map: no model in it has input_cost_per_token and output_cost_per_token")
	}
	return list, nil
}

// listedPrice is a model in the price map.
type listedPrice map[string]any

// listedTiers are the service tiers whose prices have names of their own there, by the end of these names.
var listedTiers = []terms.Tier{{Name: "flex"}, {Name: "priority"}, {Name: "ultrafast"}, {Name: "batches"}}

// aboveEnd is the end of the names of prices of long prompts.
var aboveEnd = regexp.MustCompile(`^input_cost_per_token(_above_([0-9]{1,6})k_tokens)$`)

// price is the price of a model. It is not ok if that is not priced by the token.
func (l listedPrice) price() (p Price, ok bool) {
	if !l.has("output_cost_per_token") {
		l["output_cost_per_token"] = l["output_cost_per_image_token"]
	}
	if !l.has("input_cost_per_token") || !l.has("output_cost_per_token") {
		return Price{}, false
	}
	p = l.rates("")
	for key := range l {
		if end := aboveEnd.FindStringSubmatch(key); end != nil {
			thousands, _ := strconv.ParseInt(end[2], 10, 64)
			p.Above = append(p.Above, terms.Above{Context: thousands * 1000, Price: l.rates(end[1])})
		}
	}
	slices.SortFunc(p.Above, func(a, b terms.Above) int { return int(a.Context - b.Context) })
	for _, tier := range listedTiers {
		most := 0.0
		for _, key := range []string{"input_cost_per_token", "output_cost_per_token"} {
			if usual := l.of(key); usual > 0 && l.has(key+"_"+tier.Name) {
				most = max(most, l.of(key+"_"+tier.Name)/usual)
			}
		}
		tier.Factor, tier.Of = fraction(most)
		if tier.Name == "batches" {
			tier.Name = terms.TierBatch
		}
		if tier.Factor > 0 {
			p.Tiers = append(p.Tiers, tier)
		}
		if tier.Name == "priority" && tier.Factor > 0 {
			tier.Name = "fast" // its other name
			p.Tiers = append(p.Tiers, tier)
		}
	}
	if fast := listedPrice(l.object("provider_specific_entry")); fast.has("fast") {
		p.Tiers = append(p.Tiers, terms.Tier{Name: "fast", Factor: min(int64(math.Round(fast.of("fast")*1000)), maxFactor)})
	}
	p.Call = microUSDOf(l.of("input_cost_per_request") * microUSD)
	p.Tool = microUSDOf(listedPrice(l.object("search_context_cost_per_query")).of("search_context_size_medium") * microUSD)
	p.FileSearch = microUSDOf(l.of("file_search_cost_per_1k_calls") * microUSD / 1000)
	p.CodeSession = microUSDOf(l.of("code_interpreter_cost_per_session") * microUSD)
	priceWrites(&p, false)
	return p, true
}

// fraction is a factor in thousandths, else in the fewest parts of which it is a number: lists have prices and no factors, such as $0.25 and $0.15.
func fraction(f float64) (n, of int64) {
	f = min(f, maxFactor/1000)
	is := func(of int64) bool {
		parts := f * float64(of)
		n = int64(math.Round(parts))
		return math.Abs(parts-float64(n)) <= 1e-9*parts
	}
	for of := range int64(1000) {
		if is(cmp.Or(of, 1000)) {
			return n, of
		}
	}
	return int64(math.Round(f * 1000)), 0
}

// rates are the prices of tokens whose names have an end, else of those without.
func (l listedPrice) rates(end string) (p Price) {
	named := map[string]bool{}
	for _, r := range rates {
		for _, key := range []string{r.listed, r.listed + end} {
			if r.listed != "" && l.has(key) {
				*r.at(&p) = microUSDOf(l.of(key) * microUSD * 1_000_000)
				named[r.key] = true
			}
		}
	}
	fillPrice(&p, func(key string) bool { return named[key] })
	return p
}

// microUSDOf rounds a price to the millionth of a dollar.
func microUSDOf(usd float64) int64 { return int64(math.Round(min(usd, maxPrice))) }

// of is a number of the list; what is none, or below 0, is 0.
func (l listedPrice) of(key string) float64 {
	n, _ := l[key].(float64)
	return max(0, n)
}

func (l listedPrice) has(key string) bool {
	n, ok := l[key].(float64)
	return ok && n >= 0
}

func (l listedPrice) object(key string) map[string]any {
	o, _ := l[key].(map[string]any)
	return o
}
