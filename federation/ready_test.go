package federation

import (
	"testing"
	"time"

	"github.com/llmgov/llmgov/escrow"
)

// idler is a node that uses nothing of its grants.
type idler struct {
	name           string
	seq            int64
	ready, waiting int64
	back           int64 // what its calls may give back
	burst          int64
	use            float64 // what its callers use
	last           Reply
}

const idlersLimit = 300_000

// beat is the level of its next grant.
func (x *idler) beat(a *Account, now int64) int64 {
	x.seq++
	x.last = a.Beat(now, "", 0, &Beat{
		Node: x.name, Instance: x.name, Join: x.seq == 1, Seq: x.seq, Acked: x.seq - 1, Epoch: x.last.Epoch, Sent: now, Joined: 1, Format: Format,
		Limits: Amounts{idlersLimit}, Burst: Amounts{x.burst}, Ready: Amounts{x.ready}, Waiting: Amounts{x.waiting}, Refundable: Amounts{x.back}, Holding: x.last.Grant,
		Curve: []Point{{1, [axes]float64{x.use}}},
	})
	return x.last.Grant[0].Level
}

// TestReady: what nobody uses lies ready at each node as far as it wants it, though it does not ask, from its first beat on. Once
// more waits at one than is saved, the others have no more than they had.
func TestReady(t *testing.T) {
	a := NewAccount(DefaultRules(), 1_000_000, Options{Fresh: true})
	now := int64(1_000_000)
	x := &idler{name: "x", ready: 30_000, burst: 50_000}
	y := &idler{name: "y", ready: 20_000, burst: 50_000}
	for range 15 {
		now += 1000
		x.beat(a, now)
		y.beat(a, now)
	}
	if got, other := x.last.Grant[0].Level, y.last.Grant[0].Level; got != x.ready || other != y.ready {
		t.Errorf("%d and %d are ready, want %d and %d", got, other, x.ready, y.ready)
	}
	z := &idler{name: "z", ready: 10_000, burst: 50_000}
	if got := z.beat(a, now+500); got != z.ready {
		t.Errorf("with the first beat %d are ready, want %d", got, z.ready)
	}
	z.ready = 80_000
	z.back = 20_000
	now += 500
	if got := z.beat(a, now); got != 65_000 { // but for a second of the limit
		t.Errorf("beyond 50,000 that are saved, of 20,000 that its calls may give back, %d are ready", got)
	}
	now += 1000
	x.waiting = 400_000
	x.beat(a, now)
	y.last.Grant[0].Level = 0 // it has used it
	if got := y.beat(a, now); got > 0 {
		t.Errorf("beside a queue that takes all, another %d are ready", got)
	}
}

// TestReady_Even: of what nobody asks for a node has as much as its callers use, and the rest is divided by heads. So who used an idle pool last
// has no more of it.
func TestReady_Even(t *testing.T) {
	for _, use := range []float64{0, 0.01, 120_000, 240_000} {
		a := NewAccount(DefaultRules(), 1_000_000, Options{Fresh: true})
		x := &idler{name: "x", use: use}
		y := &idler{name: "y"}
		for range 2 {
			x.beat(a, 1_001_000)
			y.beat(a, 1_001_000)
		}
		all := a.steady(0)
		spare := all - use
		got, other := float64(x.last.Grant[0].Rate), float64(y.last.Grant[0].Rate)
		if other < spare*spare/all/2-2 || got+other < all-4 || got+other > all+4 {
			t.Errorf("of %.0f one that uses %.0f has %.0f, and another %.0f", all, use, got, other)
		}
	}
}

// TestReady_Whole: if more waits than is saved, some nodes get all that waits there, and not each a part that is less than a call.
func TestReady_Whole(t *testing.T) {
	a := NewAccount(DefaultRules(), 1_000_000, Options{Fresh: true})
	var nodes []*idler
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		nodes = append(nodes, &idler{name: name, burst: 50_000})
	}
	now := int64(1_000_000)
	for ; now < 1_015_000; now += 1000 {
		for _, n := range nodes {
			n.beat(a, now)
		}
	}
	whole := 0
	for _, n := range nodes {
		n.waiting = 9000
		n.use = 540_000 // as what could go within a beat
	}
	for range 4 {
		now += 250
		whole = 0
		for _, n := range nodes {
			if n.beat(a, now) >= n.waiting {
				whole++
			}
		}
	}
	if whole < 4 || whole > 5 { // of 50,000, but for a second
		t.Errorf("at %d of 8 nodes all that waits can go", whole)
	}
}

