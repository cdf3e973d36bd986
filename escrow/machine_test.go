package escrow

import (
	"flag"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

// naiveNext is I9's dumb twin of the heaps: at every level, of all children below
// which an eligible call waits that is not passed over, the one with the smallest start tag, found by
// looking at each; and before that the floor that is due the longest.
func naiveNext(p *Pool, open bool) (NodeID, bool) {
	can := make([]bool, len(p.nodes))
	for n := range p.entries {
		e := &p.entries[n]
		if e.state != entryQueued || e.class == background && !open || naivelyPassed(p, e, open) || p.asideFor(&p.entries[p.head(e.leaf, open)]) != Root {
			continue
		}
		for i := e.leaf; i != Root; i = p.nodes[i].parent {
			can[i] = true
		}
		can[Root] = true
	}
	eligible := func(i NodeID) bool { return can[i] }
	at := Root
	found := false
	due := p.now
	for i := range p.nodes {
		n := &p.nodes[i]
		if i := NodeID(i); i != Root && n.weight > 0 && n.floor > 0 && p.minute > 0 && eligible(i) &&
			(n.due < due || n.due == due && (!found || n.stands.rank < p.nodes[at].stands.rank)) {
			at = i
			due = n.due
			found = true
		}
	}
	if !eligible(Root) {
		return 0, false
	}
	for p.nodes[at].inner != nil && p.nodes[at].children > 0 {
		best := Root
		for i := range p.nodes {
			i := NodeID(i)
			if n := &p.nodes[i]; i == Root || n.weight == 0 || n.parent != at || !eligible(i) {
				continue
			}
			if best == Root || p.nodes[i].finish < p.nodes[best].finish || p.nodes[i].finish == p.nodes[best].finish && p.tie(int32(i), int32(best)) {
				best = i
			}
		}
		at = best
	}
	return at, true
}

// naivelyPassed reports whether a call and all that its leaf could have served in its place are passed over.
func naivelyPassed(p *Pool, e *entry, open bool) bool {
	for class, list := range p.nodes[e.leaf].calls {
		if list.head >= 0 && (open || rank(class) == interactive) && !p.passedOver(p.entries[list.head].via) {
			return false
		}
	}
	return true
}

// machine is a pool under any sequence of verbs, for rapid and for the fuzzer.
type machine struct {
	fatal   func(format string, args ...any)
	p       *Pool
	now     time.Time
	leaves  []NodeID
	inner   []NodeID
	queued  []Handle
	running []Handle
	steps   int
	every   int // Check is called every so many steps
}

// pump pumps, compares whom the heaps serve with the naive choice, and checks all
// that a state can show.
func (m *machine) pump() {
	m.steps++
	for {
		m.p.letReturn()
		open, got, floored, has := m.next() // it unparks
		for has && m.p.clearAway(&m.p.entries[m.p.head(got, open)], floored) {
			open, got, floored, has = m.next()
		}
		want, ok := naiveNext(m.p, open)
		if ok != has || ok && got != want {
			m.fatal("I9: the heaps serve node %d next (%v), the naive choice is %d (%v)", got, has, want, ok)
		}
		before := m.p.Waiting()
		out := m.p.Pump(m.now, nil)
		for _, h := range out {
			k := slices.Index(m.queued, h)
			if k < 0 {
				m.fatal("a call was dispatched that did not wait")
			}
			m.queued = slices.Delete(m.queued, k, k+1)
			m.running = append(m.running, h)
		}
		if m.p.Waiting() != before-len(out) || len(m.queued) != m.p.Waiting() {
			m.fatal("%d wait, of %d before less %d dispatched", m.p.Waiting(), before, len(out))
		}
		if len(out) == 0 {
			break
		}
	}
	if m.steps%max(1, m.every) != 0 {
		return
	}
	if err := m.p.Check(); err != nil {
		m.fatal("%v", err)
	}
}

// next is the leaf that is next, as Pump finds it.
func (m *machine) next() (open bool, leaf, floored NodeID, ok bool) {
	reserved := m.p.reserved(Root)
	m.p.park(reserved)
	leaf, floored, ok = m.p.next(reserved == nil)
	return reserved == nil, leaf, floored, ok
}

func (m *machine) offer(c Call) {
	h, ans := m.p.Offer(m.now, c)
	switch ans.Verdict {
	case Admitted:
		m.running = append(m.running, h)
	case Queued:
		m.queued = append(m.queued, h)
	}
	m.pump()
}

// end ends all, and sees that nothing stays behind.
func (m *machine) end() {
	for _, h := range m.running {
		m.p.Settle(m.now, h, Cost{})
	}
	for _, h := range m.queued {
		m.p.Cancel(m.now, h)
	}
	if err := m.p.Check(); err != nil {
		m.fatal("%v", err)
	}
	m.now = m.now.Add(8*Window + ticketReach + TicketGrace)
	s := m.p.State(m.now)
	for k, a := range s.Axes {
		if a.Used != 0 {
			m.fatal("I7: all calls ended long ago, yet %d %v count", a.Used, Axis(k))
		}
	}
	if s.Running != 0 || s.Waiting != 0 || s.Tickets != 0 {
		m.fatal("I7: all calls ended, yet %d run, %d wait and %d places are kept", s.Running, s.Waiting, s.Tickets)
	}
	for _, i := range append(slices.Clone(m.leaves), m.inner...) {
		if !m.p.Remove(m.now, i) {
			m.fatal("all is idle, yet node %d cannot be removed: %+v", i, m.p.nodes[i])
		}
	}
	if err := m.p.Check(); err != nil {
		m.fatal("%v", err)
	}
}

// draw is what a machine's choices come from: rapid's shrinking draws, or a fast
// generator.
type draw interface {
	n(label string, lo, hi int64) int64 // lo … hi
}

func pick[T any](d draw, label string, of ...T) T { return of[d.n(label, 0, int64(len(of))-1)] }

func drawConfig(d draw) Config {
	cfg := Config{
		TPM:        pick(d, "tpm", int64(0), 6_000, 600_000),
		RPM:        pick(d, "rpm", int64(0), 60, 10_000),
		ITPM:       pick(d, "itpm", int64(0), 0, 3_000, 300_000),
		OTPM:       pick(d, "otpm", int64(0), 0, 3_000, 300_000),
		Slots:      pick(d, "slots", int64(0), 1, 5),
		Burst:      time.Duration(d.n("burst", 0, 60)) * time.Second,
		Accounting: Accounting(d.n("accounting", 0, 2)),
		MaxQueue:   20,
		TicketWait: pick(d, "tickets", 0, 10*time.Second),
		HoldBack:   pick(d, "hold-back", int64(0), 300_000, 600_000),
		SoftCap:    pick(d, "soft cap", int64(0), 1, 300_000, 600_000, wholeSlots),
	}
	if cfg.Slots > 1 {
		cfg.InteractiveReserve = d.n("reserve", 0, cfg.Slots-1)
	}
	return cfg
}

func newMachine(d draw, fatal func(string, ...any)) *machine {
	cfg := drawConfig(d)
	m := &machine{fatal: fatal, p: New(t0, cfg), now: t0}
	org := m.p.Add(Root, m.node(d))
	deep := m.p.Add(org, m.node(d))
	m.inner = []NodeID{deep, org} // children first, to be removed
	for _, parent := range []NodeID{Root, Root, org, org, deep, deep} {
		m.leaves = append(m.leaves, m.p.Add(parent, m.node(d)))
	}
	return m
}

func (m *machine) node(d draw) Node {
	return Node{
		Weight: pick(d, "weight", Weight(0.001), 0.5, 1, 7, 1000000),
		Floor:  pick(d, "floor", int64(0), 0, 0, 60, 2000),
		Credit: pick(d, "credit", 0, 0, 10*time.Second),
		Capped: d.n("capped", 0, 2) > 0,
		Below:  pick(d, "below", 0, 0, 3, LowestBand),
	}
}

// step takes one verb.
func (m *machine) step(d draw) {
	switch d.n("verb", 0, 12) {
	default:
		m.offer(m.call(d))
		return
	case 3, 4:
		if h, ok := take(d, &m.running); ok && !m.p.SettleFair(m.now, h, drawCost(d), d.n("fair", 0, 30_000)) {
			m.fatal("a running call could not be settled")
		}
	case 5:
		if len(m.running) > 0 {
			h := pick(d, "handle", m.running...)
			m.p.Progress(m.now, h, Progress{
				Taken: d.n("taken", 0, 30_000), Expect: d.n("expect", 0, 30_000),
				Speed: d.n("speed", 0, 200), Run: time.Duration(d.n("run", 0, 100)) * time.Second,
			})
		}
	case 6:
		if h, ok := take(d, &m.queued); ok && !m.p.Cancel(m.now, h) {
			m.fatal("a waiting call could not be cancelled")
		}
	case 7:
		if h, ok := take(d, &m.queued); ok {
			if _, ok := m.p.Refuse(m.now, h, uint64(d.n("key", 0, 5))); !ok {
				m.fatal("a waiting call could not be refused")
			}
		}
	case 8: // reload
		if d.n("configure", 0, 3) == 0 {
			m.p.Configure(m.now, drawConfig(d))
		}
		m.p.Update(pick(d, "node", append(slices.Clone(m.leaves), m.inner...)...), m.node(d))
		if k := d.n("leaf", 0, int64(len(m.leaves))-1); m.p.Remove(m.now, m.leaves[k]) {
			m.leaves[k] = m.p.Add(pick(d, "parent", Root, m.inner[0], m.inner[1]), m.node(d))
		}
	case 9:
		m.now = m.now.Add(time.Duration(pick(d, "dt", d.n("ms", 0, 500), d.n("ms", 0, 20_000))) * time.Millisecond)
	case 11:
		slots := d.n("slots", 0, m.p.cfg.Slots)
		m.p.Narrow(slots)
		for n, r := range m.p.rules {
			b := r.Bounds
			b.Most[0] = d.n("most", 0, slots)
			if d.n("shared", 0, 1) == 0 {
				continue
			}
			switch r.Of {
			case Lower:
				b.Most[d.n("below", 1, LowestBand)] = d.n("room", 0, slots)
			case Claimants:
				b.Lent = d.n("lent", 0, slots)
				b.Each = map[NodeID]int64{m.leaves[0]: d.n("most", 0, slots), m.inner[0]: d.n("most", 0, slots)}
			}
			m.p.Bind(n, b)
		}
	case 12:
		m.p.restrict(pick(d, "leaf", m.leaves...), 0, d.n("most", 0, 3), m.now.Add(time.Duration(d.n("s", 0, 60))*time.Second))
	case 10:
		if c, owes := m.call(d), d.n("owes", 0, 1) == 0; owes || m.p.Foretell(m.now, c).Verdict != Admitted {
			m.running = append(m.running, m.p.Force(m.now, c, owes))
		}
	}
	m.pump()
}

func (m *machine) call(d draw) Call {
	return Call{
		Leaf: pick(d, "leaf", m.leaves...), Background: d.n("background", 0, 3) == 0,
		Most: drawCost(d), Input: d.n("input", 0, 3000), Expect: d.n("expect", 0, 20_000),
		Fair: d.n("fair", 0, 20_000), Speed: d.n("speed", 0, 200), Run: time.Duration(d.n("run", 0, 100)) * time.Second,
		MaxWait: pick(d, "wait", 0, time.Second, 10*time.Minute),
		Claim:   Claim{uint64(d.n("key", 0, 5)), Retry(d.n("retry", 0, 2))},
	}
}

// drawCost is a cost whose axes need not go together.
func drawCost(d draw) Cost {
	return Cost{Tokens: d.n("tokens", 0, 20_000), Requests: 1, Input: d.n("input", 0, 5_000), Output: d.n("output", 0, 20_000)}
}

func take(d draw, from *[]Handle) (Handle, bool) {
	if len(*from) == 0 {
		return Handle{}, false
	}
	k := int(d.n("handle", 0, int64(len(*from))-1))
	h := (*from)[k]
	*from = slices.Delete(*from, k, k+1)
	return h, true
}

type rapidDraw struct{ t *rapid.T }

func (r rapidDraw) n(label string, lo, hi int64) int64 {
	return rapid.Int64Range(lo, hi).Draw(r.t, label)
}

// Any sequence of verbs keeps every invariant that a state can show, the heaps
// agree with the naive choice, and when all has ended nothing is held.
func TestInvariantsUnderAnySequence(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine(rapidDraw{t}, t.Fatalf)
		t.Repeat(map[string]func(*rapid.T){"step": func(t *rapid.T) { m.step(rapidDraw{t}) }})
		m.end()
	})
}

