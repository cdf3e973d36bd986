package governor

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/budget"
	"github.com/llmgov/llmgov/escrow/limits"
)

func TestTokenWeights(t *testing.T) {
	w := TokenWeights{Input: 1000, CachedInput: 100, Output: 4000, Reasoning: 2000, Audio: 8000}
	for _, tt := range []struct {
		name       string
		u          Usage
		cost, fair int64
		in, out    int64 // of the tenant's own itpm and otpm
	}{
		{"nothing", Usage{}, 0, 0, 0, 0},
		{"input", Usage{Input: 1000}, 1000, 1000, 1000, 0},
		{"cached input", Usage{Input: 1000, CachedInput: 600}, 400 + 60, 400, 460, 0},
		{"all cached", Usage{Input: 1000, CachedInput: 1000}, 100, 0, 100, 0},
		{"output", Usage{Output: 100}, 400, 400, 0, 400},
		{"reasoning", Usage{Output: 100, Reasoning: 50}, 50*4 + 50*2, 300, 0, 300},
		{"sound in", Usage{Input: 1000, AudioInput: 30}, 970 + 30*8, 1210, 1210, 0},
		{"sound out", Usage{Output: 100, AudioOutput: 10}, 90*4 + 10*8, 440, 0, 440},
		{
			"all kinds",
			Usage{Input: 1000, CachedInput: 600, Output: 100, Reasoning: 50, AudioInput: 30, AudioOutput: 10},
			370 + 60 + 30*8 + 40*4 + 50*2 + 10*8, 370 + 30*8 + 40*4 + 50*2 + 10*8, 370 + 60 + 30*8, 40*4 + 50*2 + 10*8,
		},
		{"a token's tenth is a token", Usage{Input: 1, CachedInput: 1}, 1, 0, 1, 0},
		{"it is rounded once", Usage{Input: 15, CachedInput: 15}, 2, 0, 2, 0},
		{"parts over their whole", Usage{Input: 10, CachedInput: 90, AudioInput: 90, Output: 5, Reasoning: 90, AudioOutput: 90}, 1 + 10, 10, 1, 10},
	} {
		if got := w.cost(tt.u); got != tt.cost {
			t.Errorf("%s: cost %d, want %d", tt.name, got, tt.cost)
		}
		if got := w.fair(tt.u); got != tt.fair {
			t.Errorf("%s: %d count in the share, want %d", tt.name, got, tt.fair)
		}
		own := w.ownCost(tt.u, 1)
		if want := (limits.Cost{1, tt.cost, tt.in, tt.out}); own != want {
			t.Errorf("%s: own limits count %v, want %v", tt.name, own, want)
		}
	}
	if got := new(TokenWeights).cost(Usage{Input: 1000, CachedInput: 600, Output: 100, Reasoning: 50}); got != 1100 {
		t.Errorf("unweighted cost %d, want 1100", got)
	}
}

// Weights by which each token is one cost as much as none.
func TestWeights_Even(t *testing.T) {
	even := TokenWeights{1000, 1000, 1000, 1000, 1000}
	none := TokenWeights{}
	rapid.Check(t, func(t *rapid.T) {
		u := drawUsage(t)
		if even.cost(u) != none.cost(u) || even.fair(u) != none.fair(u) || even.most(u.Input, u.Output) != none.most(u.Input, u.Output) {
			t.Fatalf("%+v costs %d, in the share %d, at most %d; without weights %d, %d, %d", u,
				even.cost(u), even.fair(u), even.most(u.Input, u.Output), none.cost(u), none.fair(u), none.most(u.Input, u.Output))
		}
	})
}

// drawUsage draws small counts whose parts fit into their wholes.
func drawUsage(t *rapid.T) Usage {
	u := Usage{Input: rapid.Int64Range(0, 300).Draw(t, "input"), Output: rapid.Int64Range(0, 300).Draw(t, "output")}
	u.CachedInput = rapid.Int64Range(0, u.Input).Draw(t, "cached")
	u.AudioInput = rapid.Int64Range(0, u.Input-u.CachedInput).Draw(t, "audio in")
	u.Reasoning = rapid.Int64Range(0, u.Output).Draw(t, "reasoning")
	u.AudioOutput = rapid.Int64Range(0, u.Output-u.Reasoning).Draw(t, "audio out")
	return u
}

