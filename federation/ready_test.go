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
	last           Reply
}

const idlersLimit = 300_000

// beat is the level of its next grant.
func (x *idler) beat(a *Account, now int64) int64 {
	x.seq++
	x.last = a.Beat(now, "", 0, &Beat{
		Node: x.name, Instance: x.name, Join: x.seq == 1, Seq: x.seq, Acked: x.seq - 1, Epoch: x.last.Epoch, Sent: now, Joined: 1, Format: Format,
		Limits: Amounts{idlersLimit}, Burst: Amounts{x.burst}, Ready: Amounts{x.ready}, Waiting: Amounts{x.waiting}, Refundable: Amounts{x.back}, Holding: x.last.Grant,
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

// TestReady_Wanted: a node wants ready what its calls take until the next answer, and one more. If it knows of none it wants a
// second, unless others lack it.
func TestReady_Wanted(t *testing.T) {
	n := NewNode(Config{Name: "n", Instance: "n", Rules: DefaultRules()})
	now := time.Unix(0, 0)
	report := &Report{Limits: Amounts{idlersLimit}}
	beat := func(level float64) int64 {
		now = now.Add(2 * time.Second)
		b := n.Step(now, report)[0].(Send).Beat
		n.Step(now, &Reply{Status: Granted, Instance: "n", Seq: b.Seq, Epoch: 1, Level: level})
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
