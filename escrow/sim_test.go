package escrow

import (
	"math/rand/v2"
	"testing"
	"time"
)

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
		w.p.Settle(w.now, h, Cost{took, 1})
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
	c.Most = Cost{s.cost, 1}
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
			w.p.Settle(w.now, e.h, Cost{e.took, 1})
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
