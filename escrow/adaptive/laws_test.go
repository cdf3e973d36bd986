package adaptive

import (
	"container/heap"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

// chat are streams of some ten seconds, as own servers have them.
func chat(length float64) shape {
	return shape{weight: 1, model: "m", stream: true, first: 200 * time.Millisecond, spread: 0.3, speed: 40, length: length}
}

// whole are the same in one piece.
func whole(length float64) shape {
	s := chat(length)
	s.stream = false
	return s
}

// embed are calls of which the whole is the first token.
func embed() shape {
	return shape{weight: 1, model: "e", first: 50 * time.Millisecond, spread: 0.4, speed: 1e9, length: 1, fixed: true}
}

func (s shape) mean() time.Duration {
	return s.first + time.Duration(s.length/s.speed*float64(time.Second))
}

var laws = []Law{Gradient, AIMD}

func limiterOf(law Law) *Limiter { return New(Config{Law: law, Min: 4, Max: 256}) }

// flooded is a server of so many slots that is asked for half as much again as it can.
func flooded(law Law, slots int, s shape) *world {
	var l *Limiter
	if law != Fixed {
		l = limiterOf(law)
	}
	w := newWorld(1, l, slots, 1.5*float64(slots)/s.mean().Seconds(), s)
	w.limit = int64(slots)
	return w
}

// near is the part of all arrivals at which the limit was within a quarter of the knee.
func (w *world) near(knee int) float64 {
	n := 0
	for _, l := range w.limits {
		if math.Abs(l-float64(knee)) <= float64(knee)/4+1 {
			n++
		}
	}
	return float64(n) / float64(len(w.limits))
}

// Under half as much again as a server can do, the limit finds its knee, from 4, and stays
// there: what is done is what the best fixed limit does, and the first token comes as soon.
// Refusals of ours, of a third of all calls, do not lower it: who counts these as overload
// ends at a limit of one and serves half (45 % in the library that was measured).
func TestFindsTheKnee(t *testing.T) {
	for _, c := range []struct {
		name    string
		knee    int
		shape   shape
		settles float64 // within so many lengths of a call
		later   float64 // the first token, at the median, as a multiple
		near    float64 // of the time the limit is near the knee, at least
	}{
		{"streams of 10 s", 32, chat(400), 9, 2, 0.85},
		{"streams of 10 s, knee at 8", 8, chat(400), 9, 2, 0.85},
		{"streams of 10 s, knee at 128", 128, chat(400), 9, 2, 0.85},
		{"streams of 2 s", 32, chat(80), 12, 2, 0.85},
		{"streams of 60 s", 32, chat(2400), 9, 2, 0.85},
		{"whole answers of 10 s", 32, whole(400), 40, 12, 0.75},
		{"embeddings", 16, embed(), 800, 1.5, 0.6},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name != "streams of 2 s" {
				testkit.Long(t, "simulates hours")
			}
			length := c.shape.mean()
			lasts := max(150*length, 15*time.Minute)
			best := flooded(Fixed, c.knee, c.shape)
			best.run(20 * length).reset()
			best.run(lasts)
			t.Logf("%-8s limit %6.1f            goodput %6.2f/s  first token p50 %5.3f p95 %6.3f", Fixed, float64(c.knee), best.goodput(), best.firstToken(.5).Seconds(), best.firstToken(.95).Seconds())
			for _, law := range laws {
				w := flooded(law, c.knee, c.shape)
				settled := 0.0
				for w.limiter.ramping && settled <= 2*c.settles {
					w.run(length / 4)
					settled += 0.25
				}
				w.run(20 * length).reset()
				w.run(lasts)
				t.Logf("%-8s limit %6.1f (%3d…%3d)  goodput %6.2f/s  first token p50 %5.3f p95 %6.3f  settled after %.1f calls, near for %.0f %%", law, w.meanLimit(), w.least, w.most,
					w.goodput(), w.firstToken(.5).Seconds(), w.firstToken(.95).Seconds(), settled, 100*w.near(c.knee))
				if law == AIMD && c.knee == 8 {
					continue // which is a limit up to its tenth above a knee of 8, and one call waits
				}
				if settled > c.settles || w.near(c.knee) < c.near {
					t.Errorf("%s settles after %.1f calls, and is near the knee of %d for %.0f %% of the time", law, settled, c.knee, 100*w.near(c.knee))
				}
				if w.goodput() < 0.9*best.goodput() {
					t.Errorf("%s does %.2f calls a second, and the best fixed limit %.2f", law, w.goodput(), best.goodput())
				}
				if w.turned == 0 {
					t.Error("no call was refused by us")
				}
				if law == Gradient && w.firstToken(.5).Seconds() > c.later*best.firstToken(.5).Seconds() {
					t.Errorf("the first token comes after %v, and after %v at the best fixed limit", w.firstToken(.5), best.firstToken(.5))
				}
			}
		})
	}
}

