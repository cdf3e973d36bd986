package fairness

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// rig drives a pool in virtual time, and a meter beside it.
type rig struct {
	t       *testing.T
	p       *escrow.Pool
	cfg     escrow.Config
	m       *Meter
	now     time.Time
	rng     *rand.Rand
	callers []*caller
	owners  map[escrow.Handle]*caller
	ends    []end
	back    []comeback
}

type caller struct {
	leaf    escrow.NodeID
	keep    int     // calls that it keeps waiting
	rate    float64 // calls a second that it makes
	cost    int64
	took    int64 // what each really takes; 0: its cost
	run     time.Duration
	behind  bool // its calls are background calls
	denied  bool // it waits for nothing, and comes back when told
	owed    float64
	waiting int
}

type end struct {
	at time.Time
	h  escrow.Handle
	c  *caller
}

type comeback struct {
	at time.Time
	c  *caller
}

func newRig(t *testing.T, cfg escrow.Config) *rig {
	cfg.MaxQueue = 10_000
	cfg.TicketWait = 10 * time.Second
	return &rig{t: t, p: escrow.New(t0, cfg), cfg: cfg, m: NewMeter(t0), now: t0, rng: rand.New(rand.NewPCG(1, 2)), owners: map[escrow.Handle]*caller{}}
}

// flat plants callers of these weights side by side.
func (r *rig) flat(weights ...escrow.Weight) []*caller {
	tree := NewTree()
	var leaves []*Leaf
	for _, w := range weights {
		r.callers = append(r.callers, &caller{leaf: r.p.Add(escrow.Root, escrow.Node{Weight: w}), cost: 200})
		tree.Leaf(Root, float64(w))
		leaves = append(leaves, &Leaf{})
	}
	r.m.Plant(tree, leaves, nil)
	return r.callers
}

func (r *rig) begin(h escrow.Handle, c *caller) { r.ends = append(r.ends, end{r.now.Add(c.run), h, c}) }

func (r *rig) pump() {
	for {
		out := r.p.Pump(r.now, nil)
		for _, h := range out {
			c := r.owners[h]
			delete(r.owners, h)
			c.waiting--
			r.begin(h, c)
		}
		if len(out) == 0 {
			return
		}
	}
}

func (r *rig) offer(c *caller, retry escrow.Retry) {
	call := escrow.Call{Leaf: c.leaf, Most: escrow.Cost{c.cost, 1}, MaxWait: time.Hour, Claim: escrow.Claim{Retry: retry}, Run: c.run, Background: c.behind}
	if c.denied {
		call.MaxWait = 0
	}
	switch h, ans := r.p.Offer(r.now, call); ans.Verdict {
	case escrow.Admitted:
		r.begin(h, c)
	case escrow.Queued:
		r.owners[h] = c
		c.waiting++
	default:
		r.back = append(r.back, comeback{r.now.Add(ans.Wait), c})
	}
	r.pump()
}

func (r *rig) run(d time.Duration) {
	const step = 10 * time.Millisecond
	for until := r.now.Add(d); r.now.Before(until); {
		r.now = r.now.Add(step)
		var ends []end
		for _, e := range r.ends {
			if r.now.Before(e.at) {
				ends = append(ends, e)
				continue
			}
			took := e.c.took
			if took == 0 {
				took = e.c.cost
			}
			r.p.Settle(r.now, e.h, escrow.Cost{took, 1})
		}
		r.ends = ends
		r.pump()
		back := r.back
		r.back = nil
		for _, b := range back {
			if r.now.Before(b.at) {
				r.back = append(r.back, b)
			} else {
				r.offer(b.c, escrow.RetryAgain)
			}
		}
		for _, c := range r.callers {
			for n := 0; c.waiting < c.keep && n < 1000; n++ {
				r.offer(c, escrow.RetryFirst)
			}
			for c.owed += c.rate * step.Seconds(); c.owed >= 1; c.owed-- {
				r.offer(c, escrow.RetryFirst)
			}
		}
		if r.now.Sub(t0)%time.Second == 0 {
			r.m.Step(r.now, r.sample())
			r.p.Mark(Mark(r.now.Sub(t0)))
		}
	}
}

func (r *rig) sample() Sample {
	s := Sample{Part: 1, Burst: r.cfg.Burst, TPM: r.cfg.TPM}
	for _, c := range r.callers {
		s.Leaves = append(s.Leaves, r.p.Account(c.leaf))
	}
	return s
}