// Tags are shifted back before they overflow, and nobody's turn changes by it.
func TestRebaseKeepsTheOrder(t *testing.T) {
	p := New(t0, Config{TPM: 1000, MaxQueue: 100})
	a := p.Add(Root, Node{Weight: 0.001})
	b := p.Add(Root, Node{Weight: 0.001})
	p.nodes[Root].virtual = rebaseAt - 1
	p.nodes[a].finish = rebaseAt + 5
	p.nodes[b].finish = rebaseAt + 3
	p.Offer(t0, Call{Leaf: a, Most: Cost{1000, 1}, MaxWait: time.Hour})
	p.Offer(t0, Call{Leaf: b, Most: Cost{1000, 1}, MaxWait: time.Hour})
	if first, _, _ := p.next(true); first != b {
		t.Fatalf("leaf %d is first, want %d", first, b)
	}
	p.Pump(t0.Add(Window), nil)
	if p.nodes[Root].virtual > maxAhead {
		t.Fatalf("virtual time is still at %d", p.nodes[Root].virtual)
	}
	testkit.OK(t, p.Check())
}

func TestNoAllocations(t *testing.T) {
	p := New(t0, Config{TPM: 600_000_000, RPM: 6_000_000, ITPM: 600_000_000, OTPM: 600_000_000, Slots: 10, MaxQueue: 10})
	leaf := p.Add(p.Add(Root, Node{Weight: 1}), Node{Weight: 1})
	now := t0
	if n := testkit.Allocs(t, 1000, func() {
		now = now.Add(time.Millisecond)
		h, _ := p.Offer(now, Call{Leaf: leaf, Most: Cost{100, 1, 20, 80}})
		p.Settle(now, h, Cost{50, 1, 20, 30})
	}); n != 0 {
		t.Errorf("offer and settle allocate %v times", n)
	}
}

