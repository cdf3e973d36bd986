package simulate

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/placement"
	"github.com/llmgov/llmgov/federation"
)

// site is one process: its pool, and its knowledge. While it is down it has no pool.
type site struct {
	index   int32
	pool    gate
	tree    planted
	guess   guesses
	wakeAt  time.Duration // of the wake that counts; negative for none
	waiting map[escrow.Handle]*call
	limit   *limit // nil for one that stands, and is the process's own
	books   *placement.Books[placement.Account]
	calls   map[int32]*call // that wait or run, by id; nil if none can be lost
	*member                 // nil for one that is alone
}

// member is the part of a process that shares the pool with others.
type member struct {
	shared *escrow.Pool // the site's
	side   *federation.Node
	// granted is when the last grant of rates began, or the process.
	granted time.Duration
	desk    *desk // nil for a pool without slots
}

func newSite(p *plan, pool gate) *site {
	return &site{
		pool: pool, tree: plant(pool, p.Tenants),
		guess: newGuesses(p), wakeAt: -1, waiting: map[escrow.Handle]*call{},
	}
}

// number is the site's; 0 where there is none.
func (s *site) number() int32 {
	if s == nil {
		return 0
	}
	return s.index
}

// keep and drop know which calls die with the process, or an upstream.
func (s *site) keep(c *call) {
	if s.calls != nil {
		s.calls[c.id] = c
	}
}

func (s *site) drop(c *call) {
	if s.calls != nil {
		delete(s.calls, c.id)
	}
}

// federate begins a world of several sites.
func (w *world) federate() {
	w.store = newStore(w.plan)
	for i := range w.Nodes {
		w.sites = append(w.sites, &site{})
		w.boot(int32(i))
		w.agenda.plan(task{step: look, site: int32(i)})
	}
	for _, o := range w.outages {
		if o.Crash {
			w.agenda.plan(task{at: o.from, step: crash, site: int32(o.Node)})
			w.agenda.plan(task{at: o.to, step: restart, site: int32(o.Node)})
		}
	}
}

// boot starts a process that knows nothing.
func (w *world) boot(i int32) {
	pool := newPool(w.Pool, w.clock(), true)
	s := newSite(w.plan, pool)
	s.index = i
	s.calls = map[int32]*call{}
	name := w.Nodes[i].Name
	instance := fmt.Sprint(name, " since ", w.now)
	seed := w.seed<<32 ^ uint64(w.now)<<8 ^ uint64(i)
	s.member = &member{
		shared: pool, granted: w.now,
		side: federation.NewNode(federation.Config{
			Name: name, Region: name, Instance: instance, Rules: federation.DefaultRules(), Seed: seed,
		}),
	}
	s.limit = newLimit(&w.Pool, pool, true)
	if s.limit != nil {
		s.limit.Plant(s.tree.slotNodes())
		s.desk = w.newDesk(instance, seed)
		if s.limit.Limiter != nil {
			s.limit.Limiter.Name(instance)
		}
	}
	*w.sites[i] = *s // who is to come back comes to the new one
}

// down ends a process with all that it had: calls that run are cut off, and who waited
// is gone.
func (w *world) down(s *site) {
	for _, id := range slices.Sorted(maps.Keys(s.calls)) {
		c := s.calls[id]
		if !c.queued {
			w.breakOff(c)
		}
		c.gone = true
		w.lost(c)
	}
	*s = site{index: s.index, wakeAt: -1, member: &member{}}
}

// breakOff ends a call that runs before its time, with what it took until then.
func (w *world) breakOff(c *call) (taken int64) {
	taken = c.input + w.produced(c)
	w.trace.add(w.now, Settled, c.id, taken)
	w.use(c, taken)
	w.abandon(c)
	return taken
}

// lost is of a call whose process is not there any more, or not yet. A worker tries its
// luck again with another one.
func (w *world) lost(c *call) {
	if c.worker {
		after := between(w.leafs[c.leaf].manners, goneLeast, goneMost)
		w.agenda.plan(task{at: w.now + after, step: ask, leaf: c.leaf, phase: c.phase, talk: c.talk})
	}
}

// place draws the site that a leaf's next request comes to: one that is up, by the parts
// of its tenant, or any, if all of these are down; nil when none is up.
func (w *world) place(leaf int32) *site {
	if w.store == nil {
		return w.sites[0]
	}
	parts := w.store.parts
	w.tree.Leaves[leaf].Spread.PartsAt(w.now, parts)
	up := 0
	for i, s := range w.sites {
		if s.pool == nil {
			parts[i] = 0
		} else {
			up++
		}
	}
	if up == 0 {
		return nil
	}
	if sum(parts) == 0 {
		for i, s := range w.sites {
			if s.pool != nil {
				parts[i] = 1
			}
		}
	}
	return w.sites[pick(w.leafs[leaf].places, parts)]
}