// check wants figures that are near these: entitled, and received, as parts of the
// pool, by leaf.
func (r *rig) check(what string, jain, deviation float64, entitled ...float64) {
	r.t.Helper()
	f := r.m.Figures()
	if f.Jain < jain || f.Deviation > deviation {
		r.t.Errorf("%s: Jain's index is %.4f and the deviation %.4f, want ≥ %g and ≤ %g: %+v", what, f.Jain, f.Deviation, jain, deviation, f.Leaves)
	}
	for i, want := range entitled {
		if got := f.Leaves[i].Entitled; math.Abs(got-want) > 0.02 {
			r.t.Errorf("%s: leaf %d is entitled to %.3f of the pool, want %.3f", what, i, got, want)
		}
	}
}

// TestMeter_FairPool: whatever is asked of a pool whose scheduler is fair, it is found
// to be.
func TestMeter_FairPool(t *testing.T) {
	limit := escrow.Config{TPM: 600_000}
	idle := limit
	idle.Burst = 10 * time.Second
	slow := escrow.Config{TPM: 60_000}
	both := escrow.Config{TPM: 600_000, RPM: 6000}
	slots := escrow.Config{Slots: 20}
	reserve := escrow.Config{Slots: 20, InteractiveReserve: 5}
	settled := escrow.Config{TPM: 600_000, Accounting: escrow.Settled}
	for i, c := range []struct {
		what     string
		cfg      escrow.Config
		do       func(r *rig, c []*caller)
		entitled []float64
	}{
		{"all ask for more than they get", limit, func(r *rig, c []*caller) {
			c[0].keep = 8
			c[1].keep = 8
			c[2].keep = 8
			r.run(2 * time.Minute)
		}, []float64{4. / 7, 2. / 7, 1. / 7}},
		{"one asks for less", limit, func(r *rig, c []*caller) {
			// a tenth
			c[0].rate = 5
			c[1].keep = 8
			c[2].keep = 8
			r.run(2 * time.Minute)
		}, []float64{.1, .6, .3}},
		{"nobody asks for more than there is", idle, func(r *rig, c []*caller) {
			c[0].rate = 5
			c[1].rate = 10
			c[2].rate = 5
			r.run(2 * time.Minute)
		}, []float64{.1, .2, .1}},
		{"calls take a fifth of what they declare", limit, func(r *rig, c []*caller) {
			for i, keep := range []int{8, 8, 8} {
				c[i].keep = keep
				c[i].cost = 1000
				c[i].took = 200
				c[i].run = 3 * time.Second
			}
			r.run(3 * time.Minute)
		}, nil},
		{"and one of them nothing less", settled, func(r *rig, c []*caller) {
			c[0].keep = 8
			c[0].cost = 1000
			c[0].took = 200
			c[0].run = 2 * time.Second
			c[1].keep = 8
			c[2].keep = 8
			r.run(3 * time.Minute)
			c[0].cost = 200 // until it is known calls that run seem to take more than they do
			r.run(time.Minute)
		}, nil},
		{"callers come back when told", limit, func(r *rig, c []*caller) {
			for i, rate := range []float64{40, 20, 10} {
				c[i].rate = rate
				c[i].denied = true
			}
			r.run(3 * time.Minute)
		}, nil},
		{"and one of them asks for little", limit, func(r *rig, c []*caller) {
			for i, rate := range []float64{40, 20, 3} {
				c[i].rate = rate
				c[i].denied = true
			}
			r.run(3 * time.Minute)
		}, []float64{.627, .313, .06}},
		{"a call takes seconds of the pool, and one asks for few", slow, func(r *rig, c []*caller) {
			for i := range c {
				c[i].cost = 2000
			}
			c[0].keep = 4
			c[1].keep = 4
			c[2].rate = 1. / 20
			r.run(5 * time.Minute)
		}, []float64{.6, .3, .1}},
		{"one comes late", limit, func(r *rig, c []*caller) {
			c[0].keep = 8
			r.run(90 * time.Second)
			c[1].keep = 8
			r.run(30 * time.Second)
		}, []float64{.5 + .5*2/3, .5 / 3, 0}},
		{"one comes behind a burst of another", idle, func(r *rig, c []*caller) {
			r.run(2 * time.Minute) // all idle
			c[0].keep = 500
			r.run(time.Second)
			c[1].keep = 500
			r.run(29 * time.Second)
		}, nil},
		{"calls differ in what they take most of, and one comes late", both, func(r *rig, c []*caller) {
			c[0].keep = 8
			c[0].cost = 1000
			c[1].keep = 200
			c[1].cost = 10
			r.run(5 * time.Minute)
			c[2].keep = 200
			c[2].cost = 10
			r.run(2 * time.Minute)
		}, nil},
		{"and then they go, and another asks for half", both, func(r *rig, c []*caller) {
			c[0].keep = 8
			c[0].cost = 1000
			c[1].keep = 200
			c[1].cost = 10
			r.run(5 * time.Minute)
			c[0].keep = 0
			c[1].keep = 0
			r.run(30 * time.Second)
			c[2].rate = 50
			c[2].cost = 10
			r.run(time.Minute)
		}, []float64{0, 0, .5}},
		{"slots", slots, func(r *rig, c []*caller) {
			for i := range c {
				c[i].keep = 20
				c[i].run = 500 * time.Millisecond
			}
			r.run(2 * time.Minute)
		}, []float64{4. / 7, 2. / 7, 1. / 7}},
		{"background calls beside interactive ones that fill the slots", reserve, func(r *rig, c []*caller) {
			for i := range c {
				c[i].keep = 20
				c[i].run = 500 * time.Millisecond
			}
			c[2].behind = true
			r.run(2 * time.Minute)
		}, []float64{4. / 7, 2. / 7, 1. / 7}},
		{"background calls take all that they may", reserve, func(r *rig, c []*caller) {
			c[0].rate = 4
			c[0].run = 500 * time.Millisecond
			c[2].keep = 20
			c[2].run = 500 * time.Millisecond
			c[2].behind = true
			r.run(2 * time.Minute)
		}, []float64{2. / 20, 0, 14. / 20}},
		{"background calls weigh more than they may take", reserve, func(r *rig, c []*caller) {
			c[0].keep = 20
			c[0].run = 500 * time.Millisecond
			c[0].behind = true
			c[2].keep = 20
			c[2].run = 500 * time.Millisecond
			r.run(2 * time.Minute)
		}, []float64{15. / 20, 0, 5. / 20}},
	} {
		t.Run(c.what, func(t *testing.T) {
			if i%4 != 0 && c.cfg != reserve {
				testkit.Long(t, "simulates minutes")
			}
			r := newRig(t, c.cfg)
			c.do(r, r.flat(4, 2, 1))
			r.check(c.what, 0.998, 0.05, c.entitled...)
			t.Logf("%+v", r.m.Figures())
		})
	}
}

