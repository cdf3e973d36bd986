package simulate

import (
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/adaptive"
	"github.com/llmgov/llmgov/escrow/slots"
	"github.com/llmgov/llmgov/internal/lab/simulate/scenario"
)

// limit is on calls at once: one that moves, or of which other processes have parts. The nil limit stands, and is the process's own.
type limit struct{ *slots.Side }

// newLimit is the limit of a process's pool.
func newLimit(p *scenario.Pool, pool gate, shared bool) *limit {
	if p.Concurrency == 0 || p.Adaptive == adaptive.Fixed && !shared {
		return nil
	}
	l := &limit{slots.New(pool.(*escrow.Pool), shared)}
	l.Configure(slots.Rules{
		Slots: p.Concurrency, Adaptive: p.Adaptive, Least: p.MinConcurrency,
	})
	l.Narrow()
	return l
}

// lacks tells of a call that is not admitted at once, and reports whether more slots should be asked for.
func (l *limit) lacks(now time.Time, call *escrow.Call, queued bool) bool {
	return l != nil && l.Lacks(now, call, queued)
}

// sent is the state as a call is sent.
func (l *limit) sent(leaf escrow.NodeID, background bool) slots.Sight {
	if l == nil {
		return slots.Sight{}
	}
	return l.See(leaf, background)
}

// observe tells for how long a call waited for its first token, or for its whole answer.
func (l *limit) observe(now time.Time, c *call) {
	if l == nil {
		return
	}
	kind := adaptive.Kind{Model: "m", Stream: c.class >= 0, Tokens: c.input}
	if !kind.Stream {
		kind.Tokens = c.output
	}
	l.Observe(now, epoch.Add(c.started), kind, c.sight)
}

// ended tells that a call has ended.
func (l *limit) ended(now time.Time, c *call) {
	if l == nil {
		return
	}
	ran := now.Sub(epoch.Add(c.started))
	l.Ran(now, ran)
	if l.Limiter != nil {
		l.Limiter.Ended(ran)
	}
	if c.class < 0 {
		l.observe(now, c)
	}
}
