package simulate

import (
	"math/rand/v2"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/federation"
	"github.com/llmgov/llmgov/federation/parts"
)

const (
	// lookEvery is how often a process looks whether it is time to tell the store.
	lookEvery = 10 * time.Millisecond
	// A letter takes this many times the delay of its node.
	fastest = 0.9
	slowest = 1.2
	// storeEpoch is the store's time at the start.
	storeEpoch = 1_000_000
)

// store is shared by several sites: the account of the pool, and the way to it.
type store struct {
	account *federation.Account
	slots   parts.Account
	rng     *rand.Rand
	parts   []float64 // scratch of place
}

// letter is a beat on its way to the store, or the answer on its way back: about rates, or about slots from a desk.
type letter struct {
	beat  *federation.Beat
	reply *federation.Reply

	desk   *desk
	claims *parts.Beat
	parts  *parts.Reply
}

func newStore(p *plan) *store {
	return &store{
		account: federation.NewAccount(federation.DefaultRules(), storeEpoch, federation.Options{Fresh: true}),
		rng:     randomStream(p.seed, 0, streamNetwork),
		parts:   make([]float64, len(p.Nodes)),
	}
}

// share is the exchange between a site and the store.
func (w *world) share(s *site, t task) {
	switch t.step {
	case look:
		w.agenda.plan(task{at: w.now + lookEvery, step: look, site: t.site})
		if s.pool != nil {
			w.look(s)
		}
	case told:
		w.answer(s, t.letter)
	case answered:
		w.hear(s, t.letter)
	case crash:
		w.down(s)
	case restart:
		if s.pool == nil {
			w.boot(t.site)
		}
	}
}

// answer is the store's answer to a letter.
func (w *world) answer(s *site, l *letter) {
	now := storeEpoch + w.now.Milliseconds()
	if l.desk != nil {
		r := w.store.slots.Beat(now, l.claims)
		w.post(s, answered, letter{desk: l.desk, parts: &r})
		return
	}
	r := w.store.account.Beat(now, "", 0, l.beat)
	w.post(s, answered, letter{reply: &r})
}

// hear puts an answer in force.
func (w *world) hear(s *site, l *letter) {
	switch {
	case s.pool == nil: // it is down
	case l.desk == nil:
		w.obey(s, s.side.Step(w.clock(), l.reply))
		w.pump(s)
	case l.desk == s.desk:
		w.grantSlots(s, l.parts)
	}
}

// look lets a site report to the store if it has to.
func (w *world) look(s *site) {
	if w.cutOff(s) {
		w.turnAway(s)
	}
	if s.desk != nil {
		w.askForSlots(s)
	}
	if !s.side.Due(w.clock(), federation.Pressed(s.shared, w.clock())) {
		return
	}
	r := &federation.Report{Tree: federation.Asked(s.shared, s.tree.claims)}
	r.Survey(s.shared, w.clock())
	r.Limits = federation.Amounts{w.Pool.Usable(w.Pool.TPM), w.Pool.Usable(w.Pool.RPM)}
	for k, l := range r.Limits {
		r.Burst[k] = int64(float64(l) * w.Pool.Burst.Seconds() / escrow.Window.Seconds())
	}
	w.obey(s, s.side.Step(w.clock(), r))
}

// obey carries out the effects of a node of the federation.
func (w *world) obey(s *site, commands []federation.Command) {
	for _, c := range commands {
		switch c := c.(type) {
		case federation.Send:
			w.trace.Beats = append(w.trace.Beats, Told{w.now, s.index})
			w.post(s, told, letter{beat: c.Beat})
		case federation.Allow:
			s.granted = c.Allowance.Since.Sub(epoch)
			s.shared.Allow(w.clock(), c.Axis, c.Allowance)
		case federation.Share:
			s.shared.Share(c.ID, c.PPM)
		case federation.Stop:
			panic("llmgov: BUG: a process was fenced by itself")
		}
	}
}

// post sends a letter, which a partition at its start or end swallows.
func (w *world) post(s *site, what step, l letter) {
	delay := time.Duration(float64(w.Nodes[s.index].Delay) * (fastest + (slowest-fastest)*w.store.rng.Float64()))
	at := w.now + delay
	if w.parted(int(s.index), w.now) || w.parted(int(s.index), at) {
		return
	}
	w.agenda.plan(task{at: at, step: what, site: s.index, letter: &l})
}
