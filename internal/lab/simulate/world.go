package simulate

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/lab/simulate/scenario"
)

// gate is an admission as the event loop sees it: the governor, or what there would be without it.
type gate interface {
	// ask asks for a call. The decision is told to world.decide, at once or later.
	ask(c *call)
	// end ends a call that was admitted; whole says that it came to its own end.
	end(c *call, taken int64, whole bool)
	Check() error
}

// epoch is when every run begins, on no clock at all.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Manners of callers.
const (
	// A worker asks again this long after it was served.
	thinkLeast = 10 * time.Millisecond
	thinkMost  = 50 * time.Millisecond
	// A worker that waits does so for as long as its phase lasts, and does not say
	// how long that is.
	workerWait = time.Hour
	// The workers of a phase begin within this time of each other.
	workersStart = 200 * time.Millisecond
	// Callers that are refused without being told when to return.
	backoffFirst = 250 * time.Millisecond
	backoffMost  = 4 * time.Second
	// SDKs come back so often, at first after so long; when they are told to, if that is no later than so.
	sdkRetries = 2
	sdkFirst   = 500 * time.Millisecond
	sdkObeys   = time.Minute
	// Callers that are told return this much later.
	lateLeast = 5 * time.Millisecond
	lateMost  = 35 * time.Millisecond
	// A running stream reports this often.
	beatEvery = 250 * time.Millisecond
	// Workers of a process that is gone come to another this much later.
	goneLeast = time.Second
	goneMost  = 2 * time.Second
)

// world is one run: the traffic of a plan, offered to a gate in virtual time.
type world struct {
	*plan
	sites  []*site
	store  *store // that several sites share; nil for one
	server server
	leafs  []caller // by leaf
	models []string // by class, from -1 on
	talks  uint64   // so many were begun
	caches []cache  // of upstreams
	cuts   []governor.Cut

	agenda  agenda
	now     time.Duration
	decided []*call // since the last hear
	trace   Trace
}

// caller is one leaf's random streams.
type caller struct{ arrivals, manners, places *rand.Rand }

// newWorld is a run that has not begun. admit makes the admission of a single process.
func newWorld(p *plan, admit func(*world) gate) *world {
	w := &world{plan: p, models: modelsOf(p.tree)}
	for _, c := range p.slots {
		w.agenda.plan(task{at: c.from, step: resize, knee: c.slots})
	}
	if len(p.Nodes) == 0 {
		w.sites = []*site{{gate: admit(w)}}
		w.caches = make([]cache, len(p.Pool.Upstreams))
		if len(p.losses) > 0 {
			w.sites[0].calls = map[int32]*call{}
		}
		for i, l := range p.losses {
			w.agenda.plan(task{at: l.from, step: lose, loss: int32(i)})
		}
	} else {
		w.federate()
	}
	for leaf, phases := range p.phases {
		w.leafs = append(w.leafs, caller{
			arrivals: randomStream(p.seed, leaf, streamArrivals),
			manners:  randomStream(p.seed, leaf, streamManners),
			places:   randomStream(p.seed, leaf, streamPlaces),
		})
		for i := range phases {
			w.begin(leaf, i)
		}
	}
	return w
}

// begin plans the first requests of a phase.
func (w *world) begin(leaf, phase int) {
	ph := &w.phases[leaf][phase]
	t := task{leaf: int32(leaf), phase: int32(phase)}
	switch ph.Kind {
	case scenario.Open, scenario.Recorded:
		w.arriveNext(t, ph.from)
	case scenario.Backlogged:
		t.step = ask
		for range ph.Workers {
			t.at = ph.from + between(w.leafs[leaf].manners, 0, workersStart)
			w.agenda.plan(t)
		}
	}
}

