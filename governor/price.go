package governor

import "math/bits"

// What a call takes of budgets: tokens, requests, and money by the price of its model.

// Price is what the tokens of a model cost, in micro-dollars a million tokens: 2_500_000 is $2.50.
type Price struct{ Input, CachedInput, Output int64 }

// MicroUSD is what a usage costs in micro-dollars, rounded up.
func (p Price) MicroUSD(u Usage) int64 {
	cached := min(u.CachedInput, u.Input)
	var hi, lo, carry uint64
	for _, part := range [...][2]int64{{u.Input - cached, p.Input}, {cached, p.CachedInput}, {u.Output, p.Output}} {
		// Both are bounded by maxTokens, so that the sum is below 10²⁵.
		h, l := bits.Mul64(uint64(part[0]), uint64(part[1]))
		lo, carry = bits.Add64(lo, l, 0)
		hi += h + carry
	}
	lo, carry = bits.Add64(lo, 999_999, 0)
	usd, _ := bits.Div64(hi+carry, lo, 1_000_000)
	return int64(usd)
}

func (p Price) bounded() Price {
	return Price{bounded(p.Input), bounded(p.CachedInput), bounded(p.Output)}
}

// Spend is what a call takes of budgets, indexed by Unit.
type Spend [units]int64

// spend is what a call takes of budgets for a usage.
func (p *pool) spend(u Usage, requests int64, price Price) Spend {
	return Spend{p.rules.Weights.cost(u), requests, price.MicroUSD(u)}
}

// expected is what a call will probably take of budgets. looks says that nothing comes of the
// question, so that nothing may be learned from it. It takes the pool's lock.
func (p *pool) expected(v *tenantView, req *Request, looks bool) Spend {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lookLocked(looks)
	defer p.lookLocked(false)
	output := p.outputs.ExpectOf(kindOf(v, req), req.Output)
	s := p.spend(Usage{Input: req.Input, Output: output}, 1, req.Price)
	s[UnitTokens] = max(1, s[UnitTokens]) // a spent budget also bars calls that declare no tokens
	return s
}
