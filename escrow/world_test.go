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
