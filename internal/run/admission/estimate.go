package admission

import (
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/governor/tokens"
	"github.com/llmgov/llmgov/internal/run/admission/ask"
	"github.com/llmgov/llmgov/tenants"
)

// Estimate turns Ask into the governor's request, by the lengths that earlier calls had. It refuses a prompt
// for which no minute of the pool, or of an upstream to which it may go, has room.
func (c *Call) Estimate() *ask.Refusal {
	a := &c.Ask
	req := &c.Request
	req.Tenant = c.Counted()
	req.Pool = c.Pool.Name
	req.ID = c.ID
	req.Stream = a.Stream
	below := c.Tenant.PriorityBy.Of(a.Header)
	req.Below = int(min(below, escrow.LowestBand))
	a.Background = a.Background || tenants.IsBackground(below)
	req.Background = a.Background
	req.Told = a.Told
	req.MaxWait = a.MaxWait
	if c.entry.waited > 0 {
		c.entry.left = max(0, c.MaxWait()-c.entry.waited)
		req.MaxWait = &c.entry.left
	}
	req.Claim = claimOf(req.Tenant, &a.Retry)
	req.Interrupt = c.Early
	req.Conversation = a.Conversation
	req.Via = a.Via
	if req.Via == 0 {
		req.Via = c.Pool.Reach(c.Tenant)
	}
	req.Listed = c.Pool.names
	req.Tier = a.Tier
	if a.Free {
		req.Price = c.price(req.Via)
		a.Prompt.Body = nil
		return nil
	}
	req.Model = a.Model
	if a.Told && c.Estimates.told != nil {
		c.Estimates = c.Estimates.told
	}
	assume(&a.Prompt, c.Pool.DefaultMaxOutput)
	req.Input = c.promptTokens(a, c.ctl.prompts)
	least := c.leastPrompt(a, req.Via, c.ctl.prompts)
	a.Prompt.Body = nil // a call lasts longer than its body is needed
	if f := c.Pool.TooLong(least, req.Via); f != nil {
		return f
	}
	if most := c.Tenant.MaxOutputTokens; most > 0 && (a.Answer.Bound == 0 || a.Answer.Bound > most) {
		a.Answer.Bound = most
	}
	req.Output = c.MostOutput(a.Model, &a.Answer)
	req.Price = c.price(req.Via)
	return nil
}

// PromptCounter counts the tokens of prompts: Count if it can do so at once, or after waiting as long as it may; AtLeast takes its
// time, and returns a lower bound; and Excerpt those of an excerpt, in the model's vocabulary or one like it. See package bpe.
type PromptCounter interface {
	Count(model string, body []byte, patience time.Duration) (tokens int64, ok bool)
	Excerpt(model string, x tokens.Excerpt) (tokens int64, ok bool)
	AtLeast(model string, body []byte) int64
}
