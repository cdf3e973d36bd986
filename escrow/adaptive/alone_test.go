package adaptive

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/testkit"
)

// together is several gateways in front of one server, each with a limiter that sees its own calls
// alone, as where they share no store.
type together struct {
	rand   *rand.Rand
	now    time.Time
	agenda agenda
	order  int
	slots  int // of the server
	busy   int
	queue  []*sent
	gates  []*gate

	since  time.Time
	done   int
	firsts []float64
	atOnce float64 // slot-seconds since
	upTo   time.Time
}

// gate is a gateway.
type gate struct {
	limiter *Limiter
	rate    float64
	waiting int
	flying  int64
	had     float64 // slot-seconds
}

type sent struct {
	*gate
	at      time.Time
	running int64
	full    bool
}

func newTogether(law Law, slots int, rates ...float64) *together {
	w := &together{rand: rand.New(rand.NewPCG(11, 1)), now: start, upTo: start, since: start, slots: slots}
	for _, rate := range rates {
		g := &gate{limiter: New(Config{Law: law, Min: 4, Max: 256}), rate: rate}
		w.gates = append(w.gates, g)
		w.after(0, func() { w.arrive(g) })
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

func (w *together) arrive(g *gate) {
	if g.rate <= 0 {
		w.after(time.Second, func() { w.arrive(g) })
		return
	}
	w.after(time.Duration(w.rand.ExpFloat64()/g.rate*float64(time.Second)), func() { w.arrive(g) })
	g.waiting = min(g.waiting+1, 100)
	w.pump(g)
}

func (w *together) pump(g *gate) {
	for g.waiting > 0 && g.flying < g.limiter.Limit() {
		g.waiting--
		g.flying++
		s := &sent{gate: g, at: w.now, running: g.flying, full: g.flying >= g.limiter.Limit()}
		w.queue = append(w.queue, s)
	}
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
// each has some ten calls of it; with fewer they wait upstream.
func TestTogether(t *testing.T) {
	testkit.Long(t, "simulates hours of an adaptive limit")
	const knee, asked = 48, 40.0 // and so many calls a second, of 11 that it serves
	for _, law := range []Law{Gradient, AIMD} {
		for _, n := range []int{1, 2, 4, 8} {
			rates := make([]float64, n) // half of them begin later
			for i := range n / 2 {
				rates[i] = asked / float64(n)
			}
			w := newTogether(law, knee, rates...)
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
			t.Logf("%-8v %d gateways: %3.0f %% of the knee at once, %.1f served a second, first tokens after %.2f s, one in twenty after %.2f s, each had %.1f to %.1f",
				law, n, 100*atOnce, served, w.firsts[len(w.firsts)/2], w.firsts[len(w.firsts)*95/100], least, most)
			if n <= 4 && (atOnce < 0.94 || atOnce > 1.15 || served < 10.5) {
				t.Errorf("%v: %d gateways have %.0f %% of the knee at once, and are served %.1f a second", law, n, 100*atOnce, served)
			}
		}
	}
}
