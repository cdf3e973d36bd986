package admission

import (
	"time"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/governor/tokens"
	"github.com/llmgov/llmgov/internal/run/admission/ask"
)

// price is the price of the call: that of the dearest model that may answer it, at the dearest upstream of some.
func (c *Call) price(via uint64) *governor.Price {
	snap := c.Policy.Snapshot
	req := &c.Request
	dearest := snap.DearestPrice(c.Pool.Pool, via, c.Ask.Model, req.Input, req.Output, req.Tier)
	for _, model := range c.Ask.Instead {
		dearest = dearest.Dearer(snap.DearestPrice(c.Pool.Pool, via, model, req.Input, req.Output, req.Tier), req.Input, req.Output, req.Tier)
	}
	return dearest
}

// assume gives a prompt of which nothing is known the size of a thing of unknown size in a prompt. What such prompts take is
// learned as for these.
func assume(p *ask.Prompt, unknown int64) {
	if p.Tokens == 0 && p.Before == 0 && p.Size == (tokens.Size{}) {
		p.Size[tokens.Elsewhere] = unknown * tokens.Scale
	}
}

// promptTokens is how many tokens the prompt has: by the estimates or, while
// these are uncertain and where an error would count most, by counting, if that is possible at once.
func (s *scope) promptTokens(a *ask.Ask, counter PromptCounter) int64 {
	p := &a.Prompt
	if p.Tokens > 0 {
		return p.Tokens
	}
	prompts := &s.Estimates.Prompts
	guess := p.Before + prompts.Estimate(a.Model, p.Size)
	isText := p.Before == 0 && p.Size.IsText() && len(p.Apart) == 0
	patience := time.Duration(0)
	if s.isLarge(guess) {
		patience = countingWait
	}
	if counter != nil && p.Body != nil && isText && (patience > 0 || prompts.Uncertain(a.Model)) {
		if n, ok := counter.Count(s.Policy.Snapshot.RealModel(a.Model), p.Body, patience); ok {
			p.Counted = true
			return max(1, n)
		}
	}
	if counter != nil && p.Body != nil {
		p.Excerpt = tokens.ExcerptOf(p.Body, p.Apart)
	}
	return guess
}

// countingWait is how long a large prompt waits for others that are counted, at 3 ms each: long enough for a burst, and too short for a
// tenant to keep another's waiting.
const countingWait = 100 * time.Millisecond

// largePart is the part of a minute from which a prompt is large.
const largePart = 16

// isLarge reports whether a prompt of so many tokens is a large part of a minute of its tenant, or of the pool.
func (s *scope) isLarge(n int64) bool {
	for _, most := range [...]int64{s.Tenant.TPM, s.Tenant.ITPM, s.Pool.TPM, s.Pool.ITPM} {
		if most > 0 && n >= most/largePart {
			return true
		}
	}
	return false
}

// leastPrompt is how many tokens the prompt has at the least. It does not rely on the estimate: no
// call may be refused for ever because of a guess. Only prompts that may be too large for the pool
// are counted.
func (s *scope) leastPrompt(a *ask.Ask, via uint64, counter PromptCounter) int64 {
	p := &a.Prompt
	if p.Tokens > 0 {
		return p.Tokens
	}
	least := p.Least()
	most := s.Pool.mostInput(via)
	if counter == nil || p.Body == nil || len(p.Apart) > 0 || most == 0 || least > most || p.Own.Text()/tokens.Scale <= most/2 {
		return least
	}
	return max(least, counter.AtLeast(s.Policy.Snapshot.RealModel(a.Model), p.Body))
}

// MostOutput is how many tokens an answer may have: by the call's own bound, else as much as nearly all of the tenant's calls of its kind
// have taken of late, and the pool's default while nothing is known.
func (s *scope) MostOutput(model string, a *ask.Answer) int64 {
	switch {
	case a.None:
		return 0
	case !a.Unbounded():
		return a.Times() * a.Bound
	}
	return s.Estimates.Answers.Estimate(a.Kind(model), s.sizeOf(a))
}

// sizeOf is the size of an answer that nothing bounds, before anything was learned of such.
func (s *scope) sizeOf(a *ask.Answer) tokens.Size {
	return tokens.Size{tokens.Elsewhere: a.Times() * s.Pool.DefaultMaxOutput * tokens.Scale}
}
