package terms

import (
	"math/big"
	"math/rand/v2"
	"testing"
)

// A price is exact whatever the figures: as the sum of fractions says, rounded up once.
func TestPrice_IsExact(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	n := func(most int64) int64 { return rng.Int64N(most>>rng.IntN(30) + 1) }
	price := func() Price {
		return Price{
			Input: n(1e10), CachedInput: n(1e10), CacheWrite: n(1e10), CacheWriteHour: n(1e10), Output: n(1e10), AudioInput: n(1e10),
			AudioOutput: n(1e10), ImageInput: n(1e10), ImageOutput: n(1e10), Call: n(1e10), Tool: n(1e10), FileSearch: n(1e10), CodeSession: n(1e10),
		}
	}
	for range 10_000 {
		p := price()
		p.Above = []Above{{n(1e12), price()}}
		p.Tiers = []Tier{{Name: "flex", Factor: n(1000)}, {Name: "priority", Factor: n(1e5)}, {Name: "batch", Factor: n(1e5), Of: 1 + n(998)}}
		u := Usage{
			CachedInput: n(1e11), CacheWrite: n(1e11), CacheWriteHour: n(1e11), AudioInput: n(1e11), ImageInput: n(1e11), Reasoning: n(1e11),
			AudioOutput: n(1e11), ImageOutput: n(1e11), Tools: n(1000), FileSearches: n(1000), CodeSessions: n(1000), Tier: []string{"", "flex", "priority", "other", TierBatch}[rng.IntN(5)],
		}
		text, words := n(1e11), n(1e11)
		u.Input = text + u.CachedInput + u.CacheWrite + u.CacheWriteHour + u.AudioInput + u.ImageInput
		u.Output = words + u.AudioOutput + u.ImageOutput
		of := p
		if u.Input > p.Above[0].Context && u.Tier != TierBatch {
			of = p.Above[0].Price
		}
		factor := map[string]int64{"": 1000, "other": 1000, "flex": p.Tiers[0].Factor, "priority": p.Tiers[1].Factor, TierBatch: p.Tiers[2].Factor}[u.Tier]
		parts := int64(1000)
		if u.Tier == TierBatch {
			parts = p.Tiers[2].Of
		}
		sum := new(big.Rat)
		add := func(n, rate, factor, of int64) {
			sum.Add(sum, new(big.Rat).SetFrac(new(big.Int).Mul(big.NewInt(n), new(big.Int).Mul(big.NewInt(rate), big.NewInt(factor))), big.NewInt(of)))
		}
		for _, part := range [][2]int64{
			{text, of.Input},
			{u.CachedInput, of.CachedInput},
			{u.CacheWrite, of.CacheWrite},
			{u.CacheWriteHour, of.CacheWriteHour},
			{u.AudioInput, of.AudioInput},
			{u.ImageInput, of.ImageInput},
			{words, of.Output},
			{u.AudioOutput, of.AudioOutput},
			{u.ImageOutput, of.ImageOutput},
		} {
			add(part[0], part[1], factor, 1e6*parts)
		}
		if u.Took() {
			add(u.Tools, of.Tool, 1, 1)
			add(u.FileSearches, of.FileSearch, 1, 1)
			add(u.CodeSessions, of.CodeSession, 1, 1)
			add(1, of.Call, 1, 1)
		}
		want := new(big.Int).Sub(new(big.Int).Add(sum.Num(), sum.Denom()), big.NewInt(1))
		want.Div(want, sum.Denom())
		if bound := big.NewInt(maxUSD); want.Cmp(bound) > 0 {
			want = bound
		}
		if got := p.MicroUSD(u); big.NewInt(got).Cmp(want) != 0 {
			t.Fatalf("%+v at %+v costs %d, want %v", u, p, got, want)
		}
		if most := p.Most(u.Input, u.Output, u.Tier); most < p.MicroUSD(Usage{Input: u.Input, Output: u.Output, AudioOutput: u.AudioOutput, CacheWrite: u.CacheWrite, Tier: u.Tier}) {
			t.Fatalf("%+v at %+v costs more than %d, the most", u, p, most)
		}
	}
}

// Prices that no file has, and counts that no provider tells, cost no more than there is.
func TestPrice_Bounds(t *testing.T) {
	const most = 1 << 62
	huge := &Price{Input: most, Output: most, Call: most, Tool: most, Tiers: []Tier{{Name: "x", Factor: most, Of: most}, {Name: "y", Factor: most, Of: 1}}}
	for _, u := range []Usage{{Input: most, Output: most, Tools: most, Tier: "x"}, {Input: most, Output: most, Tools: most, Tier: "y"}, {Input: most, CachedInput: most, AudioInput: most}} {
		if got := huge.MicroUSD(u); got < 0 || got > maxUSD {
			t.Errorf("%+v costs %d", u, got)
		}
	}
	for name, tt := range map[string]struct {
		p    *Price
		u    Usage
		want int64
	}{
		"no price":               {nil, Usage{Input: 1}, 0},
		"nothing":                {&Price{Call: 5}, Usage{Tier: "flex"}, 0},
		"a call":                 {&Price{Call: 5}, Usage{Input: 1}, 5},
		"below nothing":          {&Price{Input: 1e6, Output: 1e6}, Usage{Input: -5, CachedInput: -5, Output: 3}, 3},
		"parts beyond the whole": {&Price{Input: 1e6, CachedInput: 2e6, AudioInput: 8e6}, Usage{Input: 10, CachedInput: 9, AudioInput: 9}, 9*2 + 1*8},
		"a factor below nothing": {&Price{Input: 1e6, Tiers: []Tier{{Name: "x", Factor: -1}}}, Usage{Input: 10, Tier: "x"}, 0},
		"a batch is not long":    {&Price{Input: 1e6, Above: []Above{{10, Price{Input: 2e6}}}}, Usage{Input: 20, Tier: TierBatch}, 20},
		"a long prompt":          {&Price{Input: 1e6, Above: []Above{{10, Price{Input: 2e6}}}}, Usage{Input: 11}, 22},
		"a prompt at the bound":  {&Price{Input: 1e6, Above: []Above{{10, Price{Input: 2e6}}}}, Usage{Input: 10}, 10},
	} {
		if got := tt.p.MicroUSD(tt.u); got != tt.want {
			t.Errorf("%s: costs %d, want %d", name, got, tt.want)
		}
	}
}