// TestMeter_Conserves: whatever the counters say, what leaves were entitled to comes to
// what they received, and nobody is entitled to more than it asked for. Of what is given
// back somebody may have been entitled to, and gone away; what calls give back that were marked is
// taken off when they were dispatched.
func TestMeter_Conserves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 5).Draw(t, "leaves")
		tree := NewTree()
		m := NewMeter(t0)
		var leaves []*Leaf
		var floors []Floor
		for range n {
			at := tree.Leaf(Root, float64(rapid.IntRange(1, 9).Draw(t, "weight")))
			if rapid.Bool().Draw(t, "floored") {
				floors = append(floors, Floor{at, escrow.WholeMinute / int64(n+1)})
			}
			leaves = append(leaves, &Leaf{})
		}
		m.Plant(tree, leaves, floors)
		s := Sample{Part: 1, TPM: 1000, Leaves: make([]escrow.Account, n), Burst: time.Duration(rapid.IntRange(0, 30).Draw(t, "burst")) * time.Second}
		served := make([][20]int64, n) // by mark, less what was given back
		asked := make([]float64, n)
		mostBack := rapid.SampledFrom([]int64{0, escrow.WholeMinute / 600}).Draw(t, "refund")
		refunded := 0.0
		for second := range rapid.IntRange(1, 50).Draw(t, "seconds") {
			for i := range s.Leaves {
				a := &s.Leaves[i]
				received := rapid.Int64Range(max(-a.Received, -mostBack), escrow.WholeMinute/30).Draw(t, "received")
				a.Received += received
				mark := int64(second / 5)
				if of := mark - int64(rapid.IntRange(0, escrow.Marks-1).Draw(t, "ago")); of >= 0 && served[i][of] > 0 {
					back := rapid.Int64Range(0, served[i][of]).Draw(t, "back")
					served[i][of] -= back
					a.Received -= back
					a.Refunded[of%escrow.Marks] += back
				}
				served[i][mark] += max(0, received)
				refunded += float64(max(0, -received))
				a.Waiting = rapid.Int64Range(0, escrow.WholeMinute/4).Draw(t, "waiting")
				a.Kept = rapid.Int64Range(0, a.Waiting).Draw(t, "kept")
				turned := rapid.Int64Range(0, escrow.WholeMinute/60).Draw(t, "turned")
				a.Turned += turned
				asked[i] += float64(max(0, received) + a.Waiting + turned)
			}
			m.Step(t0.Add(time.Duration(second+1)*time.Second), s)
			entitled := 0.0
			received := 0.0
			for i, l := range leaves {
				c := l.minute(m.at())
				entitled = entitled + c.entitled
				received = received + c.received
				if most := asked[i]; c.entitled > most+1e3 {
					t.Fatalf("after %d s leaf %d is entitled to %g, and asked for %g", second+1, i, c.entitled/minute, most/minute)
				}
			}
			if more := entitled - received; more < -1e3 || more > 1e3+refunded {
				t.Fatalf("after %d s leaves are entitled to %g and have received %g", second+1, entitled/minute, received/minute)
			}
		}
	})
}

