package governor

import "context"

// Interrupt asks all calls that run in a pool to end early, each by its Request.Interrupt
// and for this cause, and returns how many were asked. Each ends its own lease, once, with
// what it has taken by then, and holds all it holds until it has. Who waits goes on waiting.
func (g *Governor) Interrupt(pool string, cause error) int {
	p := g.poolOf(pool)
	if p == nil {
		return 0
	}
	if cause == nil {
		cause = context.Canceled
	}
	ask := p.interrupts()
	for _, interrupt := range ask {
		interrupt(cause)
	}
	return len(ask)
}

// interrupts are those of the calls that run.
func (p *pool) interrupts() (out []context.CancelCauseFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.leases {
		if st := &p.leases[i]; st.interrupt != nil && st.waiter == nil {
			out = append(out, st.interrupt)
		}
	}
	return out
}

// poolOf is the pool of a name, also one that no configuration has any more, but in which
// calls run; or nil.
func (g *Governor) poolOf(name string) *pool {
	tb := g.table.Load()
	if p := tb.pools[name]; p != nil {
		return p.pool
	}
	for _, p := range tb.gone {
		if p.name == name {
			return p
		}
	}
	return nil
}
