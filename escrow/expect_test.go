package escrow

import (
	"testing"
	"time"
)

// A call that finds no slot, because the pool is narrowed for the moment, is told to come back as soon as the
// slots that are expected suffice, not when those of the moment would.
func TestExpect_PromisesGoByTheSlotsThatThereSoonAre(t *testing.T) {
	for _, c := range []struct {
		narrow, expect int64
		waits          time.Duration // six calls run one after the other in so many slots, each for a second
	}{
		{narrow: 8, expect: 8, waits: 6 * time.Second / 8},
		{narrow: 0, expect: 8, waits: 6 * time.Second / 8},
		{narrow: 1, expect: 4, waits: 6 * time.Second / 4},
		{narrow: 4, expect: 0, waits: 6 * time.Second / 4},
	} {
		now := time.Unix(1e9, 0)
		p := New(now, Config{Slots: 8, MaxQueue: 10})
		leaf := p.Add(Root, Node{Weight: WeightOne})
		call := Call{Leaf: leaf, Most: Cost{0, 1}, MaxWait: time.Hour}
		for range 100 { // so that a call's run is known
			h, _ := p.Offer(now, call)
			now = now.Add(time.Second)
			p.Settle(now, h, Cost{0, 1})
		}
		p.Narrow(0, BackgroundSlots{})
		for range 5 {
			p.Offer(now, call)
		}
		p.Narrow(c.narrow, BackgroundSlots{Most: c.narrow})
		p.Expect(c.expect)
		if got := p.slotWait(leaf).Round(time.Millisecond); got != c.waits.Round(time.Millisecond) {
			t.Errorf("narrowed to %d, with %d expected, the promise is %v, want %v", c.narrow, c.expect, got, c.waits)
		}
	}
}
