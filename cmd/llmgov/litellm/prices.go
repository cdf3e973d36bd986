package litellm

import (
	"math/big"
	"strings"

	"github.com/llmgov/llmgov/tenants"
)

// Prices are those of LiteLLM's price map, model_prices_and_context_window.json, by its names of models.
type Prices map[string]*tenants.Price

// ReadPrices reads LiteLLM's price map. Models that are not priced by the token are left out.
func ReadPrices(data []byte) (Prices, error) {
	list, err := tenants.ReadPriceList(data)
	prices := Prices{}
	for i := range list {
		prices[list[i].Model] = &list[i].Price
	}
	return prices, err
}

// of is the price of a deployment, which LiteLLM looks up by these names. It reports false if none is listed with a price.
func (p Prices) of(names ...string) (found price, ok bool) {
	for _, name := range names {
		of := p[name]
		if of == nil {
			continue
		}
		dollars := func(microUSD int64) string { return decimals(big.NewRat(microUSD, 1_000_000)) }
		found = price{input: dollars(of.Input), output: dollars(of.Output)}
		if of.CachedInput != of.Input {
			found.cached = dollars(of.CachedInput)
		}
		return found, true
	}
	return price{}, false
}

// perMillion makes a price a million tokens of one a token. It returns nil if that is no price.
func perMillion(perToken string) *big.Rat {
	r, ok := new(big.Rat).SetString(perToken)
	if !ok || r.Sign() < 0 {
		return nil
	}
	return r.Mul(r, big.NewRat(1_000_000, 1))
}

// decimals writes a price with as many decimals as it needs, and at most 6.
func decimals(r *big.Rat) string {
	return strings.TrimSuffix(strings.TrimRight(r.FloatString(6), "0"), ".")
}
