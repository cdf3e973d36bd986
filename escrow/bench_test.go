package escrow

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkDecision is one call from offer to settle, through the queue, with
// so many leaves waiting.
func BenchmarkDecision(b *testing.B) {
	for _, n := range []int{10, 1000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			p := New(t0, Config{TPM: MaxLimit, MaxQueue: 3 * n})
			now := t0
			for i := range n {
				p.Add(Root, Node{Weight: Weight(1000 + i%7000)})
			}
			p.axes[Tokens].pace.level = -1 // so that all wait
			for i := range n {
				p.Offer(now, Call{Leaf: NodeID(i + 1), Most: Cost{int64(100 + i%900), 1}, MaxWait: time.Hour})
			}
			var out []Handle
			i := 0
			b.ReportAllocs()
			for b.Loop() {
				p.axes[Tokens].pace.level = 1500
				out = p.Pump(now, out[:0])
				for _, h := range out {
					leaf := p.entries[h.Slot].leaf
					p.Settle(now, h, Cost{400, 1})
					p.Offer(now, Call{Leaf: leaf, Most: Cost{int64(500 + i%900), 1}, MaxWait: time.Hour})
					i++
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(max(1, i)), "ns/decision")
		})
	}
}

// BenchmarkFastPath is one call that nobody stands before.
func BenchmarkFastPath(b *testing.B) {
	p := New(t0, Config{TPM: MaxLimit, RPM: MaxLimit, Slots: 1000, MaxQueue: 10})
	leaf, now := p.Add(Root, Node{Weight: WeightOne}), t0
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(time.Microsecond)
		h, _ := p.Offer(now, Call{Leaf: leaf, Most: Cost{100, 1}})
		p.Settle(now, h, Cost{50, 1})
	}
}
