package federation

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/internal/testkit"
)

// TestClockAhead: where the store's clock jumps ahead, by milliseconds or hours, and all who
// used something are there to tell of it, no rolling minute uses more than the limit; and
// most of it is used.
func TestClockAhead(t *testing.T) {
	for name, accounting := range map[string]escrow.Accounting{"admit-max": escrow.AdmitMax, "production": escrow.Production, "settled": escrow.Settled} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(testkit.Rounds(1, *seeds)) {
				c := newChaos(seed+1, accounting)
				c.calm = true
				c.over = -1
				jump := time.Minute + 30*time.Second
				low := 1.0
				for c.now < time.Duration(testkit.Rounds(3, 4))*time.Minute {
					if c.now > jump {
						by := time.Duration(math.Exp(c.rng.Float64()*16) * float64(time.Millisecond)) // to two hours
						c.slow -= by
						c.note("the store's clock jumps ahead by %v", by)
						jump += time.Duration(5+c.rng.Int64N(40)) * time.Second
					}
					if c.step(); c.rolling > c.limit {
						t.Fatalf("seed %d: at %v a rolling minute used %d, of %d\n%s", c.seed, c.now, c.rolling, c.limit, strings.Join(c.events, "\n"))
					}
					if c.now > time.Minute+10*time.Second {
						low = min(low, float64(c.rolling)/float64(c.limit))
					}
				}
				t.Logf("seed %d: %.3f to %.3f of the limit in rolling minutes", c.seed, low, c.peak)
				if accounting != escrow.Settled && low < 0.9 { // there it depends on how long calls are
					t.Errorf("seed %d: in some minute only %.3f of the limit was used", c.seed, low)
				}
			}
		})
	}
}

// TestClockBack: where the store's clock is put back, no rolling minute uses more than the
// limit, and what was lost is a minute at most.
func TestClockBack(t *testing.T) {
	for _, by := range []time.Duration{40 * time.Second, time.Hour} {
		c := newChaos(1, escrow.AdmitMax)
		c.calm = true
		c.over = -1
		const jump = 90 * time.Second
		for c.now < 3*time.Minute+50*time.Second {
			before := c.now
			if c.step(); before < jump && c.now >= jump {
				c.slow = by
			}
			if c.rolling > c.limit {
				t.Fatalf("back by %v: at %v a rolling minute used %d, of %d", by, c.now, c.rolling, c.limit)
			}
		}
		t.Logf("back by %v: %.3f of the limit in the last of the minutes after it", by, float64(c.rolling)/float64(c.limit))
		if c.rolling < c.limit*9/10 {
			t.Errorf("back by %v: in the last of the minutes after it only %d of %d were used", by, c.rolling, c.limit)
		}
	}
}
