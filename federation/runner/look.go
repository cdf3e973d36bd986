package runner

import (
	"context"
	"sync"
	"time"
)

// lookEvery is how often the account of a pool is read, for those who want to see it, and to learn
// how many nodes there are. It is longer than an answer is waited for.
const lookEvery = 2 * time.Second

// looks are the reads of one pool's account. No beat waits for them.
type looks struct {
	begun time.Time // when the last one began
	group sync.WaitGroup
}

// look does what is due between beats: it tells a pool that it is alone, or begins to read its
// account.
func (r *Runner) look(ctx context.Context, p Pool, l *looks) {
	now := time.Now()
	s, _ := r.State(p.Name())
	if s.alone() {
		p.Alone(now, len(s.View.Nodes))
		return
	}
	if now.Sub(l.begun) < lookEvery {
		return
	}
	l.begun = now
	l.group.Go(func() { r.read(ctx, p.Name()) })
}

// read reads the account of a pool.
func (r *Runner) read(ctx context.Context, pool string) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	v, err := r.cfg.Store.Look(ctx, pool)
	now := time.Now()
	r.cfg.Told(Event{Pool: pool, Op: OpLook, Took: now.Sub(began), View: v, Err: err})
	r.mu.Lock()
	defer r.mu.Unlock()
	if s, ok := r.states[pool]; ok && err == nil {
		s.View = v
		s.Looked = now
		r.states[pool] = s
	}
}
