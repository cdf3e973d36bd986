package runner

import (
	"context"
	"time"
)

// lookEvery is how often the account of a pool is read, for who wants to see it, and for
// how many nodes there are.
const lookEvery = 5 * time.Second

// look does what is to be done between beats: it tells a pool that it is alone, and reads
// the account if that is due and the store answers.
func (r *Runner) look(ctx context.Context, p Pool) {
	now := time.Now()
	s, _ := r.State(p.Name())
	if s.alone() {
		p.Alone(now, len(s.View.Nodes))
		return
	}
	if now.Sub(s.Looked) < lookEvery {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, min(patience, r.cfg.Rules.Beat/4))
	defer cancel()
	v, err := r.cfg.Store.Look(ctx, p.Name())
	r.cfg.Told(Event{Pool: p.Name(), Op: OpLook, Took: time.Since(now), Err: err})
	r.mu.Lock()
	defer r.mu.Unlock()
	s = r.states[p.Name()]
	if s.Looked = now; err == nil {
		s.View = v
	}
	r.states[p.Name()] = s
}