// The knee halves, and is twice what it was: the limit is there within so many lengths of
// a call.
func TestFollowsTheKnee(t *testing.T) {
	for _, s := range []shape{chat(400), whole(400)} {
		for _, law := range laws {
			w := flooded(law, 32, s)
			w.run(60 * s.mean())
			for _, knee := range []int{16, 64, 32} {
				w.slots = knee
				w.rate = func(time.Duration) float64 { return 1.5 * float64(knee) / s.mean().Seconds() }
				took := 0.0
				for ; took < 100; took += 0.25 {
					w.reset()
					if w.run(s.mean() / 4); w.near(knee) == 1 && took > 0 {
						break
					}
				}
				w.run(10 * s.mean()).reset()
				w.run(60 * s.mean())
				t.Logf("stream %-5v %-8s knee %d: there after %.1f calls, then limit %.1f (%d…%d), goodput %.2f/s of %.2f", s.stream, law, knee, took, w.meanLimit(), w.least, w.most, w.goodput(), float64(knee)/s.mean().Seconds())
				bound := map[Law]float64{Gradient: 40, AIMD: 60}[law]
				if took > bound || w.goodput() < 0.85*float64(knee)/s.mean().Seconds() {
					t.Errorf("stream %v, %s: the knee of %d is found after %.1f calls, and %.2f calls a second are done", s.stream, law, knee, took, w.goodput())
				}
			}
		}
	}
}

// A server that all calls share, faster in all with each more and ever less so, and without
// any queue: as long as it is worth it, the limit grows. A limit that took each longer answer for
// a queue would stay at its least.
func TestSharedServer(t *testing.T) {
	for _, c := range []struct {
		shape
		sharp float64
		least float64 // of what it can do
	}{{whole(400), 4, 0.9}, {whole(40), 4, 0.9}, {whole(400), 2, 0.85}, {whole(40), 2, 0.8}} {
		for _, law := range laws {
			s := c.shape
			w := newWorld(1, limiterOf(law), 0, 100/s.mean().Seconds(), s)
			w.share = func(n int) float64 { return math.Pow(1+math.Pow(float64(n)/32, c.sharp), -1/c.sharp) }
			w.run(100 * s.mean()).reset()
			w.run(100 * s.mean())
			n := w.meanLimit()
			part := n / 32 * w.share(int(n))
			t.Logf("%v tokens, sharp %v, %s: limit %.1f, %.0f %% of what it can do", s.length, c.sharp, law, n, 100*part)
			if part < c.least || n > 128 {
				t.Errorf("%v tokens, sharp %v, %s: at a limit of %.1f it does %.0f %% of what it can", s.length, c.sharp, law, n, 100*part)
			}
		}
	}
}

// For hours: under a flood the limit is where it was after an hour, and where fewer ask than
// could be served it does not move at all.
func TestDoesNotDrift(t *testing.T) {
	testkit.Long(t, "simulates hours of an adaptive limit")
	for _, s := range []shape{chat(400), whole(400)} {
		for _, law := range laws {
			w := flooded(law, 32, s)
			w.run(time.Hour).reset()
			w.run(time.Hour)
			first := w.meanLimit()
			w.run(5 * time.Hour).reset()
			w.run(time.Hour)
			t.Logf("stream %v %s: %.1f in the second hour, %.1f in the eighth", s.stream, law, first, w.meanLimit())
			if r := w.meanLimit() / first; r > 1.1 || r < 0.9 || w.meanLimit() > 1.25*32 {
				t.Errorf("stream %v %s: the limit is %.1f in the second hour and %.1f in the eighth", s.stream, law, first, w.meanLimit())
			}
			w.rate = func(time.Duration) float64 { return 8 / s.mean().Seconds() } // a quarter
			w.run(10 * time.Minute).reset()
			w.run(6 * time.Hour)
			if w.least != w.most {
				t.Errorf("stream %v %s: at a quarter of the knee it moves between %d and %d", s.stream, law, w.least, w.most)
			}
		}
	}
}

// Few calls, a handful a minute, of very different lengths: nothing moves. The next flood
// finds the limit that the last one left.
func TestFewCalls(t *testing.T) {
	for _, law := range laws {
		w := flooded(law, 32, chat(400))
		w.run(20 * time.Minute)
		w.rate = func(time.Duration) float64 { return 6.0 / 60 }
		w.run(30 * time.Minute).reset()
		w.run(12 * time.Hour)
		if w.least != w.most || w.least < 24 {
			t.Errorf("%s: at six calls a minute it moves between %d and %d", law, w.least, w.most)
		}
	}
}