// TestReady_Within: however much nodes would have ready, all that lies ready is within the limit.
func TestReady_Within(t *testing.T) {
	a := NewAccount(DefaultRules(), 1_000_000, Options{Fresh: true})
	nodes := []*idler{
		{name: "x", ready: 200_000, burst: idlersLimit},
		{name: "y", ready: 200_000, burst: idlersLimit},
		{name: "z", ready: 200_000, burst: idlersLimit},
	}
	for now := int64(1_000_000); now < 1_090_000; now += 1000 {
		sum := int64(0)
		for _, n := range nodes {
			n.beat(a, now)
		}
		for _, n := range nodes {
			sum += n.last.Grant[0].Level
		}
		if sum > idlersLimit {
			t.Fatalf("%d lie ready of %d", sum, idlersLimit)
		}
	}
	if got := nodes[0].last.Grant[0].Level; got < idlersLimit/5 {
		t.Errorf("of an idle pool %d lie ready at a node", got)
	}
}

// TestReady_Back: where nothing waits, what calls give back is told out of turn once it is more than the limit hands out in that time, if others lack it.
func TestReady_Back(t *testing.T) {
	n := NewNode(Config{Name: "n", Instance: "n", Rules: DefaultRules()})
	now := time.Unix(0, 0)
	report := &Report{Limits: Amounts{idlersLimit}, Holding: [axes]Holding{{Refunded: 7000}}}
	for _, x := range []struct {
		level               float64
		back, waiting, left int64
		due                 bool
	}{
		{level: 1, back: 1251, due: true}, {level: 1, back: 1250}, {level: -1, back: 1251}, {level: 1, back: 1251, waiting: 10, left: 10},
	} {
		now = now.Add(2 * time.Second)
		b := n.Step(now, report)[0].(Send).Beat
		n.Step(now, &Reply{Status: Granted, Instance: "n", Seq: b.Seq, Epoch: 1, Level: x.level})
		p := Pressure{Waiting: Amounts{x.waiting}, Holding: [axes]Holding{{Left: x.left, Refunded: 7000 + x.back}}}
		if early := n.Due(now.Add(n.cfg.Rules.Eager-1), p); early || n.Due(now.Add(n.cfg.Rules.Eager), p) != x.due {
			t.Errorf("%+v: a beat is due too early: %v, or not in time", x, early)
		}
	}
}

// TestReady_Wanted: a node wants ready what its calls take until the next answer, and one more. If it knows of none it wants a
// second, unless others lack it.
func TestReady_Wanted(t *testing.T) {
	n := NewNode(Config{Name: "n", Instance: "n", Rules: DefaultRules()})
	now := time.Unix(0, 0)
	report := &Report{Limits: Amounts{idlersLimit}}
	beat := func(level float64) int64 {
		now = now.Add(2 * time.Second)
		b := n.Step(now, report)[0].(Send).Beat
		for _, c := range n.Step(now, &Reply{Status: Granted, Instance: "n", Seq: b.Seq, Epoch: 1, Level: level}) {
			if allow, is := c.(Allow); is && allow.Axis == escrow.Tokens {
				if a := allow.Allowance; a.Until.Sub(now) < n.cfg.Rules.TTL*99/100 || a.Level != 0 || a.Rate != 0 || a.Spare != idlersLimit-10_000 {
					t.Errorf("an answer that grants nothing allows %+v", a)
				}
			}
		}
		return b.Ready[escrow.Tokens]
	}
	if got := beat(1); got != 5000 {
		t.Errorf("before its first call it wants %d", got)
	}
	if got := beat(-1); got != 0 {
		t.Errorf("while others lack it, it wants %d", got)
	}
	if got := beat(-1); got != 5000 {
		t.Errorf("when nobody lacks anything it wants %d", got)
	}
	report.Largest[0] = 4000
	for range 20 {
		report.Spent[0] += 2 * 10_000
		beat(-1)
	}
	if got := beat(-1); got < 4000+5000 || got > 4000+10_000+2*6325 {
		t.Errorf("of 10,000 a second in calls of 4,000 it wants %d", got)
	}
}
