package adaptive

import (
	"cmp"
	"container/heap"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/testkit"
)

// together is several gateways in front of one server, each with a limiter that sees its own calls
// alone. With fleet they have one limit instead: each limiter looks for what all could have at
// once, as of the last beat; the median of what they found holds, by how many calls each of them
// runs, and those who are not held by it take it over. It is split by who asks.
type together struct {
	rand   *rand.Rand
	now    time.Time
	agenda agenda
	order  int
	slots  int // of the server
	busy   int
	queue  []*sent
	gates  []*gate
	fleet  bool

	since  time.Time
	done   int
	firsts []float64
	atOnce float64 // slot-seconds since
	upTo   time.Time
}

// gate is a gateway, and what it told last.
type gate struct {
	limiter *Limiter
	rate    float64
	waiting int
	flying  int64
	lacking bool    // a call found no slot since the last beat
	had     float64 // slot-seconds

	others, part       int64 // as it heard last
	told, wants, guess int64
}

type sent struct {
	*gate
	at      time.Time
	running int64
	full    bool
}

func newTogether(fleet bool, law Law, slots int, rates ...float64) *together {
	w := &together{rand: rand.New(rand.NewPCG(11, 1)), now: start, upTo: start, since: start, slots: slots, fleet: fleet}
	for i, rate := range rates {
		g := &gate{limiter: New(Config{Law: law, Min: 4, Max: 256}), rate: rate, part: 4}
		w.gates = append(w.gates, g)
		w.after(0, func() { w.arrive(g) })
		w.after(time.Duration(i+1)*100*time.Millisecond, func() { w.beat(g) })
	}
	return w
}

func (w *together) after(d time.Duration, f func()) {
	w.order++
	heap.Push(&w.agenda, event{w.now.Add(d), w.order, f})
}

func (w *together) run(d time.Duration) {
	end := w.now.Add(d)
	for len(w.agenda) > 0 && !w.agenda[0].at.After(end) {
		e := heap.Pop(&w.agenda).(event)
		w.elapse(e.at)
		e.f()
	}
	w.elapse(end)
}

func (w *together) elapse(to time.Time) {
	dt := to.Sub(w.upTo).Seconds()
	for _, g := range w.gates {
		g.had += dt * float64(g.flying)
		w.atOnce += dt * float64(g.flying)
	}
	w.now = to
	w.upTo = to
}

func (w *together) reset() {
	w.since = w.now
	w.done = 0
	w.firsts = nil
	w.atOnce = 0
	for _, g := range w.gates {
		g.had = 0
	}
}

// beat tells the store of a gateway, and the gateway what follows.
func (w *together) beat(g *gate) {
	w.after(time.Second, func() { w.beat(g) })
	g.told, g.wants, g.guess = g.flying, g.flying+int64(g.waiting)+2, g.limiter.Limit()
	limit := w.median()
	g.others = 0
	hungry := int64(1)
	left := limit
	for _, o := range w.gates {
		if o == g {
			continue
		}
		g.others += o.told
		if o.wants > limit/int64(len(w.gates)) {
			hungry++
		} else {
			left -= o.wants
		}
	}
	g.part = max(1, min(g.wants, left/hungry))
	if !g.lacking {
		g.limiter.set(float64(limit))
	}
	g.lacking = g.waiting > 0
	w.pump(g)
}

// median is the lower one, by calls.
func (w *together) median() int64 {
	list := slices.Clone(w.gates)
	all := int64(0)
	slices.SortFunc(list, func(a, b *gate) int { return cmp.Compare(a.guess, b.guess) })
	for _, g := range list {
		all += max(1, g.told)
	}
	below := int64(0)
	for _, g := range list {
		below += max(1, g.told)
		if 2*below >= all && g.guess > 0 {
			return g.guess
		}
	}
	panic("nobody has told")
}

