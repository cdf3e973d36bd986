package admission

import (
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/governor/tokens"
)

// Ask is what a caller asks for.
type Ask struct {
	Model string
	// Instead are models that may answer in its place. The call is held at the price of the dearest.
	Instead []string
	Prompt  Prompt
	Answer  Answer
	// Free calls take no tokens. They count as a request.
	Free       bool
	Stream     bool
	Background bool           // interactive calls go first
	MaxWait    *time.Duration // shortens the tenant's; nil does not
	Retry      Retry
}

// Prompt is how long the input of a call is.
type Prompt struct {
	// Tokens is their number, if the caller knows it. It is estimated if 0.
	Tokens int64
	// Size is the size of everything except what Before has counted, and Own that of the body alone.
	Size, Own tokens.Size
	// Before is how many tokens the call brings along from earlier ones, as the upstream counted them.
	Before int64
	// Body is the body, if it is JSON, in which a PromptCounter can count. Estimate drops it.
	Body []byte
}

// Answer is how long the answer to a call may become.
type Answer struct {
	Bound  int64  // tokens of each copy, as the call bounds them; 0 is unbounded
	Copies int64  // 0 is 1
	None   bool   // it has no output tokens
	Open   bool   // it has some, and nothing in a call can bound them
	Route  string // decides about the length of Open answers, together with the model
}

// Retry is how a call is recognized that was made before.
type Retry struct {
	Key     string       // the caller's name for the call and its retries; "" is none
	Attempt escrow.Retry // as the caller counts
	// Once lets no other call with the same Key in until this one has ended. Digest tells calls with
	// one Key apart that ask for different things.
	Once   bool
	Digest uint64
}

// PromptCounter counts the tokens of prompts: Count if it can do so at once; AtLeast takes its
// time, and returns a lower bound. See package bpe.
type PromptCounter interface {
	Count(model string, body []byte) (tokens int64, ok bool)
	AtLeast(model string, body []byte) int64
}

// Estimate makes the governor's request of what is asked for, by what calls have taught. It refuses a
// prompt that no minute of the pool has room for.
func (c *Call) Estimate() *Refusal {
	a := &c.Ask
	req := &c.Request
	req.Tenant = c.Tenant.Name
	req.Pool = c.Pool.Name
	req.ID = c.ID
	req.Stream = a.Stream
	req.Background = a.Background
	req.MaxWait = a.MaxWait
	if c.entry.waited > 0 {
		c.entry.left = max(0, c.MaxWait()-c.entry.waited)
		req.MaxWait = &c.entry.left
	}
	req.Claim = claimOf(c.Tenant.Name, &a.Retry)
	req.Interrupt = c.Interrupt
	req.Price = c.price()
	if a.Free {
		a.Prompt.Body = nil
		return nil
	}
	req.Model = a.Model
	req.Input = c.promptTokens()
	least := c.leastPrompt()
	a.Prompt.Body = nil // a call lasts longer than its body is needed
	if f := c.Pool.TooLong(least); f != nil {
		return f
	}
	if most := c.Tenant.MaxOutputTokens; most > 0 && (a.Answer.Bound == 0 || a.Answer.Bound > most) {
		a.Answer.Bound = most
	}
	req.Output = c.MostOutput(a.Model, &a.Answer)
	return nil
}

// MaxWait is how long the call may wait in all.
func (c *Call) MaxWait() time.Duration {
	if c.Ask.MaxWait != nil {
		return min(c.Tenant.MaxWait, *c.Ask.MaxWait)
	}
	return c.Tenant.MaxWait
}

// price is the price of the call's tokens: as high as that of the dearest model that may answer it.
func (c *Call) price() governor.Price {
	dearest := c.dearer(governor.Price{}, c.Ask.Model)
	for _, model := range c.Ask.Instead {
		dearest = c.dearer(dearest, model)
	}
	return dearest
}

func (c *Call) dearer(than governor.Price, model string) governor.Price {
	if p, ok := c.Policy.Snapshot.Price(model); ok {
		than.Input = max(than.Input, p.Input)
		than.CachedInput = max(than.CachedInput, p.CachedInput)
		than.Output = max(than.Output, p.Output)
	}
	return than
}

// promptTokens is how many tokens the prompt has: by what was learned or, while little is, by
// counting, if that is possible at once.
func (c *Call) promptTokens() int64 {
	p := &c.Ask.Prompt
	if p.Tokens > 0 {
		return p.Tokens
	}
	prompts := c.Estimates.Prompts
	isText := p.Before == 0 && p.Size[tokens.Text] == p.Size.Weight()
	if c.ctl.prompts != nil && p.Body != nil && isText && prompts.Uncertain(c.Ask.Model) {
		if n, ok := c.ctl.prompts.Count(c.Policy.Snapshot.RealModel(c.Ask.Model), p.Body); ok {
			return max(1, n)
		}
	}
	return p.Before + prompts.Estimate(c.Ask.Model, p.Size)
}

// leastPrompt is how many tokens the prompt has at the least. It does not rely on the estimate: no
// call may be refused for ever because of a guess. Only prompts that may be too large for the pool
// are counted.
func (c *Call) leastPrompt() int64 {
	p := &c.Ask.Prompt
	if p.Tokens > 0 {
		return p.Tokens
	}
	least := p.Own.Least()
	most := c.Pool.inputMax
	if c.ctl.prompts == nil || p.Body == nil || most == 0 || least > most || p.Own[tokens.Text]/tokens.Scale <= most/2 {
		return least
	}
	return max(least, c.ctl.prompts.AtLeast(c.Policy.Snapshot.RealModel(c.Ask.Model), p.Body))
}
