package escrow

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Of two pools that are told the same, one is looked at in between, again and again: its
// books, and what a call would meet. They decide the same. Seen to fail with a mean that
// Foretell keeps, and with a pace that is refreshed when it is first looked at after two
// minutes.
func TestToLookChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{
			TPM: 60_000, Slots: rapid.Int64Range(0, 4).Draw(t, "slots"), MaxQueue: 20, TicketWait: 5 * time.Second,
			Burst: 10 * time.Second, Accounting: Accounting(rapid.IntRange(0, 2).Draw(t, "accounting")),
		}
		now := time.Unix(1_000_000, 0)
		quiet := New(now, cfg)
		seen := New(now, cfg)
		var leaves []NodeID
		for range 6 {
			n := Node{Weight: WeightOne * Weight(rapid.IntRange(1, 4).Draw(t, "weight"))}
			leaves = append(leaves, quiet.Add(Root, n))
			seen.Add(Root, n)
		}
		call := func() Call {
			n := rapid.Int64Range(1, 4000).Draw(t, "tokens")
			return Call{
				Leaf: rapid.SampledFrom(leaves).Draw(t, "leaf"), Background: rapid.Bool().Draw(t, "background"), Most: Cost{n, 1}, Expect: n/2 + 1, Fair: n/2 + 1, Speed: 50,
				MaxWait: time.Duration(rapid.SampledFrom([]int{0, 0, 0, 0, 5}).Draw(t, "wait")) * time.Second,
				Claim:   Claim{Key: rapid.Uint64Range(0, 3).Draw(t, "key")},
			}
		}
		var running []Handle
		for range rapid.IntRange(200, 600).Draw(t, "steps") {
			pause := rapid.SampledFrom([]time.Duration{
				0, 0, 0, 7 * time.Millisecond, 7 * time.Millisecond, 20 * time.Millisecond, 40 * time.Millisecond, 90 * time.Millisecond, 1300*time.Millisecond + 11, 20 * time.Second, 3 * time.Minute,
			}).Draw(t, "pause")
			for range rapid.IntRange(0, 2).Draw(t, "looks") {
				seen.State(now.Add(pause * time.Duration(rapid.IntRange(0, 10).Draw(t, "when")) / 10))
				seen.Foretell(now, call())
			}
			now = now.Add(pause)
			if len(running) > 0 && rapid.Bool().Draw(t, "end") {
				h := running[0]
				running = running[1:]
				took := rapid.Int64Range(0, 4000).Draw(t, "took")
				quiet.Settle(now, h, Cost{took, 1})
				seen.Settle(now, h, Cost{took, 1})
			} else {
				c := call()
				h, ans := quiet.Offer(now, c)
				g, also := seen.Offer(now, c)
				if h != g || ans != also {
					t.Fatalf("a call is answered %+v, and %+v where somebody has looked", ans, also)
				}
				if ans.Verdict == Admitted {
					running = append(running, h)
				}
			}
			out := quiet.Pump(now, nil)
			also := seen.Pump(now, nil)
			if len(out) != len(also) {
				t.Fatalf("%d calls go, and %d where somebody has looked", len(out), len(also))
			}
			running = append(running, out...)
			at, _ := quiet.Next()
			if other, _ := seen.Next(); !at.Equal(other) {
				t.Fatalf("the next goes at %v, and at %v where somebody has looked", at, other)
			}
		}
	})
}
