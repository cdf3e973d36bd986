package governor

import "context"

// Interrupt asks all calls that run in a pool to end early, by calling each Request.Interrupt with
// the cause, and returns how many were asked. Each call still ends its own lease, with what it has
// taken by then, and holds everything until it does. Calls that wait go on waiting.
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

// interrupts lists the Interrupt functions of the calls that run.
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

// poolOf returns the pool of a name, even if no configuration has it any more but calls run in it;
// or nil.
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
