package governor

import "context"

// Interrupter ends a call early. Its method must not block. It may be called before Acquire returns the lease,
// and shortly after the lease has ended.
type Interrupter interface{ Interrupt(cause error) }

// InterruptFunc is a function as an Interrupter. What context.WithCancelCause returns will do.
type InterruptFunc func(cause error)

// Interrupt calls f.
func (f InterruptFunc) Interrupt(cause error) { f(cause) }

// Interrupt asks all calls that run in a pool to end early, by calling each Request.Interrupt with
// the cause, and returns how many were asked. Each call still ends its own lease, with what it has
// taken by then, and holds everything until it does. Calls that wait go on waiting.
func (g *Governor) Interrupt(pool string, cause error) int {
	if cause == nil {
		cause = context.Canceled
	}
	running := g.interruptible(pool)
	for _, call := range running {
		call.Interrupt(cause)
	}
	return len(running)
}

// interruptible lists the calls of a pool that run and can be ended early.
func (g *Governor) interruptible(pool string) (out []Interrupter) {
	g.look()
	defer g.unlock()
	p := g.poolOf(pool)
	if p == nil {
		return nil
	}
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
	tb := g.table
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
