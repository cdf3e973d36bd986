package escrow

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestRefundable: calls that run give back no more of what is booked than Refundable says.
func TestRefundable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := t0
		kind := rapid.SampledFrom([]Accounting{AdmitMax, Production, Settled}).Draw(t, "accounting")
		p := New(now, Config{TPM: 600_000, RPM: 6000, MaxQueue: 100, Accounting: kind})
		leaf := p.Add(Root, Node{Weight: WeightOne})
		booked := func() (sum Cost) {
			p.Bookings(now, func(b Booking) { sum[b.Axis] += b.Cost })
			return sum
		}
		var running []Handle
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 3000).Draw(t, "ms")) * time.Millisecond)
			most := int64(rapid.IntRange(1, 2000).Draw(t, "most"))
			p.Offer(now, Call{Leaf: leaf, Most: Cost{most, 1}, Expect: most, Input: most / 3, Speed: 100, MaxWait: time.Hour})
			running = append(running, p.Pump(now, nil)...)
			if len(running) == 0 {
				continue
			}
			i := rapid.IntRange(0, len(running)-1).Draw(t, "which")
			before := booked()
			refundable := p.Refundable()
			if rapid.Bool().Draw(t, "ends") {
				actual := Cost{int64(rapid.IntRange(0, 2500).Draw(t, "actual")), int64(rapid.IntRange(0, 1).Draw(t, "request"))}
				p.Settle(now, running[i], actual)
				running = append(running[:i], running[i+1:]...)
			} else {
				p.Progress(now, running[i], Progress{Taken: int64(rapid.IntRange(0, 2500).Draw(t, "taken")), Expect: int64(rapid.IntRange(0, 2500).Draw(t, "expect"))})
			}
			after := booked()
			for k := range after {
				// Stretches are rounded up to whole units, one by one.
				if back := before[k] - after[k]; back > refundable[k]+calendarSlots {
					t.Fatalf("axis %d: %d was given back, and %d was refundable", k, back, refundable[k])
				}
			}
		}
	})
}
