package litellm

import (
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
)

// Prices are those of LiteLLM's price map, model_prices_and_context_window.json, by its names of models.
type Prices map[string]listed

// listed is a model in the price map: US dollars a token.
type listed struct {
	Input  json.Number `json:"input_cost_per_token"`
	Cached json.Number `json:"cache_read_input_token_cost"`
	Output json.Number `json:"output_cost_per_token"`
}

// ReadPrices reads LiteLLM's price map. Models that are not priced by the token are left out.
func ReadPrices(data []byte) (Prices, error) {
	var entries map[string]json.RawMessage
	if err := json.Unmarshal(data, &entries); err != nil {
		return nil, fmt.Errorf("is not a price map of LiteLLM: %w", err)
	}
	prices := Prices{}
	for name, entry := range entries {
		var l listed
		if json.Unmarshal(entry, &l) == nil && l.Input != "" && l.Output != "" {
			prices[name] = l
		}
	}
	if len(prices) == 0 {
		return nil, fmt.Errorf("is not a price map of LiteLLM: no model in it has input_cost_per_token and output_cost_per_token")
	}
	return prices, nil
}

// of is the price of a deployment, which LiteLLM looks up by these names. It reports false if none is listed with a price.
func (p Prices) of(names ...string) (price, bool) {
	for _, name := range names {
		if found, ok := p[name].price(); ok {
			return found, true
		}
	}
	return price{}, false
}

// price converts the listed prices of a model. It reports false if one of them cannot be read.
func (l listed) price() (price, bool) {
	input := perMillion(l.Input.String())
	output := perMillion(l.Output.String())
	if input == nil || output == nil {
		return price{}, false
	}
	found := price{input: decimals(input), output: decimals(output)}
	if l.Cached == "" {
		return found, true
	}
	cached := perMillion(l.Cached.String())
	if cached == nil {
		return price{}, false
	}
	found.cached = decimals(cached)
	return found, true
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
