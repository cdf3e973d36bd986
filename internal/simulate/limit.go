package simulate

import (
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/adaptive"
	"github.com/llmgov/llmgov/internal/simulate/scenario"
)

// limit is an adaptive limit on calls at once, and the pool that goes by it. The nil limit stands still.
type limit struct {
	*adaptive.Fleet
	pool *escrow.Pool
}

// sight is the state of a limit as a call is sent.
type sight struct {
	running int64
	full    bool
}

// newLimit is the limit of a pool that is alone; nil if it does not move.
func newLimit(p *scenario.Pool, pool gate) *limit {
	if p.Adaptive == adaptive.Fixed {
		return nil
	}
	l := &limit{
		Fleet: adaptive.NewFleet(adaptive.Config{Law: p.Adaptive, Min: p.MinConcurrency, Max: p.Concurrency}),
		pool:  pool.(*escrow.Pool),
	}
	l.narrow()
	return l
}

// narrow has the pool go by the limit. Call pump afterwards.
func (l *limit) narrow() {
	slots := l.Limit()
	l.pool.Narrow(slots, escrow.BackgroundSlots{Most: slots})
}

// came tells of a call that is not admitted at once.
func (l *limit) came(now time.Time, leaf escrow.NodeID, background bool) {
	if l != nil && l.pool.Full(leaf, background) {
		l.Lacked(now)
	}
}

// sent is the state as a call is sent.
func (l *limit) sent(leaf escrow.NodeID, background bool) sight {
	if l == nil {
		return sight{}
	}
	return sight{l.pool.InFlight(), l.pool.Full(leaf, background)}
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
	began := epoch.Add(c.started)
	l.Observe(now, adaptive.Sample{
		Kind: kind, Began: began, Running: c.sight.running, Full: c.sight.full, Latency: now.Sub(began),
	})
	l.narrow()
}

// ended tells that a call has ended.
func (l *limit) ended(now time.Time, c *call) {
	if l == nil {
		return
	}
	l.Ended(now.Sub(epoch.Add(c.started)))
	if c.class < 0 {
		l.observe(now, c)
	}
}