// arriveNext plans the call of a task's row, or the next request of an open load after a time.
func (w *world) arriveNext(t task, after time.Duration) {
	ph := &w.phases[t.leaf][t.phase]
	t.step = arrive
	if ph.Kind == scenario.Recorded {
		if int(t.row) == len(ph.Calls) {
			return
		}
		t.at = ph.Calls[t.row].At
	} else {
		per := perSecond(&ph.Load, w.average[t.leaf])
		t.at = after + time.Duration(w.leafs[t.leaf].arrivals.ExpFloat64()/per*float64(time.Second))
	}
	w.agenda.plan(t)
}

// run plays the whole scenario. done is called now and then with the time that
// has passed; check, when it is positive, is how many tasks lie between two
// looks at the pool's own books.
func (w *world) run(ctx context.Context, check int, done func(time.Duration)) error {
	const often = 4096
	for n := 0; ; n++ {
		t, ok := w.agenda.next()
		if !ok || t.at >= w.Duration {
			return w.check()
		}
		w.now = t.at
		w.do(t)
		w.hear()
		if n%often == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
			done(w.now)
		}
		if check > 0 && n%check == 0 {
			if err := w.check(); err != nil {
				return err
			}
			w.hear() // of what a look at the books let go on
		}
	}
}

func (w *world) check() error {
	for _, s := range w.sites {
		if s.gate == nil { // it is down
			continue
		}
		if err := s.gate.Check(); err != nil {
			return fmt.Errorf("simulate: scenario %s, seed %d, at %v: the pool's books are wrong: %w", w.Name, w.seed, w.now, err)
		}
	}
	return nil
}

func (w *world) clock() time.Time { return epoch.Add(w.now) }

func (w *world) do(t task) {
	switch t.step {
	case arrive, ask:
		if t.at < w.phases[t.leaf][t.phase].to {
			w.come(t)
		}
	case resize:
		w.server.knee = t.knee
		w.serveNext()
	case lose:
		w.lose(w.sites[0], &w.losses[t.loss])
	case ring:
		t.timer.due(t.at)
	case retry, expire, beat, first, finish:
		if !t.call.gone {
			w.goOn(t)
		}
	default:
		w.share(w.sites[t.site], t)
	}
}

// come is a new request.
func (w *world) come(t task) {
	ph := &w.phases[t.leaf][t.phase]
	s := w.place(t.leaf)
	var c *call
	if t.step == arrive {
		c = w.request(t, s, w.now+w.Patience)
		w.arriveNext(task{leaf: t.leaf, phase: t.phase, row: t.row + 1}, w.now)
	} else {
		c = w.request(t, s, ph.to)
		c.worker = true
		w.trace.Requests[c.id].Worker = true
	}
	if s == nil {
		w.lost(c)
		return
	}
	w.offer(c)
}

// goOn is the next thing in the life of a request.
func (w *world) goOn(t task) {
	if t.step == retry {
		w.retry(t.call)
		return
	}
	s := t.call.site
	if s == nil || s.gate == nil { // it was sent elsewhere, or its node is down
		return
	}
	switch t.step {
	case expire:
		w.expire(t)
	case beat:
		w.beat(t.call)
	case first:
		w.first(t.call)
	case finish:
		w.finish(t.call)
	}
}

// retry lets a refused caller come back.
func (w *world) retry(c *call) {
	if c.site == nil {
		c.site = w.place(c.leaf)
		w.trace.Requests[c.id].Node = c.site.number()
	}
	if c.site == nil || c.site.gate == nil { // it is down
		w.lost(c)
		return
	}
	w.offer(c)
}

// decide takes in what was decided about a call. It is heard once the process has done everything else.
func (w *world) decide(c *call, rej *governor.Refusal) {
	c.queued = false
	c.refusal = rej
	w.decided = append(w.decided, c)
}

// hear starts the calls that were admitted, and sends those away that were refused.
func (w *world) hear() {
	for i := 0; i < len(w.decided); i++ { // what ends at once lets others go
		c := w.decided[i]
		switch {
		case c.refusal == nil:
			w.start(c)
		case c.left:
			w.gaveUp(c)
		default:
			c.site.drop(c)
			w.refused(c)
		}
	}
	w.decided = w.decided[:0]
}