func (w *together) arrive(g *gate) {
	if g.rate <= 0 {
		w.after(time.Second, func() { w.arrive(g) })
		return
	}
	w.after(time.Duration(w.rand.ExpFloat64()/g.rate*float64(time.Second)), func() { w.arrive(g) })
	g.waiting = min(g.waiting+1, 100)
	w.pump(g)
}

// allowed is how many calls may run at a gateway.
func (w *together) allowed(g *gate) int64 {
	if w.fleet {
		return g.part
	}
	return g.limiter.Limit()
}

func (w *together) pump(g *gate) {
	for g.waiting > 0 && g.flying < w.allowed(g) {
		g.waiting--
		g.flying++
		s := &sent{gate: g, at: w.now, running: g.flying, full: g.flying >= w.allowed(g)}
		if w.fleet {
			s.running += g.others
		}
		w.queue = append(w.queue, s)
	}
	g.lacking = g.lacking || g.waiting > 0
	for w.busy < w.slots && len(w.queue) > 0 {
		s := w.queue[0]
		w.queue = w.queue[1:]
		w.busy++
		first := time.Duration(300 * float64(time.Millisecond) * math.Exp(0.1*w.rand.NormFloat64()))
		w.after(first, func() {
			w.firsts = append(w.firsts, w.now.Sub(s.at).Seconds())
			s.limiter.Observe(w.now, Sample{Kind: Kind{"m", true, 100}, Began: s.at, Running: s.running, Full: s.full, Latency: w.now.Sub(s.at)})
			w.pump(s.gate)
		})
		length := 200 * math.Exp(0.8*w.rand.NormFloat64()-0.32)
		w.after(first+time.Duration(length/50*float64(time.Second)), func() {
			w.busy--
			s.flying--
			w.done++
			s.limiter.Ended(w.now.Sub(s.at))
			for _, o := range w.gates {
				w.pump(o)
			}
		})
	}
}

// TestTogether: limiters that see their own calls alone stay at a server's knee together, as long as
// each has some ten calls of it; with fewer they wait upstream. With one limit for all, the median of
// what they find, nothing waits, but less is used: a limiter that lets calls rest, to see what
// latency is there, is heard of by the others only with the next beat, if at all.
func TestTogether(t *testing.T) {
	testkit.Long(t, "simulates hours of an adaptive limit")
	const knee, asked = 48, 40.0 // and so many calls a second, of 11 that it serves
	for _, law := range []Law{Gradient, AIMD} {
		for _, n := range []int{1, 2, 4, 8} {
			for _, fleet := range []bool{false, true} {
				rates := make([]float64, n) // half of them begin later
				for i := range n / 2 {
					rates[i] = asked / float64(n)
				}
				w := newTogether(fleet, law, knee, rates...)
				w.run(4 * time.Minute)
				for _, g := range w.gates {
					g.rate = asked / float64(n)
				}
				w.run(4 * time.Minute)
				w.reset()
				w.run(20 * time.Minute)
				secs := w.now.Sub(w.since).Seconds()
				slices.Sort(w.firsts)
				atOnce := w.atOnce / secs / knee
				served := float64(w.done) / secs
				least := math.Inf(1)
				most := 0.0
				for _, g := range w.gates {
					least = min(least, g.had/secs)
					most = max(most, g.had/secs)
				}
				t.Logf("%-8v %d gateways, one limit: %-5v %3.0f %% of the knee at once, %.1f served a second, first tokens after %.2f s, one in twenty after %.2f s, each had %.1f to %.1f",
					law, n, fleet, 100*atOnce, served, w.firsts[len(w.firsts)/2], w.firsts[len(w.firsts)*95/100], least, most)
				if !fleet && n <= 4 && (atOnce < 0.94 || atOnce > 1.15 || served < 10.5) {
					t.Errorf("%v: %d gateways have %.0f %% of the knee at once, and are served %.1f a second", law, n, 100*atOnce, served)
				}
			}
		}
	}
}
