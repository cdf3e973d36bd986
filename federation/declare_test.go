package federation

import (
	"testing"
	"time"
)

// declaring is an account of a store, and nodes that tell it of a pool.
type declaring struct {
	*Account
	now   time.Time
	nodes map[string]*Node
}

func newDeclaring() *declaring {
	d := &declaring{now: t0, nodes: map[string]*Node{}}
	d.Account = NewAccount(tiny(5, 2), d.clock(), Options{Incarnation: "first"})
	return d
}

func (d *declaring) clock() int64 { return 1_000_000 + d.now.Sub(t0).Milliseconds() }

// beat has a node of this name tell the account after a while, and returns the last answer: one that is to be told all is.
func (d *declaring) beat(after time.Duration, name string, memory *Memory) (r Reply) {
	n := d.nodes[name]
	if n == nil {
		n = NewNode(Config{Name: name, Instance: name, Rules: d.Rules, Memory: memory})
		d.nodes[name] = n
	}
	for range 2 {
		d.now = d.now.Add(after)
		after = time.Millisecond
		r = d.Beat(d.clock(), d.Incarnation, 0, n.Step(d.now, &Report{Limits: Amounts{100}})[0].(Send).Beat)
		n.Step(d.now, &r)
		if r.Status != Resend {
			return r
		}
	}
	return r
}

func (d *declaring) declare(t *testing.T, after time.Duration) {
	t.Helper()
	d.now = d.now.Add(after)
	if no := d.Declare(d.clock(), "first"); no != nil {
		t.Fatalf("it was refused: %v", no)
	}
}

func wantStatus(t *testing.T, what string, got Reply, want Status) {
	t.Helper()
	if got.Status != want {
		t.Errorf("%s: %s, want %s", what, got.Status, want)
	}
}

// TestDeclare: a memory that was declared new grants to the first node at once, and to those that join it.
func TestDeclare(t *testing.T) {
	d := newDeclaring()
	wantStatus(t, "a new memory", d.beat(0, "a", nil), Learning)
	d = newDeclaring()
	d.declare(t, 0)
	wantStatus(t, "the first", d.beat(20*time.Millisecond, "a", nil), Granted)
	wantStatus(t, "another", d.beat(time.Millisecond, "b", nil), Granted)
}

// TestDeclare_Lost: what was declared of a memory says nothing of the one after it.
func TestDeclare_Lost(t *testing.T) {
	d := newDeclaring()
	d.declare(t, 0)
	wantStatus(t, "the first", d.beat(time.Millisecond, "a", nil), Granted)
	d.Incarnation = "second"
	r := d.Beat(d.clock(), "third", 0, &Beat{Node: "c", Instance: "c", Join: true, Seq: 1, Limits: Amounts{100}})
	wantStatus(t, "after a loss", r, Learning)
}

// TestDeclare_Known: a node that runs, and knows of another memory, is believed. One that starts knows nothing newer than who declared this one.
func TestDeclare_Known(t *testing.T) {
	d := newDeclaring()
	d.declare(t, 0)
	d.beat(time.Millisecond, "a", nil)
	known, _ := d.nodes["a"].Memory()
	if known.Epoch == 0 {
		t.Fatal("the node knows nothing")
	}

	d.Account = NewAccount(d.Rules, d.clock(), Options{Incarnation: "first"})
	d.Epoch += 1000
	d.declare(t, 0)
	wantStatus(t, "one that runs", d.beat(time.Millisecond, "a", nil), Learning)

	d.Account = NewAccount(d.Rules, d.clock(), Options{Incarnation: "first"})
	d.Epoch += 2000
	d.declare(t, 0)
	wantStatus(t, "one that starts", d.beat(time.Millisecond, "again", &known), Granted)
}

// TestDeclare_InUse: no memory is declared new while a node is heard of, or while anything counts that one may have used.
func TestDeclare_InUse(t *testing.T) {
	d := newDeclaring()
	d.declare(t, 0)
	wantStatus(t, "the first", d.beat(time.Millisecond, "a", nil), Granted)
	refuses := func(after time.Duration, want bool) {
		t.Helper()
		d.now = d.now.Add(after)
		no := d.Declare(d.clock(), "first")
		if (no != nil) != want || no != nil && no.Node != "a" {
			t.Errorf("after %v: %v", d.now.Sub(t0), no)
		}
	}
	silent := time.Duration(d.Rules.silent()) * time.Millisecond
	counts := d.Rules.Window + d.Rules.TTL + time.Duration(d.Rules.slot())*time.Millisecond
	refuses(silent, true)
	refuses(time.Millisecond, true)
	refuses(counts-silent-time.Millisecond, true)
	refuses(time.Millisecond, false)

	d = newDeclaring()
	wantStatus(t, "of a memory that grants nothing", d.beat(0, "a", nil), Learning)
	refuses(silent, true)
	refuses(time.Millisecond, false)
}