// The weights are those of an oracle that pays token by token; what counts in the
// share, and the most that is held, follow from it.
func TestWeightsAgainstTokenByToken(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weight := rapid.Int64Range(0, 20_000)
		w := TokenWeights{weight.Draw(t, "w in"), weight.Draw(t, "w cached"), weight.Draw(t, "w out"), weight.Draw(t, "w reasoning"), weight.Draw(t, "w audio")}
		if w == (TokenWeights{}) {
			t.Skip("that is no weights at all")
		}
		u := drawUsage(t)
		milli := int64(0)
		cached := int64(0)
		for i := range u.Input {
			switch {
			case i < u.CachedInput:
				milli += w.CachedInput
				cached += w.CachedInput
			case i < u.CachedInput+u.AudioInput:
				milli += w.Audio
			default:
				milli += w.Input
			}
		}
		for i := range u.Output {
			switch {
			case i < u.Reasoning:
				milli += w.Reasoning
			case i < u.Reasoning+u.AudioOutput:
				milli += w.Audio
			default:
				milli += w.Output
			}
		}
		cost := w.cost(u)
		if cost*1000 < milli || cost*1000-milli >= 1000 {
			t.Fatalf("cost %d of %d thousandths", cost, milli)
		}
		if fair := w.fair(u); fair*1000 < milli-cached || fair*1000-(milli-cached) >= 1000 {
			t.Fatalf("%d count in the share, of %d thousandths", fair, milli-cached)
		}
		if most := w.most(u.Input, u.Output); most < cost {
			t.Fatalf("the most that it can cost is %d, and it cost %d", most, cost)
		}
		if own := w.ownCost(u, 1); own[limits.Tokens] != cost || own[limits.Input]+own[limits.Output] < cost || own[limits.Input]+own[limits.Output] > cost+1 {
			t.Fatalf("own limits count %v of a cost of %d", own, cost)
		}
	})
}

// A budget in tokens counts what the pool's ledger does, one in money by the price of
// input, cached input and output, whatever the weights.
func TestBudgetsCountKinds(t *testing.T) {
	g := must(t, Config{
		Pools: []Pool{{Name: "p", TPM: 1e9, Weights: TokenWeights{Input: 1000, CachedInput: 0, Output: 2000, Reasoning: 3000, Audio: 5000}}},
		Tenants: []Tenant{{Name: "a", Weight: 1000, Budgets: []Budget{
			{Unit: UnitTokens, Limit: 1e9, Per: budget.Day}, {Unit: UnitMicroUSD, Limit: 1e9, Per: budget.Day},
		}}},
	})
	lease := admitted(t, g, Request{Tenant: "a", Pool: "p", Input: 1000, Output: 500, Price: Price{Input: 3e6, CachedInput: 1e6, Output: 15e6}})
	lease.Settle(Usage{Input: 1000, CachedInput: 900, Output: 200, Reasoning: 100, AudioOutput: 50})
	st, _ := g.TenantState("a")
	for i, want := range []int64{100 + 50*2 + 100*3 + 50*5, 100*3 + 900*1 + 200*15} {
		if b := st.Budgets[i]; b.Used != want {
			t.Errorf("%s: %d used, want %d", b.Budget.Name(), b.Used, want)
		}
	}
}

// What the provider does beside its limits counts in budgets, whatever is left of them,
// and nowhere else: not even as a turn.
func TestBudgetsOnly(t *testing.T) {
	perDay := []Budget{{Unit: UnitTokens, Limit: 1000, Per: budget.Day}}
	for _, accounting := range []escrow.Accounting{escrow.AdmitMax, escrow.Production, escrow.Settled} {
		g := must(t, Config{
			Pools:   []Pool{{Name: "p", TPM: 6000, RPM: 60, Concurrency: 4, MaxQueue: 10, Accounting: accounting, Budgets: perDay}},
			Tenants: []Tenant{{Name: "a", Weight: 1000, TPM: 500, ITPM: 500, OTPM: 500, RPM: 5, Budgets: perDay}, {Name: "b", Weight: 1000}},
		})
		u := Usage{Input: 100_000, CachedInput: 50_000, Output: 40_000}
		lease := admitted(t, g, Request{Tenant: "a", Pool: "p", Input: u.Input, Output: u.Output, Forced: true, BudgetsOnly: true})
		if !lease.Charge(u) || lease.Charge(u) {
			t.Error("it was not charged once")
		}
		st := g.State()
		for _, axis := range st.Pools[0].Axes {
			if axis.Used != 0 {
				t.Errorf("%v: the pool counts %d", accounting, axis.Used)
			}
		}
		a, _ := g.TenantState("a")
		for _, l := range a.Limits {
			if l.Used != 0 {
				t.Errorf("%v: its own limit of %s counts %d", accounting, l.Axis, l.Used)
			}
		}
		for _, b := range append(a.Budgets, st.Pools[0].Budgets...) {
			if b.Used != 140_000 {
				t.Errorf("%v: %s: %d used, want 140000", accounting, b.Budget.Name(), b.Used)
			}
		}
	}
}
