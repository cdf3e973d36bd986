package adaptive

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// world is a server behind a limit, in virtual time: calls come, wait for the limit, and
// then for one of the server's slots, in which they run.
type world struct {
	rand   *rand.Rand
	now    time.Time
	agenda agenda
	order  int

	limiter *Limiter // nil has the limit fixed
	limit   int64
	rate    func(at time.Duration) float64 // of arrivals, a second
	shapes  []shape
	odd     int // one in so many calls is refused, whatever runs; 0 none
	refuses int // the server refuses calls beyond slots and so many that wait; 0 never

	slots   int // of the server
	running int // in them
	queue   []*job
	flying  int64
	sent    int
	held    []*job // by the limit
	turned  int    // by a full line before the limit

	// What came of it since reset.
	share  func(n int) float64 // how fast each of n calls is, where all are served at once
	served float64             // seconds, of each that runs since the start
	upTo   time.Time           // as of then
	marks  marks
	turn   int

	since   time.Time
	done    int
	tokens  float64
	refused int
	firsts  []float64 // seconds from being sent to the first token
	limits  []float64 // at each arrival
	least   int64
	most    int64
}

// shape is a kind of call.
type shape struct {
	weight float64
	model  string
	stream bool
	first  time.Duration // to the first token, at rest
	spread float64       // of that: the sigma of a lognormal
	speed  float64       // tokens a second
	length float64       // mean tokens of the answer
	fixed  bool          // all are that long; else lognormal
}

type job struct {
	*shape
	sent    time.Time
	running int64
	full    bool
	first   time.Duration
	tokens  float64
}

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func newWorld(seed uint64, l *Limiter, slots int, rate float64, shapes ...shape) *world {
	w := &world{
		rand: rand.New(rand.NewPCG(seed, 1)), now: start, since: start, limiter: l, slots: slots, shapes: shapes,
		rate: func(time.Duration) float64 { return rate },
	}
	w.reset()
	w.after(0, w.arrive)
	return w
}

func (w *world) reset() {
	w.since = w.now
	w.done = 0
	w.tokens = 0
	w.refused = 0
	w.turned = 0
	w.firsts = nil
	w.limits = nil
	w.least = math.MaxInt64
	w.most = 0
}

func (w *world) after(d time.Duration, f func()) {
	w.order++
	heap.Push(&w.agenda, event{w.now.Add(d), w.order, f})
}

// run lets time pass.
func (w *world) run(d time.Duration) *world {
	end := w.now.Add(d)
	for len(w.agenda) > 0 && !w.agenda[0].at.After(end) {
		e := heap.Pop(&w.agenda).(event)
		w.now = e.at
		e.f()
	}
	w.now = end
	return w
}

func (w *world) allowed() int64 {
	if w.limiter == nil {
		return w.limit
	}
	return w.limiter.Limit()
}

func (w *world) arrive() {
	if rate := w.rate(w.now.Sub(start)); rate > 0 {
		w.after(time.Duration(w.rand.ExpFloat64()/rate*float64(time.Second)), w.arrive)
	} else {
		w.after(time.Second, w.arrive)
		return
	}
	w.limits = append(w.limits, float64(w.allowed()))
	w.least, w.most = min(w.least, w.allowed()), max(w.most, w.allowed())
	if len(w.held) >= 200 {
		w.turned++ // a refusal of ours, of which the limiter is not told
	} else {
		w.held = append(w.held, w.draw())
	}
	w.pump()
}

func (w *world) draw() *job {
	sum := 0.0
	for _, s := range w.shapes {
		sum += s.weight
	}
	x := w.rand.Float64() * sum
	for i := range w.shapes {
		s := &w.shapes[i]
		x -= s.weight
		if x > 0 && i < len(w.shapes)-1 {
			continue
		}
		j := &job{shape: s, tokens: s.length}
		if !s.fixed {
			j.tokens = math.Ceil(s.length * math.Exp(0.8*w.rand.NormFloat64()-0.32))
		}
		j.first = time.Duration(float64(s.first) * math.Exp(s.spread*w.rand.NormFloat64()-s.spread*s.spread/2))
		return j
	}
	panic("nobody")
}

