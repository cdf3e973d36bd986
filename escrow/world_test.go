package escrow

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// world drives a Pool in virtual time, 10 ms a step: open-loop tenants offer
// Poisson arrivals, backlogged ones keep workers waiting.
type world struct {
	t    *testing.T
	pool *Pool
	rng  *rand.Rand
	now  time.Time

	tenants []*player
	byEntry map[Handle]call
	log     []admission
	refused int
}

type player struct {
	leaf    NodeID
	cost    func(*rand.Rand) int64
	rate    float64 // calls a second, open loop
	workers int     // closed loop
	waiting int
	actual  func(declared int64) int64 // what a call takes in truth; nil: what it declares
}

type call struct {
	tenant int
	cost   int64
	since  time.Time
}

type admission struct {
	at     time.Time
	tenant int
	cost   int64
	wait   time.Duration
}

const step = 10 * time.Millisecond

func newWorld(t *testing.T, seed uint64, cfg Config, weights ...Weight) *world {
	w := &world{t: t, pool: New(t0, cfg), rng: rand.New(rand.NewPCG(seed, 1)), now: t0, byEntry: map[Handle]call{}}
	for _, weight := range weights {
		w.tenants = append(w.tenants, &player{leaf: w.pool.Add(Root, Node{Weight: weight}), cost: lognormal(w.rng, 1000, 8000)})
	}
	return w
}

// lognormal draws call sizes of the given mean with σ = 0.8, cut at max.
func lognormal(_ *rand.Rand, mean, most float64) func(*rand.Rand) int64 {
	return func(r *rand.Rand) int64 {
		x := mean * exp(0.8*r.NormFloat64()-0.32)
		return int64(min(most, max(10, x)))
	}
}

func (w *world) offer(i int, maxWait time.Duration) {
	p := w.tenants[i]
	c := p.cost(w.rng)
	h, ans := w.pool.Offer(w.now, Call{Leaf: p.leaf, Most: Cost{c, 1}, MaxWait: maxWait})
	switch ans.Verdict {
	case Admitted:
		w.admit(h, call{i, c, w.now})
	case Queued:
		w.byEntry[h] = call{i, c, w.now}
		p.waiting++
	default:
		w.refused++
	}
	w.pump()
}

func (w *world) pump() {
	for _, h := range w.pool.Pump(w.now, nil) {
		c := w.byEntry[h]
		delete(w.byEntry, h)
		w.tenants[c.tenant].waiting--
		w.admit(h, c)
	}
}

func (w *world) admit(h Handle, c call) {
	actual := c.cost
	if f := w.tenants[c.tenant].actual; f != nil {
		actual = f(c.cost)
	}
	w.log = append(w.log, admission{w.now, c.tenant, actual, w.now.Sub(c.since)})
	if !w.pool.Settle(w.now, h, Cost{actual, 1}) {
		w.t.Fatal("a running call could not be settled")
	}
}

// run advances by d.
func (w *world) run(d time.Duration) {
	for end := w.now.Add(d); w.now.Before(end); w.now = w.now.Add(step) {
		w.pump()
		for i, p := range w.tenants {
			for p.waiting < p.workers {
				before := len(w.log)
				w.offer(i, time.Hour)
				if len(w.log) > before+200 {
					break
				}
			}
			if p.rate > 0 {
				for n := poisson(w.rng, p.rate*step.Seconds()); n > 0; n-- {
					w.offer(i, time.Hour)
				}
			}
		}
	}
	if err := w.pool.Check(); err != nil {
		w.t.Fatal(err)
	}
}

// received sums by tenant what was admitted from a time on.
func (w *world) received(from time.Time) []float64 {
	sum := make([]float64, len(w.tenants))
	for _, a := range w.log {
		if !a.at.Before(from) {
			sum[a.tenant] += float64(a.cost)
		}
	}
	return sum
}

// rollingMax is the largest sum of admitted tokens in any Window, from t0 on.
func (w *world) rollingMax() int64 {
	return rollingMax(w.log, func(a admission) use { return use{a.at, a.cost} })
}

// use is the cost of a call, at the time at which it was used.
type use struct {
	at   time.Time
	cost int64
}

// rollingMax is the largest sum of a log's costs in any Window.
func rollingMax[T any](log []T, of func(T) use) int64 {
	most := int64(0)
	sum := int64(0)
	first := 0
	for _, entry := range log {
		x := of(entry)
		sum += x.cost
		for x.at.Sub(of(log[first]).at) >= Window {
			sum -= of(log[first]).cost
			first++
		}
		most = max(most, sum)
	}
	return most
}

func (w *world) waits(from time.Time) []time.Duration {
	var d []time.Duration
	for _, a := range w.log {
		if !a.at.Before(from) {
			d = append(d, a.wait)
		}
	}
	slices.Sort(d)
	return d
}

