package governor

import (
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/limits"
	"github.com/llmgov/llmgov/governor/terms"
)

// Request asks for one call.
type Request struct {
	Tenant, Pool string
	// Model is the requested model. Lengths are learned by tenant and model.
	Model string
	// ID names the call in lists of leases.
	ID string
	// Input and Output are how many tokens the call may take: the estimated prompt, and the most
	// that may be produced.
	Input, Output int64
	// Price is the price of the model, for budgets in money: the highest, if that is known only at the end (Lease.Costing). nil is none.
	Price *Price
	// Tier is the service tier that the call asks for; "" is the standard one.
	Tier string
	// MaxWait, if set, shortens the tenant's MaxWait, and the pool's TicketWait; it lengthens neither. 0 does not wait.
	MaxWait *time.Duration
	// Pause is for how long the call can go nowhere yet. Until then it holds nothing. It counts in the length of the pool's queue, but is not in it: a
	// reload that takes its tenant away refuses it.
	Pause time.Duration
	// Via is the set of the pool's upstreams to which the call may go, by their index in Listed: bit 0 is the first. 0 is all. It is
	// for pools that have Upstreams.
	Via uint64
	// Listed are the names of the pool's upstreams in the caller's order, because another configuration may come into force meanwhile.
	// nil is the order of Pool.Upstreams when the call asks.
	Listed []string
	// Conversation identifies calls that would rather go to the same of these upstreams; 0 is none.
	Conversation uint64
	// Stream marks the lease of a stream.
	Stream bool
	// Background lets interactive calls go first.
	Background bool
	// Below is how far its priority is below the highest, if that is further than its tenant's (Tenant.Below): of a tenant's calls that
	// wait, those go first that are less far.
	Below int
	// Claim says whether the call was refused before, and how to find the place kept for it.
	Claim escrow.Claim
	// Forced books work that has been done already, whatever the limits say. It counts in the tenant's
	// share, and nothing is learned from it. See Lease.Charge.
	Forced bool
	// BudgetsOnly counts the tokens in budgets alone, and in no rolling limit and no share: for
	// work that the provider does outside of those, such as batches. Budgets hold the most that it may
	// take until the lease ends, which may be days later. Such a lease takes no slot and does not wait.
	BudgetsOnly bool
	// Booked is what rolling limits have booked of it already, when the lease was postponed under
	// which it was begun: the Input and Output of that one's Request. Only what it takes beyond that
	// counts there, and in shares. It is for a Forced request.
	Booked Booked
	// Told says that nobody knows more of how the call ends than the tenant's own program tells. What it tells counts in full in the tenant's
	// limits and budgets alone, and in those that others share as far as the tenant could have taken it; see belief.
	Told bool
	// Interrupt, if set, ends the call early: see Governor.Interrupt.
	Interrupt Interrupter
}

// waitUntil shortens the wait to a time of the machine's clock.
func (r *Request) waitUntil(t time.Time) {
	left := max(0, time.Until(t))
	if r.MaxWait == nil || left < *r.MaxWait {
		r.MaxWait = &left
	}
}

// Booked are tokens that rolling limits have booked already.
type Booked struct{ Input, Output int64 }

// tokenWeights are TokenWeights in thousandths.
type tokenWeights struct{ Input, CachedInput, Output, Reasoning, Audio, HeldOutput int64 }

// countsOf are weights as they count: none where they are even.
func countsOf(w *TokenWeights) tokenWeights {
	if *w == (TokenWeights{Input: 1, CachedInput: 1, Output: 1, Reasoning: 1, Audio: 1}) {
		return tokenWeights{}
	}
	of := func(w float64) int64 { return escrow.Weight(w).Thousandths() }
	return tokenWeights{of(w.Input), of(w.CachedInput), of(w.Output), of(w.Reasoning), of(w.Audio), of(w.HeldOutput)}
}

// cost weighs a usage, each token by the weight of its kind. It rounds up once, at the end, against
// the requester. Parts that exceed their whole are cut.
func (w *tokenWeights) cost(u Usage) int64 {
	if w.none() {
		return u.Input + u.Output
	}
	return w.weigh(&u)
}