// pump sends what the limit lets go.
func (w *world) pump() {
	for len(w.held) > 0 && w.flying < w.allowed() {
		j := w.held[0]
		w.held = w.held[1:]
		w.flying++
		j.sent, j.running, j.full = w.now, w.flying, w.flying >= w.allowed()
		w.sent++
		if w.odd > 0 && w.sent%w.odd == 0 || w.refuses > 0 && w.running >= w.slots && len(w.queue) >= w.refuses {
			w.refused++
			w.after(5*time.Millisecond, func() {
				w.flying--
				if w.limiter != nil {
					w.limiter.Overloaded(w.now, j.sent)
				}
				w.pump()
			})
			continue
		}
		if w.share != nil {
			w.begin(j)
			continue
		}
		w.queue = append(w.queue, j)
	}
	w.serve()
}

// begin serves a call beside all others.
func (w *world) begin(j *job) {
	w.elapse()
	w.running++
	heap.Push(&w.marks, mark{w.served + j.first.Seconds(), func() { w.first(j) }})
	heap.Push(&w.marks, mark{w.served + j.first.Seconds() + j.tokens/j.speed, func() { w.end(j) }})
	w.wake()
}

// elapse serves those that run until now.
func (w *world) elapse() {
	if w.running > 0 {
		w.served += w.now.Sub(w.upTo).Seconds() * w.share(w.running)
	}
	w.upTo = w.now
}

// wake looks again when the next of them has come so far.
func (w *world) wake() {
	w.turn++
	turn := w.turn
	if len(w.marks) == 0 {
		return
	}
	w.after(time.Duration(math.Ceil(max(0, w.marks[0].at-w.served)/w.share(w.running)*1e9)), func() {
		if turn != w.turn {
			return
		}
		w.elapse()
		for len(w.marks) > 0 && w.marks[0].at <= w.served {
			heap.Pop(&w.marks).(mark).f()
		}
		w.wake()
	})
}

type mark struct {
	at float64
	f  func()
}

type marks []mark

func (m marks) Len() int           { return len(m) }
func (m marks) Less(i, j int) bool { return m[i].at < m[j].at }
func (m marks) Swap(i, j int)      { m[i], m[j] = m[j], m[i] }
func (m *marks) Push(x any)        { *m = append(*m, x.(mark)) }
func (m *marks) Pop() any {
	last := len(*m) - 1
	x := (*m)[last]
	*m = (*m)[:last]
	return x
}

// serve starts what the server has slots for.
func (w *world) serve() {
	for w.running < w.slots && len(w.queue) > 0 {
		j := w.queue[0]
		w.queue = w.queue[1:]
		w.running++
		w.after(j.first, func() { w.first(j) })
		w.after(j.first+time.Duration(j.tokens/j.speed*float64(time.Second)), func() { w.end(j) })
	}
}

func (w *world) first(j *job) {
	w.firsts = append(w.firsts, w.now.Sub(j.sent).Seconds())
	if j.stream {
		w.observe(j, 100)
	}
}

func (w *world) end(j *job) {
	w.running--
	w.flying--
	w.done++
	w.tokens += j.tokens
	if w.limiter != nil {
		if !j.stream {
			w.observe(j, int64(j.tokens))
		}
		w.limiter.Ended(w.now.Sub(j.sent))
	}
	w.pump()
}

func (w *world) observe(j *job, size int64) {
	if w.limiter != nil {
		w.limiter.Observe(w.now, Sample{Kind: Kind{j.model, j.stream, size}, Began: j.sent, Running: j.running, Full: j.full, Latency: w.now.Sub(j.sent)})
		w.pump()
	}
}

// goodput is in calls a second.
func (w *world) goodput() float64 { return float64(w.done) / w.now.Sub(w.since).Seconds() }

func (w *world) meanLimit() float64 {
	sum := 0.0
	for _, l := range w.limits {
		sum += l
	}
	return sum / float64(len(w.limits))
}

// firstToken is a quantile of the time to the first token, from being sent.
func (w *world) firstToken(q float64) time.Duration {
	if len(w.firsts) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(w.firsts))
	return time.Duration(sorted[int(q*float64(len(sorted)-1))] * float64(time.Second))
}

type event struct {
	at    time.Time
	order int
	f     func()
}

type agenda []event

func (a agenda) Len() int { return len(a) }
func (a agenda) Less(i, j int) bool {
	return a[i].at.Before(a[j].at) || a[i].at.Equal(a[j].at) && a[i].order < a[j].order
}
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *agenda) Push(x any)   { *a = append(*a, x.(event)) }
func (a *agenda) Pop() any {
	last := len(*a) - 1
	e := (*a)[last]
	*a = (*a)[:last]
	return e
}
