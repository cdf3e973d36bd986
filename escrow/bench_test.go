package escrow

import (
	"fmt"
	"math"
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
				p.Add(Root, Node{Weight: Weight(1000+i%7000) / 1000})
			}
			p.axes[Tokens].pace.level = -1 // so that all wait
			for i := range n {
				p.Offer(now, Call{Leaf: NodeID(i + 1), Most: Cost{int64(100 + i%900), 1}, MaxWait: time.Hour})
			}
			decide(b, p, now)
		})
	}
}

// decide takes calls from offer to settle through the queue of a pool in which a call
// of every leaf waits.
func decide(b *testing.B, p *Pool, now time.Time) {
	var out []Handle
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		p.axes[Tokens].pace.level = 1500
		out = p.Pump(now, out[:0])
		for _, h := range out {
			leaf := p.entries[h.Slot].leaf
			p.Settle(now, h, Cost{400, 1})
			p.Offer(now, Call{Leaf: leaf, Most: Cost{int64(500 + i%900), 1}, MaxWait: 1000 * time.Hour})
			i++
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(max(1, i)), "ns/decision")
}

// BenchmarkFastPath is one call that nobody stands before.
func BenchmarkFastPath(b *testing.B) {
	p := New(t0, Config{TPM: MaxLimit, RPM: MaxLimit, Slots: 1000, MaxQueue: 10})
	leaf := p.Add(Root, Node{Weight: 1})
	now := t0
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(time.Microsecond)
		h, _ := p.Offer(now, Call{Leaf: leaf, Most: Cost{100, 1}})
		p.Settle(now, h, Cost{50, 1})
	}
}

// BenchmarkTreeDecision is a decision in a tree of three levels, all leaves waiting.
func BenchmarkTreeDecision(b *testing.B) {
	for _, n := range []int{10, 1000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			p, now := waitingTree(n)
			decide(b, p, now)
		})
	}
}

// waitingTree is a pool of n leaves at the third level, each with a call that waits.
func waitingTree(n int) (*Pool, time.Time) {
	p := New(t0, Config{TPM: MaxLimit, MaxQueue: 3 * n, TicketWait: 10 * time.Second})
	p.axes[Tokens].pace.level = -1
	side := max(2, int(math.Cbrt(float64(n))))
	for i, left := 0, n; left > 0; i++ {
		org := p.Add(Root, Node{Weight: Weight(1000+i%7000) / 1000})
		for j := 0; j < side && left > 0; j++ {
			team := p.Add(org, Node{Weight: Weight(1000+j%7000) / 1000})
			for k := 0; k < side && left > 0; k++ {
				leaf := p.Add(team, Node{Weight: Weight(1000+k%7000) / 1000})
				p.Offer(t0, Call{Leaf: leaf, Most: Cost{int64(100 + left%900), 1}, MaxWait: 1000 * time.Hour})
				left--
			}
		}
	}
	return p, t0
}

// BenchmarkRefusalBehind is a refusal with its prediction, and a kept place while
// there is room for one, behind so many that wait.
func BenchmarkRefusalBehind(b *testing.B) {
	for _, n := range []int{1000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			p, now := waitingTree(n)
			leaf := NodeID(len(p.nodes) - 1)
			b.ReportAllocs()
			for b.Loop() {
				if _, ans := p.Offer(now, Call{Leaf: leaf, Most: Cost{1000, 1}, MaxWait: -1}); ans.Verdict != TooLong {
					b.Fatal(ans)
				}
			}
		})
	}
}

// BenchmarkProgress is one of 10,000 open streams telling its progress; at 4 Hz
// there are 40,000 of these a second.
func BenchmarkProgress(b *testing.B) {
	const streams = 10_000
	p := New(t0, Config{TPM: 100_000_000, Burst: Window, Accounting: Production, MaxQueue: 10})
	leaf := p.Add(p.Add(Root, Node{Weight: 1}), Node{Weight: 1})
	now := t0.Add(5 * time.Minute)
	var open []Handle
	for range streams {
		h, ans := p.Offer(now, Call{Leaf: leaf, Most: Cost{4000, 1}, Input: 500, Speed: 60})
		if ans.Verdict != Admitted {
			b.Fatal(ans)
		}
		open = append(open, h)
	}
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		now = now.Add(25 * time.Microsecond)
		p.Progress(now, open[n%streams], Progress{Taken: 500 + int64(n/streams)*15, Expect: 4000, Speed: 60})
		n++
	}
	each := float64(b.Elapsed().Nanoseconds()) / float64(n)
	b.ReportMetric(each*4*streams/1e9*100, "%core")
}

// BenchmarkCalendarFits is the look at every window of a full calendar.
func BenchmarkCalendarFits(b *testing.B) {
	c := newCalendar(t0, 600_000)
	now := t0
	for range 240 {
		now = now.Add(Window / calendarSlots)
		c.advance(now)
		for c.fits(now, 500*grain, 3000*grain, 15*grain) {
			c.ledger.Book(500 * grain)
			c.lay(now, 3000*grain, 15*grain)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		if !c.fits(now, 0, 1, 1) {
			b.Fatal("a grain does not fit")
		}
	}
}

// BenchmarkPumpFull is a look for calls that may go, in vain, while so many leaves wait for one full upstream, and one for another.
func BenchmarkPumpFull(b *testing.B) {
	for _, n := range []int{100, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			p, now := fullUpstreams(b, n)
			b.ReportAllocs()
			for b.Loop() {
				if out := p.Pump(now, nil); len(out) > 0 {
					b.Fatal(out)
				}
			}
		})
	}
}

// fullUpstreams is a pool of n leaves with a call each that waits for one full upstream, and one whose call waits for another.
func fullUpstreams(t testing.TB, n int) (*Pool, time.Time) {
	p := New(t0, Config{TPM: MaxLimit, Burst: Window, MaxQueue: 3 * n})
	u := newOutlets(t, 1000, 1000)
	p.SetUpstreams(u, Moved{})
	for i := range n + 1 {
		p.Add(Root, Node{Weight: Weight(1000+i%7000) / 1000})
	}
	now := t0.Add(Window)
	for _, o := range u.list {
		o.Advance(now)
		o.Book(1000)
	}
	for i := range n + 1 {
		via := Mask(1 + i/n) // the last leaf's is the other upstream
		if _, ans := p.Offer(now, Call{Leaf: NodeID(i + 1), Most: Cost{int64(100 + i%900), 1}, MaxWait: time.Hour, Via: via}); ans.Verdict != Queued {
			t.Fatal(ans)
		}
	}
	p.Pump(now, nil)
	return p, now
}
