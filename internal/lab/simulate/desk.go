package simulate

import (
	"time"

	"github.com/llmgov/llmgov/escrow/slots"
	"github.com/llmgov/llmgov/federation/claims"
	"github.com/llmgov/llmgov/federation/parts"
)

// patience is for how long an answer about slots is waited for, as in package runner.
const patience = 1250 * time.Millisecond

// desk is a process's exchange with the store about its slots.
type desk struct {
	holder  *parts.Holder
	claims  claims.Slots
	lacking bool          // a call lacks a slot that may be granted
	asked   bool          // an answer is awaited
	sent    time.Duration // when the last beat was sent
	heard   time.Duration // when the last answered beat was sent, or the process began
}

// newDesk is the desk of a process that has just begun.
func (w *world) newDesk(instance string, seed uint64) *desk {
	return &desk{holder: parts.NewHolder("pool", instance, seed), heard: w.now}
}

// slotNodes are the nodes as a pool's slots know them.
func (p *planted) slotNodes() (nodes []slots.Node) {
	for _, c := range p.claims {
		nodes = append(nodes, slots.Node{ID: c.ID, Path: c.Path, Name: c.Path, Weight: c.Weight, Top: c.Parent < 0, Leaf: c.Leaf})
	}
	return nodes
}

// askForSlots sends a beat about slots, if one is due.
func (w *world) askForSlots(s *site) {
	d := s.desk
	now := w.clock()
	s.limit.Expire(now)
	if d.asked && w.now-d.sent >= patience {
		d.lose()
	}
	if w.now-d.heard >= parts.TTL && !s.limit.IsAlone() {
		s.limit.Alone(now)
		w.pump(s)
	}
	if d.asked || !d.holder.Due(now, true, d.lacking) {
		return
	}
	demand := s.limit.Demand(now, w.oldest(s))
	b := d.holder.Beat(now, true, d.claims.Of(&demand))
	d.lacking = false
	d.asked = true
	d.sent = w.now
	w.trace.Beats = append(w.trace.Beats, Told{w.now, s.index})
	w.post(s, told, letter{desk: d, claims: b})
}

// lose gives up waiting for an answer.
func (d *desk) lose() {
	d.asked = false
	d.holder.Lost()
	d.lacking = d.lacking || d.holder.Lacks()
}

// grantSlots puts in force what the store answered.
func (w *world) grantSlots(s *site, r *parts.Reply) {
	d := s.desk
	now := w.clock()
	if !d.asked || !d.holder.Answered(now, r) { // it is late
		return
	}
	d.asked = false
	d.heard = d.sent
	s.limit.Allow(now, d.holder.Until(), d.claims.Grant(r.Parts))
	d.lacking = d.lacking || d.holder.Lacks()
	w.pump(s)
}

// oldest is how long the oldest call of a site has run.
func (w *world) oldest(s *site) (age time.Duration) {
	for _, c := range s.calls {
		if !c.queued {
			age = max(age, w.now-c.started)
		}
	}
	return age
}