// steps and seed say how far TestMachineLongRun goes, and where it begins:
//
//	go test ./escrow -run TestMachineLongRun -steps 10000000 -seed 7 -timeout 2h
var (
	steps = flag.Int("steps", 200_000, "how many steps the random machine takes")
	seed  = flag.Uint64("seed", 1, "where the random machine begins")
)

// pcgDraw draws from a fast generator.
type pcgDraw struct{ *rand.Rand }

func (d pcgDraw) n(_ string, lo, hi int64) int64 { return lo + d.Int64N(hi-lo+1) }

// byteDraw draws from a fuzzer's bytes, and zeros once these are spent.
type byteDraw struct{ left []byte }

func (d *byteDraw) n(_ string, lo, hi int64) int64 {
	v := uint64(0)
	span := uint64(hi - lo)
	for s := span; s > 0; s >>= 8 {
		v <<= 8
		if len(d.left) > 0 {
			v |= uint64(d.left[0])
			d.left = d.left[1:]
		}
	}
	return lo + int64(v%(span+1))
}

// The invariants that a state can show, over many pools and long runs of verbs:
// what rapid cannot reach in its short ones. A failure names the seed of its pool.
func TestMachineLongRun(t *testing.T) {
	const life = 2000 // steps of one pool
	left := testkit.Rounds(*steps/10, *steps)
	for from := *seed; left > 0; from++ {
		d := pcgDraw{rand.New(rand.NewPCG(from, 0))}
		m := newMachine(d, func(format string, args ...any) {
			t.Helper()
			t.Fatalf("-seed %d: "+format, append([]any{from}, args...)...)
		})
		m.every = 16
		for range min(life, left) {
			m.step(d)
		}
		m.end()
		left -= life
	}
}

func FuzzMachine(f *testing.F) {
	for s := range uint64(4) {
		r := rand.New(rand.NewPCG(s, 0))
		b := make([]byte, 600)
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		d := &byteDraw{b}
		m := newMachine(d, t.Fatalf)
		for len(d.left) > 0 {
			m.step(d)
		}
		m.end()
	})
}
