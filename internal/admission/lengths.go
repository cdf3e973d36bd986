package admission

import (
	"github.com/llmgov/llmgov/escrow/lengths"
	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/governor/tokens"
)

// price is the price of the call's tokens: as high as that of the dearest model that may answer it, at the dearest upstream of some.
func (s *scope) price(a *Ask, via uint64) governor.Price {
	dearest := s.Policy.Snapshot.DearestPrice(s.Pool.Pool, via, a.Model)
	for _, model := range a.Instead {
		price := s.Policy.Snapshot.DearestPrice(s.Pool.Pool, via, model)
		dearest.Input = max(dearest.Input, price.Input)
		dearest.CachedInput = max(dearest.CachedInput, price.CachedInput)
		dearest.Output = max(dearest.Output, price.Output)
	}
	return governor.Price(dearest)
}

// promptTokens is how many tokens the prompt has: by the estimates or, while
// these are uncertain, by counting, if that is possible at once.
func (s *scope) promptTokens(a *Ask, counter PromptCounter) int64 {
	p := &a.Prompt
	if p.Tokens > 0 {
		return p.Tokens
	}
	prompts := &s.Estimates.Prompts
	isText := p.Before == 0 && p.Size[tokens.Text] == p.Size.Weight()
	if counter != nil && p.Body != nil && isText && prompts.Uncertain(a.Model) {
		if n, ok := counter.Count(s.Policy.Snapshot.RealModel(a.Model), p.Body); ok {
			return max(1, n)
		}
	}
	return p.Before + prompts.Estimate(a.Model, p.Size)
}

// leastPrompt is how many tokens the prompt has at the least. It does not rely on the estimate: no
// call may be refused for ever because of a guess. Only prompts that may be too large for the pool
// are counted.
func (s *scope) leastPrompt(a *Ask, via uint64, counter PromptCounter) int64 {
	p := &a.Prompt
	if p.Tokens > 0 {
		return p.Tokens
	}
	least := p.Own.Least()
	most := s.Pool.mostInput(via)
	if counter == nil || p.Body == nil || most == 0 || least > most || p.Own[tokens.Text]/tokens.Scale <= most/2 {
		return least
	}
	return max(least, counter.AtLeast(s.Policy.Snapshot.RealModel(a.Model), p.Body))
}

// MostOutput is how many tokens an answer may have: by the call's own bound, else as calls of its kind
// have shown, and by the pool's default while nothing is known.
func (s *scope) MostOutput(model string, a *Answer) int64 {
	copies := max(1, a.Copies)
	switch {
	case a.Open:
		return copies * s.Policy.outputs.most(s.outputKind(model, a), s.Pool.DefaultMaxOutput)
	case a.None:
		return 0
	case a.Bound == 0:
		return copies * s.Pool.DefaultMaxOutput
	}
	return copies * a.Bound
}

// outputKind is the kind of an answer. One model may serve several routes.
func (s *scope) outputKind(model string, a *Answer) lengths.Kind {
	return lengths.Kind{Tenant: s.Tenant.Name, Tier: s.Tenant.Tier, Model: a.Route + " " + model}
}