// TestMeter_UnfairPool: one of two equal tenants gets all, whatever becomes of the other's
// calls. Each second's worth is a call of ten.
func TestMeter_UnfairPool(t *testing.T) {
	const second = escrow.WholeMinute / 60
	for _, c := range []struct {
		what string
		ask  func(i int64, b *escrow.Account)
		want float64 // of the pool that the other is entitled to
	}{
		{"they wait", func(i int64, b *escrow.Account) { b.Waiting = (i + 1) * second }, .5},
		{"they are turned away", func(i int64, b *escrow.Account) { b.Turned += second }, .5},
		{"they give up after five seconds", func(i int64, b *escrow.Account) { b.Waiting = min(i+1, 5) * second; b.Turned = max(0, i-4) * second }, .5},
		{"there are few of them", func(i int64, b *escrow.Account) { b.Turned += second / 5 }, .2},
		{"all wait for the same one", func(i int64, b *escrow.Account) { b.Waiting = 12 * second }, .5},
		{"the same places are kept for them", func(i int64, b *escrow.Account) {
			b.Waiting = 12 * second
			b.Kept = 12 * second
		}, .2},
		{"there are none", func(int64, *escrow.Account) {}, 0},
	} {
		tree := NewTree()
		m := NewMeter(t0)
		tree.Leaf(Root, 1)
		tree.Leaf(Root, 1)
		m.Plant(tree, []*Leaf{{}, {}}, nil)
		s := Sample{Part: 1, TPM: 60_000, Leaves: []escrow.Account{{Usual: second / 10}, {Usual: second / 10}}}
		for i := range int64(60) {
			s.Leaves[0].Received += second
			s.Leaves[0].Waiting = second
			c.ask(i, &s.Leaves[1])
			m.Step(t0.Add(time.Duration(i+1)*time.Second), s)
		}
		f := m.Figures()
		a := f.Leaves[0]
		b := f.Leaves[1]
		if math.Abs(b.Entitled-c.want) > .02 || math.Abs(a.Entitled+b.Entitled-1) > .001 {
			t.Errorf("%s: who gets nothing is entitled to %.3f, want %.3f, and who gets all to %.3f", c.what, b.Entitled, c.want, a.Entitled)
		}
		x := 1 / max(1-c.want, 1e-9) // what the other has of what it is entitled to
		jain := (x * x) / (2 * x * x)
		deviation := 1.
		if c.want == 0 {
			jain = 1
			deviation = 0
		}
		if math.Abs(f.Jain-jain) > .01 || math.Abs(f.Deviation-deviation) > .03 {
			t.Errorf("%s: Jain's index is %.3f and the deviation %.3f, want %.3f and %.3f", c.what, f.Jain, f.Deviation, jain, deviation)
		}
	}
}