// What kinds of calls there are, and how long their answers, is no overload: fast and slow
// models, short and long prompts and answers, first these and then those.
func TestKindsAndLengths(t *testing.T) {
	fast := shape{weight: 1, model: "fast", stream: true, first: 100 * time.Millisecond, spread: 0.3, speed: 100, length: 500}
	slow := shape{weight: 1, model: "slow", stream: true, first: 3 * time.Second, spread: 0.3, speed: 20, length: 100}
	for _, law := range laws {
		w := newWorld(1, limiterOf(law), 32, 6, fast, slow)
		w.run(30 * time.Minute)
		for i := range 8 {
			w.shapes[0].weight = float64(1 + 9*(i%2))
			w.shapes[1].weight = float64(10 - 9*(i%2))
			w.run(time.Minute).reset()
			w.run(10 * time.Minute)
			if w.near(32) < 0.8 {
				t.Errorf("%s: with %.0f calls of the fast model to %.0f of the slow one the limit is %.1f (%d…%d)", law, w.shapes[0].weight, w.shapes[1].weight, w.meanLimit(), w.least, w.most)
			}
		}

		// Fewer than could be served: nothing waits, so whatever comes, it stays.
		w.rate = func(time.Duration) float64 { return 1.5 }
		w.run(3 * time.Minute).reset()
		for i := range 8 {
			w.shapes[0].weight = float64(1 + 99*(i%2))
			w.shapes[1].weight = float64(100 - 99*(i%2))
			w.run(10 * time.Minute)
		}
		if w.least < 24 {
			t.Errorf("%s: slow models beside fast ones lower it to %d", law, w.least)
		}

		w = flooded(law, 32, chat(80))
		w.run(5 * time.Minute)
		for _, length := range []float64{2000, 80, 800} {
			w.shapes[0].length = length
			w.run(3 * w.shapes[0].mean()).reset()
			w.run(40 * w.shapes[0].mean())
			if w.near(32) < 0.8 {
				t.Errorf("%s: with answers of %.0f tokens it is %.1f (%d…%d)", law, length, w.meanLimit(), w.least, w.most)
			}
		}
	}
}

// The whole server becomes half as fast, for good: for a while that is taken for a queue, and then
// learned. Without that the limit stays at its least.
func TestSlowerForGood(t *testing.T) {
	for _, law := range laws {
		w := flooded(law, 32, whole(400))
		w.run(10 * time.Minute)
		w.shapes[0].speed = 20
		w.shapes[0].first = 400 * time.Millisecond
		length := w.shapes[0].mean()
		w.run(60 * length).reset()
		w.run(60 * length)
		t.Logf("%s: limit %.1f (%d…%d)", law, w.meanLimit(), w.least, w.most)
		if w.near(32) < 0.8 {
			t.Errorf("%s: the limit is %.1f (%d…%d)", law, w.meanLimit(), w.least, w.most)
		}
	}
}

// A server that refuses what it has no slot for is not asked for much more than it has.
func TestRefusingServer(t *testing.T) {
	for _, law := range laws {
		w := flooded(law, 32, chat(400))
		w.refuses = 1
		w.run(10 * time.Minute).reset()
		w.run(30 * time.Minute)
		sent := float64(w.done + w.refused)
		t.Logf("%s: limit %.1f (%d…%d), goodput %.2f/s, refused %.1f %%", law, w.meanLimit(), w.least, w.most, w.goodput(), 100*float64(w.refused)/sent)
		if w.near(32) < 0.8 || w.goodput() < 0.85*32/10.2 || float64(w.refused) > 0.05*sent {
			t.Errorf("%s: the limit is %.1f, %.2f calls a second are done, and %d of %.0f are refused", law, w.meanLimit(), w.goodput(), w.refused, sent)
		}
	}
}

// A pool of many models, each asked for with prompts of many sizes, finds its knee as soon, though few
// kinds are known then, and most never. Without a base for those it takes 20 lengths of a call with 10 kinds,
// 215 with 150, and stays at 4 with 400.
func TestManyKinds(t *testing.T) {
	testkit.Long(t, "simulates hours of an adaptive limit")
	for _, law := range laws {
		for _, kinds := range []int{10, 150, 400} {
			var shapes []shape
			for i := range kinds {
				s := chat(80)
				s.model = fmt.Sprint(i)
				s.first = time.Duration(i%20+2) * 50 * time.Millisecond
				shapes = append(shapes, s)
			}
			w := newWorld(1, limiterOf(law), 32, 1.5*32/shapes[0].mean().Seconds(), shapes...)
			w.run(20 * shapes[0].mean()).reset()
			w.run(30 * time.Minute)
			t.Logf("%s, %d kinds: limit %.1f (%d…%d), near for %.0f %%", law, kinds, w.meanLimit(), w.least, w.most, 100*w.near(32))
			if w.least < 12 || w.near(32) < 0.8 {
				t.Errorf("%s: with %d kinds of calls the limit is %.1f (%d…%d)", law, kinds, w.meanLimit(), w.least, w.most)
			}
		}
	}
}

// Refusals that come now and then, whatever runs, are none of the limit's doing: who takes each
// for a sign serves a sixth of what the server can do where one in a hundred is refused.
func TestRefusalsNowAndThen(t *testing.T) {
	for _, law := range laws {
		w := flooded(law, 128, chat(80))
		w.odd = 100
		w.run(5 * time.Minute).reset()
		w.run(15 * time.Minute)
		t.Logf("%s: limit %.1f (%d…%d), goodput %.1f/s, refused %d of %d", law, w.meanLimit(), w.least, w.most, w.goodput(), w.refused, w.done)
		if best := 128 / chat(80).mean().Seconds(); w.goodput() < 0.9*best || w.refused == 0 {
			t.Errorf("%s does %.1f calls a second of %.1f, with one in 100 refused", law, w.goodput(), best)
		}
	}
}

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
