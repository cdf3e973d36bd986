package simulate

import (
	"math/rand/v2"
	"time"

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

// store is shared by several sites: the accounts of the pool's rates and slots, and the way to it.
type store struct {
	rates *federation.Account
	slots parts.Account
	rng   *rand.Rand
	parts []float64 // scratch of place
}

// letter is a beat on its way to the store, or the answer on its way back: about rates, or about slots.
type letter struct {
	of *member

	beat  *federation.Beat
	reply *federation.Reply

	claims *parts.Beat
	parts  *parts.Reply
}

func newStore(p *plan) *store {
	return &store{
		rates: federation.NewAccount(federation.DefaultRules(), storeEpoch, federation.Options{Fresh: true}),
		rng:   randomStream(p.seed, 0, streamNetwork),
		parts: make([]float64, len(p.Nodes)),
	}
}

// share is the exchange between a site and the store.
func (w *world) share(s *site, t task) {
	switch t.step {
	case look:
		w.agenda.plan(task{at: w.now + lookEvery, step: look, site: t.site})
		if s.gate != nil {
			w.look(s)
		}
	case told:
		w.answer(s, t.letter)
	case answered:
		w.hearStore(s, t.letter)
	case crash:
		w.down(s)
	case restart:
		if s.gate == nil {
			w.boot(t.site)
		}
	}
}

// answer is the store's answer to a letter.
func (w *world) answer(s *site, l *letter) {
	now := storeEpoch + w.now.Milliseconds()
	if l.claims != nil {
		r := w.store.slots.Beat(now, l.claims)
		w.post(s, answered, letter{of: l.of, parts: &r})
		return
	}
	r := w.store.rates.Beat(now, "", 0, l.beat)
	w.post(s, answered, letter{of: l.of, reply: &r})
}

// hearStore puts an answer in force, unless the process that asked is gone.
func (w *world) hearStore(s *site, l *letter) {
	switch {
	case l.of != s.member:
	case l.reply != nil:
		s.grantRates(w.clock(), l.reply)
	default:
		s.grantSlots(w.clock(), l.parts)
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
