package simulate

import (
	"time"

	"github.com/llmgov/llmgov/federation"
	"github.com/llmgov/llmgov/federation/parts"
	"github.com/llmgov/llmgov/federation/runner"
	"github.com/llmgov/llmgov/governor/sharing"
)

// patience is for how long an answer is waited for, as in package runner.
const patience = 1250 * time.Millisecond

// member is a process's exchange with the store.
type member struct {
	*sharing.Sharing
	rates struct {
		runner.Pool
		exchange
		side *federation.Node
	}
	slots struct {
		runner.Limits // nil if the pool has none
		exchange
		side    *parts.Holder
		lacking bool          // a call lacks a slot that may be granted
		heard   time.Duration // when the last answered beat was sent, or the process began
		alone   bool          // nobody has answered for as long as grants last
	}
	instance string
	seed     uint64
}

// exchange is about rates, or about slots.
type exchange struct {
	asked bool          // an answer is awaited
	sent  time.Duration // when the first beat was sent that is not answered
}

// overdue reports whether an answer was waited for for too long.
func (x *exchange) overdue(now time.Duration) bool { return x.asked && now-x.sent >= patience }

// join begins the exchange of a process.
func (w *world) join(g *governed, node int32, instance string) *member {
	name := w.Nodes[node].Name
	m := &member{Sharing: sharing.New(g), instance: instance, seed: w.seed<<32 ^ uint64(w.now)<<8 ^ uint64(node)}
	m.rates.Pool = m.Pools()[0]
	m.rates.side = federation.NewNode(federation.Config{Name: name, Region: name, Instance: instance, Rules: federation.DefaultRules(), Seed: m.seed})
	m.slots.heard = w.now
	return m
}

// look tells the store of a process, if it is time to.
func (w *world) look(s *site) {
	w.askForSlots(s)
	now := w.clock()
	x := &s.rates
	if x.overdue(w.now) {
		x.Alone(now, 0)
	}
	pressure, ok := x.Pressure(now)
	if !ok || !x.side.Due(now, pressure) {
		return
	}
	for _, c := range x.side.Step(now, x.Report(now)) {
		if !x.asked {
			x.asked = true
			x.sent = w.now
		}
		w.tell(s, letter{beat: c.(federation.Send).Beat})
	}
}

// tell sends a beat.
func (w *world) tell(s *site, l letter) {
	l.of = s.member
	w.trace.Beats = append(w.trace.Beats, Told{w.now, s.index})
	w.post(s, told, l)
}

// grantRates puts in force what the store answered about rates.
func (m *member) grantRates(now time.Time, r *federation.Reply) {
	m.rates.asked = false
	m.rates.Apply(now, m.rates.side.Step(now, r))
	if r.Status == federation.Learning {
		m.rates.Learns(now.Add(time.Duration(r.Until-r.Now)*time.Millisecond), r.Lost)
	}
}

// askForSlots sends a beat about slots, if one is due.
func (w *world) askForSlots(s *site) {
	if s.member == nil {
		return
	}
	x := &s.slots
	select {
	case <-s.More():
		for _, l := range s.Limits() {
			if x.Limits == nil {
				x.Limits = l
				x.side = parts.NewHolder(l.Owner(), s.instance, s.seed)
			}
			x.lacking = true
		}
	default:
	}
	if x.Limits == nil {
		return
	}
	now := w.clock()
	if x.overdue(w.now) {
		s.lose()
	}
	if w.now-x.heard >= parts.TTL && !x.alone {
		x.alone = true
		x.Alone(now, false)
	}
	if x.asked || !x.side.Due(now, true, x.lacking) {
		return
	}
	claims, busy := x.Claims(now)
	x.asked = true
	x.sent = w.now
	x.lacking = false
	w.tell(s, letter{claims: x.side.Beat(now, busy, claims)})
}

// lose gives up waiting for an answer about slots.
func (m *member) lose() {
	m.slots.asked = false
	m.slots.side.Lost()
	m.slots.lacking = m.slots.lacking || m.slots.side.Lacks()
}

// grantSlots puts in force what the store answered about slots.
func (m *member) grantSlots(now time.Time, r *parts.Reply) {
	x := &m.slots
	if !x.asked || !x.side.Answered(now, r) { // it is late
		return
	}
	x.asked = false
	x.heard = x.sent
	x.alone = false
	x.Apply(now, x.side.Fresh(), r.Parts)
	x.lacking = x.lacking || x.side.Lacks()
}
