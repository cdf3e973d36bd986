package upstreams

import (
	"math"
	"testing"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/governor/terms"
	"github.com/llmgov/llmgov/internal/lab/mock"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/tenants"
)

// lowest is the lowest limit on tokens of any gateway's, which holds for all.
func (a *account) lowest() (lowest int64) {
	lowest = math.MaxInt64
	for _, s := range a.gateways {
		for _, p := range s.Governor.State().Pools {
			if tokens := p.Axes[escrow.Tokens]; tokens.On {
				lowest = min(lowest, tokens.Limit)
			}
		}
	}
	return lowest
}

// Limits that move, by what the provider refuses or declares: a minute after calls began (of three gateways half a minute later) the limit is within a twentieth of the
// provider's, of which hardly any is unused, and it refuses hardly a call.
func TestLimitsMove(t *testing.T) {
	for _, c := range []struct {
		name     string
		gateways int
		heed     string
		law      string
		off      float64
		refused  float64 // of 1,000 calls
	}{
		{"throttles", 1, tenants.HeedOff, tenants.AdaptiveThrottles, .05, 1},
		{"throttles, three gateways", 3, tenants.HeedOff, tenants.AdaptiveThrottles, .08, 4},
		{"declared, three gateways", 3, tenants.HeedFollow, "", .01, 0},
	}[:testkit.Rounds(1, 3)] {
		testkit.Virtual(t, c.name, func(t *testing.T) {
			a := newAccount(t, 300_000, c.gateways, mock.Rolling, c.heed, onePool, func(p *tenants.Pool) {
				p.TPM = 100_000
				p.Ranges[terms.Tokens] = tenants.Range{Max: 900_000, Adaptive: c.law}
			}, patient)
			began := time.Now()
			off := 0.0
			watched := make(chan struct{})
			go func() {
				defer close(watched)
				for time.Sleep(time.Minute + time.Duration(c.gateways-1)*15*time.Second); time.Since(began) < 8*time.Minute; time.Sleep(time.Second) {
					off = max(off, math.Abs(float64(a.lowest())/300_000-1))
				}
			}()
			r := a.run(t.Context(), 0)
			<-watched
			t.Logf("%s: limit off by %.1f %%, of 1,000 calls %.1f are refused, %.1f %% unused, shares are off by %.1f %%", c.name, 100*off, r.refused, 100*r.unused, 100*r.off)
			if off > c.off || r.refused > c.refused || r.unused > .06 || r.off > .05 {
				t.Errorf("%s: off by %.3f, %+v", c.name, off, r)
			}
		})
	}
}
