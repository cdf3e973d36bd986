package admission

import (
	"github.com/llmgov/llmgov/escrow/lengths"
	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/governor/tokens"
)

// price is the price of the call's tokens: as high as that of the dearest model that may answer it.
func (s *scope) price(a *Ask) governor.Price {
	dearest := s.dearer(governor.Price{}, a.Model)
	for _, model := range a.Instead {
		dearest = s.dearer(dearest, model)
	}
	return dearest
}

func (s *scope) dearer(than governor.Price, model string) governor.Price {
	if p, ok := s.Policy.Snapshot.Price(model); ok {
		than.Input = max(than.Input, p.Input)
		than.CachedInput = max(than.CachedInput, p.CachedInput)
		than.Output = max(than.Output, p.Output)
	}
	return than
}

// promptTokens is how many tokens the prompt has: by the estimates or, while
// these are uncertain, by counting, if that is possible at once.
func (s *scope) promptTokens(a *Ask, counter PromptCounter) int64 {
	p := &a.Prompt
	if p.Tokens > 0 {
		return p.Tokens
	}
	prompts := s.Estimates.Prompts
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
