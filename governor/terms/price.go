package terms

import (
	"math/bits"
	"slices"
)

// Price is what a model costs, in micro-dollars: for a million tokens of each kind (2_500_000 is $2.50), for a call, and for what the provider runs for it: a web search, a search of files, a session of code. As it
// stands each of them counts: 0 is free. nil is no price. A Price that is in use must not be changed.
type Price struct {
	Input, CachedInput, Output                       int64
	CacheWrite, CacheWriteHour                       int64 `json:",omitempty"`
	AudioInput, AudioOutput, ImageInput, ImageOutput int64 `json:",omitempty"`
	Call, Tool, FileSearch, CodeSession              int64 `json:",omitempty"`
	// Above are the prices of calls with long prompts, from the shortest on. Their own Above and Tiers are nothing.
	Above []Above `json:",omitempty"`
	// Tiers are factors of the tokens' prices at service tiers; at others they are 1.
	Tiers []Tier `json:",omitempty"`
}

// Above is the price of the whole of a call, if its prompt is longer than Context tokens, cached or not.
type Above struct {
	Context int64
	Price
}

// Tier is a service tier, whose factor is Factor in Of parts, at most 1000; 0 is 1000.
type Tier struct {
	Name   string
	Factor int64
	Of     int64 `json:",omitempty"`
}

// whole is how many parts the standard tier has, of as many.
const whole = int64(1000)

// maxUSD bounds costs in micro-dollars, so that their sums do not overflow.
const maxUSD = int64(1e18)

// MicroUSD is what a usage costs, in micro-dollars: tokens at the price of their kind, for the length of the prompt, times the factor of the
// tier; the provider's tools; and the call itself, if it took anything. It is rounded up once, at the end. A batch is the usage of many calls, so that none is
// known to be long.
func (p *Price) MicroUSD(u Usage) int64 {
	if p == nil || !u.Took() {
		return 0
	}
	u = u.Bounded()
	of := p
	if u.Tier != TierBatch {
		of = p.at(u.Input)
	}
	in := u.Input
	out := u.Output
	t := p.tab(u.Tier)
	t.tokens(part(&in, u.CachedInput), of.CachedInput)
	t.tokens(part(&in, u.CacheWriteHour), of.CacheWriteHour)
	t.tokens(part(&in, u.CacheWrite), of.CacheWrite)
	t.tokens(part(&in, u.AudioInput), of.AudioInput)
	t.tokens(part(&in, u.ImageInput), of.ImageInput)
	t.tokens(in, of.Input)
	t.tokens(part(&out, u.AudioOutput), of.AudioOutput)
	t.tokens(part(&out, u.ImageOutput), of.ImageOutput)
	t.tokens(out, of.Output)
	t.each(u.Tools, of.Tool)
	t.each(u.FileSearches, of.FileSearch)
	t.each(u.CodeSessions, of.CodeSession)
	t.each(1, of.Call)
	return t.sum()
}

// Most is the most that a call of so many tokens can cost which asks for a tier, whatever kinds its tokens turn out to be. How often the provider will
// run tools for it nobody knows.
func (p *Price) Most(input, output int64, tier string) int64 {
	if p == nil {
		return 0
	}
	of := p.at(input)
	t := p.tab(tier)
	if tier == TierBatch {
		of = p
	} else {
		t.factor = max(t.of, t.factor)
	}
	t.tokens(Bounded(input), max(of.Input, of.CachedInput, of.CacheWrite, of.CacheWriteHour, of.AudioInput, of.ImageInput))
	t.tokens(Bounded(output), max(of.Output, of.AudioOutput, of.ImageOutput))
	t.each(1, of.Call)
	return t.sum()
}

// Dearer is the one of two prices at which such a call can cost more.
func (p *Price) Dearer(o *Price, input, output int64, tier string) *Price {
	if p == nil || o != nil && o.Most(input, output, tier) > p.Most(input, output, tier) {
		return o
	}
	return p
}

// Clone is a copy that shares nothing with the price.
func (p *Price) Clone() *Price {
	if p == nil {
		return nil
	}
	own := *p
	own.Above = slices.Clone(p.Above)
	own.Tiers = slices.Clone(p.Tiers)
	return &own
}

// at is the price of calls whose prompts have so many tokens.
func (p *Price) at(input int64) *Price {
	of := p
	for i := range p.Above {
		if input > p.Above[i].Context {
			of = &p.Above[i].Price
		}
	}
	return of
}

// tab begins a sum at a tier.
func (p *Price) tab(tier string) tab {
	for i := range p.Tiers {
		if t := &p.Tiers[i]; t.Name == tier {
			of := min(max(t.Of, 0), whole)
			if of == 0 {
				of = whole
			}
			return tab{factor: min(max(t.Factor, 0), 1_000_000), of: of}
		}
	}
	return tab{factor: whole, of: whole}
}

// part takes a part of what is left of a whole.
func part(left *int64, n int64) int64 {
	n = min(n, *left)
	*left -= n
	return n
}

// tab is a sum of money at a tier. Counts and rates are bounded by MaxTokens and factors by 10⁶, so that it cannot overflow.
type tab struct {
	factor, of int64
	hi, lo     uint64
}

// perMicroUSD is how many units of the sum a micro-dollar is: a rate is for a million tokens.
func (t *tab) perMicroUSD() uint64 { return 1_000_000 * uint64(t.of) }

func (t *tab) add(n, rate, factor int64) {
	hi, lo := bits.Mul64(uint64(n), uint64(Bounded(rate)))
	over, lo := bits.Mul64(lo, uint64(factor))
	var carry uint64
	t.lo, carry = bits.Add64(t.lo, lo, 0)
	t.hi += hi*uint64(factor) + over + carry
}

func (t *tab) tokens(n, rate int64) { t.add(n, rate, t.factor) }

// each adds things that have a price by the piece, at any tier.
func (t *tab) each(n, price int64) { t.add(n, price, int64(t.perMicroUSD())) }

func (t *tab) sum() int64 {
	per := t.perMicroUSD()
	lo, carry := bits.Add64(t.lo, per-1, 0)
	if t.hi+carry >= per {
		return maxUSD
	}
	usd, _ := bits.Div64(t.hi+carry, lo, per)
	return int64(min(usd, uint64(maxUSD)))
}
