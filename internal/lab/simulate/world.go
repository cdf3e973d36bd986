package simulate

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/internal/lab/simulate/scenario"
)

// gate is an admission as the event loop sees it: escrow.Pool, or what there would be without it.
type gate interface {
	Add(parent escrow.NodeID, n escrow.Node) escrow.NodeID
	Offer(now time.Time, c escrow.Call) (escrow.Handle, escrow.Answer)
	Pump(now time.Time, out []escrow.Handle) []escrow.Handle
	Next() (time.Time, bool)
	Cancel(now time.Time, h escrow.Handle) bool
	Refuse(now time.Time, h escrow.Handle, key uint64) (escrow.Answer, bool)
	Progress(now time.Time, h escrow.Handle, p escrow.Progress)
	Settle(now time.Time, h escrow.Handle, actual escrow.Cost) bool
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
	talks  uint64   // so many were begun
	caches []cache  // of upstreams

	agenda  agenda
	now     time.Duration
	started []escrow.Handle // scratch of pump
	trace   Trace
}

// caller is one leaf's random streams.
type caller struct{ arrivals, manners, places *rand.Rand }

// newWorld is a run that has not begun. admit makes the admission of a single process.
func newWorld(p *plan, admit func(scenario.Pool) gate) *world {
	w := &world{plan: p}
	for _, c := range p.slots {
		w.agenda.plan(task{at: c.from, step: resize, knee: c.slots})
	}
	if len(p.Nodes) == 0 {
		w.sites = []*site{newSite(p, admit(p.Pool))}
		w.sites[0].limit = newLimit(&p.Pool, w.sites[0].pool, false)
		w.sites[0].openUpstreams(&p.Pool)
		w.caches = make([]cache, len(p.Pool.Upstreams))
		for i, l := range p.losses {
			w.agenda.plan(task{at: l.from, step: lose, loss: int32(i)})
			w.agenda.plan(task{at: l.to, step: regain})
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
		}
	}
}

func (w *world) check() error {
	for _, s := range w.sites {
		if s.pool == nil { // it is down
			continue
		}
		if err := s.pool.Check(); err != nil {
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
	case regain:
		w.pump(w.sites[0])
	case retry, expire, beat, first, finish:
		if !t.call.gone {
			w.goOn(t)
		}
	case wake:
		if s := w.sites[t.site]; t.at == s.wakeAt {
			s.wakeAt = -1
			w.pump(s)
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
	w.pump(s)
}

// goOn is the next thing in the life of a request.
func (w *world) goOn(t task) {
	if t.step == retry {
		w.retry(t.call)
		return
	}
	s := t.call.site
	if s == nil || s.pool == nil { // it was sent elsewhere, or its node is down
		return
	}
	switch t.step {
	case expire:
		w.expire(t)
	case beat:
		w.beat(t.call)
		return // nothing is freed that a wake would not find
	case first:
		w.first(t.call)
	case finish:
		w.finish(t.call)
	}
	w.pump(s)
}

// retry lets a refused caller come back.
func (w *world) retry(c *call) {
	if c.site == nil {
		c.site = w.place(c.leaf)
		w.trace.Requests[c.id].Node = c.site.number()
	}
	s := c.site
	if s == nil || s.pool == nil { // it is down
		w.lost(c)
		return
	}
	w.offer(c)
	w.pump(s)
}

// pump starts the calls that may go now, and plans when to look again.
func (w *world) pump(s *site) {
	w.started = s.pool.Pump(w.clock(), w.started[:0])
	for i := 0; i < len(w.started); i++ {
		h := w.started[i]
		c := s.waiting[h]
		if c == nil {
			panic("llmgov: BUG: the pool started a call that does not wait")
		}
		delete(s.waiting, h)
		if w.start(c) {
			// It has ended already, which may let others go.
			w.started = s.pool.Pump(w.clock(), w.started)
		}
	}
	next, ok := s.pool.Next()
	if !ok {
		return
	}
	// A pool that asks to be called at once is called after the least time that
	// moves its books.
	at := max(next.Sub(epoch), w.now+time.Microsecond)
	if s.wakeAt < 0 || at < s.wakeAt {
		s.wakeAt = at
		w.agenda.plan(task{at: at, step: wake, site: s.index})
	}
}
