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

// of is the price of a deployment, which LiteLLM looks up by these names.
func (p Prices) of(names ...string) (price, bool) {
	for _, name := range names {
		l, known := p[name]
		if !known {
			continue
		}
		var out price
		ok := true
		read := func(n json.Number) string {
			text, _, valid := perMillion(n.String())
			ok = ok && valid
			return text
		}
		out.input = read(l.Input)
		out.output = read(l.Output)
		if l.Cached != "" {
			out.cached = read(l.Cached)
		}
		if ok {
			return out, true
		}
	}
	return price{}, false
}

// perMillion makes a price a million tokens of one a token, with at most 6 decimals.
func perMillion(perToken string) (text string, exact, ok bool) {
	r, ok := new(big.Rat).SetString(perToken)
	if !ok || r.Sign() < 0 {
		return "", false, false
	}
	r.Mul(r, big.NewRat(1_000_000, 1))
	text = r.FloatString(6)
	rounded, _ := new(big.Rat).SetString(text)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), "."), rounded.Cmp(r) == 0, true
}