// sim drives a Pool in virtual time. Its sources keep calls waiting, or offer them
// at a steady rate.
type sim struct {
	t       testing.TB
	p       *Pool
	now     time.Time
	dt      time.Duration
	rng     *rand.Rand
	sources []*source
	of      map[Handle]waiter
	ends    []ending
}

type source struct {
	leaf    NodeID
	keep    int     // calls that it keeps waiting
	rate    float64 // calls a second that it offers
	cost    int64
	most    Cost                 // of a call; zero is cost and one request
	call    Call                 // Leaf, Most and MaxWait are filled in
	took    func(int64) int64    // what a call really takes; nil: its cost
	run     func() time.Duration // how long it runs; nil: it ends at once
	owed    float64
	waiting int

	got   int64         // tokens
	calls int           // dispatched
	slots time.Duration // for which calls ran
	first time.Time     // when the first was dispatched since reset
	worst time.Duration // the longest wait
	open  int           // running
}

// shaped is the cost of a call of so many tokens.
func (s *source) shaped(tokens int64) Cost {
	if s.most != (Cost{}) {
		return s.most
	}
	return Cost{tokens, 1}
}

type waiter struct {
	s     *source
	since time.Time
}

type ending struct {
	h     Handle
	s     *source
	at    time.Time
	since time.Time
	took  int64
}

func newSim(t testing.TB, seed uint64, cfg Config) *sim {
	if cfg.MaxQueue == 0 {
		cfg.MaxQueue = 1 << 20
	}
	return &sim{t: t, p: New(t0, cfg), now: t0, dt: 10 * time.Millisecond, rng: rand.New(rand.NewPCG(seed, 3)), of: map[Handle]waiter{}}
}

// leaf adds a leaf and a source of calls of so many tokens.
func (w *sim) leaf(parent NodeID, n Node, cost int64) *source {
	s := &source{leaf: w.p.Add(parent, n), cost: cost}
	w.sources = append(w.sources, s)
	return s
}

// lognormal draws run times of a mean, with σ = 1.
func (w *sim) lognormal(mean time.Duration) func() time.Duration {
	return func() time.Duration {
		return time.Duration(min(10, exp(w.rng.NormFloat64()-0.5)) * float64(mean))
	}
}

func (w *sim) begin(h Handle, s *source, since time.Time) {
	took := s.cost
	if s.took != nil {
		took = s.took(s.cost)
	}
	s.got += took
	s.calls++
	if s.first.IsZero() {
		s.first = w.now
	}
	s.worst = max(s.worst, w.now.Sub(since))
	if s.run == nil {
		w.p.Settle(w.now, h, s.shaped(took))
		return
	}
	s.open++
	w.ends = append(w.ends, ending{h, s, w.now.Add(s.run()), w.now, took})
}

func (w *sim) pump() {
	for {
		out := w.p.Pump(w.now, nil)
		for _, h := range out {
			x := w.of[h]
			delete(w.of, h)
			x.s.waiting--
			w.begin(h, x.s, x.since)
		}
		if len(out) == 0 {
			return
		}
	}
}

func (w *sim) offer(s *source) Answer {
	c := s.call
	c.Leaf = s.leaf
	c.Most = s.shaped(s.cost)
	if c.MaxWait == 0 {
		c.MaxWait = 1000 * time.Hour
	}
	h, ans := w.p.Offer(w.now, c)
	switch ans.Verdict {
	case Admitted:
		w.begin(h, s, w.now)
	case Queued:
		w.of[h] = waiter{s, w.now}
		s.waiting++
	}
	w.pump()
	return ans
}

// run advances by d.
func (w *sim) run(d time.Duration) {
	for end := w.now.Add(d); w.now.Before(end); w.now = w.now.Add(w.dt) {
		still := w.ends[:0]
		for _, e := range w.ends {
			if w.now.Before(e.at) {
				still = append(still, e)
				continue
			}
			w.p.Settle(w.now, e.h, e.s.shaped(e.took))
			e.s.slots += w.now.Sub(e.since)
			e.s.open--
		}
		w.ends = still
		w.pump()
		for _, s := range w.sources {
			for n := 0; s.waiting < s.keep && n < 1000; n++ {
				w.offer(s)
			}
			for s.owed += s.rate * w.dt.Seconds(); s.owed >= 1; s.owed-- {
				w.offer(s)
			}
		}
	}
	if err := w.p.Check(); err != nil {
		w.t.Fatal(err)
	}
}

// stop withdraws what a source has waiting.
func (w *sim) stop(s *source) {
	s.keep = 0
	s.rate = 0
	for h, x := range w.of {
		if x.s == s {
			w.p.Cancel(w.now, h)
			delete(w.of, h)
			s.waiting--
		}
	}
	w.pump()
}

// reset forgets what was counted.
func (w *sim) reset() {
	for _, s := range w.sources {
		s.got = 0
		s.calls = 0
		s.slots = 0
		s.worst = 0
		s.first = time.Time{}
	}
}