// none reports whether there are no weights, so that each token counts as one.
func (w *tokenWeights) none() bool {
	return w.Input|w.CachedInput|w.Output|w.Reasoning|w.Audio == 0
}

func (w *tokenWeights) weigh(u *Usage) int64 {
	cached := min(u.CachedInput, u.Input)
	reasoning := min(u.Reasoning, u.Output)
	audioIn := min(u.AudioInput, u.Input-cached)
	audioOut := min(u.AudioOutput, u.Output-reasoning)
	milli := (u.Input-cached-audioIn)*w.Input + cached*w.CachedInput +
		(u.Output-reasoning-audioOut)*w.Output + reasoning*w.Reasoning + (audioIn+audioOut)*w.Audio
	return (milli + 999) / 1000
}

// fair is the part of a usage's cost that counts in the tenant's share: all but cached input, which took
// nothing from anybody, whatever the provider counts it as. So tenants gain from keeping their
// prompts alike.
func (w *tokenWeights) fair(u Usage) int64 {
	u.Input -= min(u.CachedInput, u.Input)
	u.CachedInput = 0
	return w.cost(u)
}

// most is the most that a call of so many tokens can cost, whatever kinds they turn out to be.
func (w *tokenWeights) most(input, output int64) int64 {
	if w.none() {
		return input + output
	}
	in := max(w.Input, w.CachedInput, w.Audio)
	out := max(w.Output, w.Reasoning, w.Audio)
	return (input*in + output*out + 999) / 1000
}

// held is what a call of at most so many tokens counts for before it has produced any.
func (w *tokenWeights) held(input, output int64) int64 {
	if w.HeldOutput == 0 {
		return w.most(input, output)
	}
	return w.most(input, 0) + (output*w.HeldOutput+999)/1000
}

// holdCost is the most that a request may take of limits.
func (w *tokenWeights) holdCost(req *Request) limits.Cost {
	return limits.Cost{
		limits.Requests: 1,
		limits.Tokens:   w.held(req.Input, req.Output),
		limits.Input:    w.held(req.Input, 0),
		limits.Output:   w.held(0, req.Output),
	}
}

// ownCost is the cost of a usage on limits, those of pools (placement.PoolCost) and tenants alike.
func (w *tokenWeights) ownCost(u Usage, requests int64) limits.Cost {
	return limits.Cost{
		limits.Requests: requests,
		limits.Tokens:   w.cost(u),
		limits.Input:    w.cost(Usage{Input: u.Input, CachedInput: u.CachedInput, AudioInput: u.AudioInput}),
		limits.Output:   w.cost(Usage{Output: u.Output, Reasoning: u.Reasoning, AudioOutput: u.AudioOutput}),
	}
}

func bounded(n int64) int64 { return terms.Bounded(n) }

// spend is the cost of a usage in budgets.
func (p *pool) spend(u Usage, requests int64, price *Price) terms.Spend {
	return terms.Spend{p.weights.cost(u), requests, price.MicroUSD(u)}
}

// expected is the expected cost of a call in budgets, and in money the most that it can cost. looks says that nothing comes of the
// question, so that nothing may be learned from it.
func (p *pool) expected(v *tenantView, req *Request, looks bool) terms.Spend {
	p.look(looks)
	defer p.look(false)
	output := p.outputs.ExpectOf(kindOf(v, req), req.Output)
	tokens := p.weights.cost(Usage{Input: req.Input, Output: output})
	return terms.Spend{max(1, tokens), 1, req.mostUSD()} // a spent budget also bars calls that declare no tokens
}

// mostUSD is the most that the call can cost in money, in micro-dollars.
func (r *Request) mostUSD() int64 { return r.Price.Most(r.Input, r.Output, r.Tier) }

// Record is the request for those who keep it longer than the call lasts: nothing in it leads to the caller's memory.
func (r *Request) Record() Request {
	out := *r
	out.Interrupt = nil
	if r.MaxWait != nil {
		wait := *r.MaxWait
		out.MaxWait = &wait
	}
	return out
}