// TestMeter_Tree: what a real pool does with teams and floors is what they are entitled
// to.
func TestMeter_Tree(t *testing.T) {
	r := newRig(t, escrow.Config{TPM: 600_000})
	org := r.p.Add(escrow.Root, escrow.Node{Weight: 3})
	tree := NewTree()
	orgNode := tree.Inner(Root, 3)
	var leaves []*Leaf
	var floors []Floor
	for _, x := range []struct {
		up     escrow.NodeID
		upNode int
		node   escrow.Node
	}{
		{org, orgNode, escrow.Node{Weight: 3}},
		{org, orgNode, escrow.Node{Weight: 1, Floor: 180_000}},
		{escrow.Root, Root, escrow.Node{Weight: 1}},
		{escrow.Root, Root, escrow.Node{Weight: 0.001, Floor: 60_000}},
	} {
		r.callers = append(r.callers, &caller{leaf: r.p.Add(x.up, x.node), cost: 200, keep: 500})
		n := tree.Leaf(x.upNode, float64(x.node.Weight))
		if x.node.Floor > 0 {
			floors = append(floors, Floor{n, escrow.WholeMinute * x.node.Floor / 600_000})
		}
		leaves = append(leaves, &Leaf{})
	}
	r.m.Plant(tree, leaves, floors)
	r.run(3 * time.Minute)
	r.check("all wait", .999, .03, .375, .3, .225, .1)
	r.callers[2].keep = 0
	r.callers[1].keep = 0
	r.callers[1].rate = 15 // calls of 200 tokens: 180 a minute and 1000 of them
	r.run(3 * time.Minute)
	r.check("one is gone, and one asks for little", .999, .03, .6, .3, 0, .1)
}

// TestMeter_Lends: of two tenants with half of the pool each, one uses a fifth of it and
// the other the rest; and then neither uses its half.
func TestMeter_Lends(t *testing.T) {
	const second = escrow.WholeMinute / 60
	tree := NewTree()
	m := NewMeter(t0)
	tree.Leaf(Root, 1)
	tree.Leaf(Root, 1)
	m.Plant(tree, []*Leaf{{}, {}}, nil)
	s := Sample{Part: 1, TPM: 60_000, Leaves: make([]escrow.Account, 2)}
	run := func(seconds int, a, b float64) (f Figures) {
		for range seconds {
			s.Leaves[0].Received += int64(float64(second) * a)
			s.Leaves[1].Received += int64(float64(second) * b)
			m.Step(m.last.Add(time.Second), s)
		}
		return m.Figures()
	}
	run(60, .2, .8)
	before := m.Figures()
	f := run(60, .2, .8)
	for i, got := range []float64{
		f.Leaves[0].Lent - before.Leaves[0].Lent, f.Leaves[1].Borrowed - before.Leaves[1].Borrowed,
		f.Leaves[0].Borrowed, f.Leaves[1].Lent,
	} {
		if want := []float64{18_000, 18_000, 0, 0}[i]; math.Abs(got-want) > 10 {
			t.Errorf("within a minute %d is %.0f tokens, want %.0f", i, got, want)
		}
	}
	run(60, .2, .4)
	before = m.Figures()
	f = run(60, .2, .4)
	if f.Leaves[0].Lent != before.Leaves[0].Lent || f.Leaves[1].Borrowed != before.Leaves[1].Borrowed {
		t.Errorf("tenants that use less than their halves lend and borrow: %+v, and before %+v", f, before)
	}
	s.Leaves[0].Waiting = escrow.WholeMinute / 10 * 3
	run(60, .2, .8)
	before = m.Figures()
	f = run(60, .2, .8)
	if f.Leaves[0].Lent > before.Leaves[0].Lent+1 {
		t.Errorf("who waits for all of its half lends %.0f tokens of it", f.Leaves[0].Lent-before.Leaves[0].Lent)
	}
	s.Leaves[0].Waiting = 0
	run(130, 0, 0)
	if !m.Quiet() {
		t.Errorf("after two idle minutes there is still something to measure")
	}
}

// A leaf's figures live on when the tree around it changes, and those of others do not
// come to it.
func TestMeter_Replant(t *testing.T) {
	const second = escrow.WholeMinute / 60
	m := NewMeter(t0)
	plant := func(leaves ...*Leaf) {
		tree := NewTree()
		for range leaves {
			tree.Leaf(Root, 1)
		}
		m.Plant(tree, leaves, nil)
	}
	a := &Leaf{}
	b := NewLeaf(escrow.Account{Received: 1000 * second, Turned: 7 * second})
	plant(a)
	for i := range int64(10) {
		m.Step(m.last.Add(time.Second), Sample{Part: 1, Leaves: []escrow.Account{{Received: (i + 1) * second}}})
	}
	plant(b, a)
	m.Step(m.last.Add(time.Second), Sample{Part: 1, Leaves: []escrow.Account{{Received: 1001 * second, Turned: 7 * second}, {Received: 10 * second}}})
	for i, want := range []float64{1. / 60, 10. / 60} {
		if got := m.Figures().Leaves[i]; math.Abs(got.Received-want) > 1e-9 || math.Abs(got.Demand-want) > 1e-9 || math.Abs(got.Entitled-want) > 1e-9 {
			t.Errorf("leaf %d: %+v, want %.4f", i, got, want)
		}
	}
}
