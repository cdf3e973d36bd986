package simulate

import (
	"fmt"
	"maps"
	"slices"
)

// site is one process. While it is down it has no gate.
type site struct {
	index   int32
	gate    gate
	calls   map[int32]*call // that wait or run, by id; nil if none can be lost
	*member                 // nil for one that is alone
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
	instance := fmt.Sprint(w.Nodes[i].Name, " since ", w.now)
	g := w.govern(instance)
	*w.sites[i] = site{index: i, gate: g, calls: map[int32]*call{}, member: w.join(g, i, instance)} // who is to come back comes to the new one
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
	if g, up := s.gate.(*governed); up {
		g.clock.stopped = true
	}
	*s = site{index: s.index}
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
		if s.gate == nil {
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
			if s.gate != nil {
				parts[i] = 1
			}
		}
	}
	return w.sites[pick(w.leafs[leaf].places, parts)]
}
