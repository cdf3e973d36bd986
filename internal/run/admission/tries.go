package admission

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/tenants"
)

// Try is a call on its way to one upstream. Most calls have one.
type Try struct {
	Began time.Time
	Sent  atomic.Bool // the upstream has got the beginning of it
	// Refused says that the upstream answered with an error, so that it has produced nothing.
	Refused bool

	price  governor.Price // at its upstream
	priced bool           // else it is the Request's
}

// tries are the ways of a call to upstreams.
type tries struct {
	now   *Try // the one on its way
	first Try
	// lost is the usage of failed tries, and paid the part of it that was charged with earlier leases.
	lost, paid bill
}

// bill is a usage, and what it costs in micro-dollars.
type bill struct {
	usage    governor.Usage
	microUSD int64
}

func (b bill) plus(o bill) bill { return bill{b.usage.Plus(o.usage), b.microUSD + o.microUSD} }

// Unsend notes that the call turned out not to have reached its upstream, so that it costs nothing.
func (t *tries) Unsend() { t.now.Sent.Store(false) }

// BeginTry begins a try at an upstream of the pool, for a caller that knows how far each of them has got.
func (c *Call) BeginTry(next *Try, upstream string) {
	next.Began = time.Now()
	at := slices.IndexFunc(c.Pool.Upstreams, func(u tenants.PoolUpstream) bool { return u.Name == upstream })
	if at >= 0 { // else another policy is in force than the call's
		next.price = c.price(&c.Ask, 1<<at)
		next.priced = true
	}
	c.now = next
}

// Price is the price of the tokens of the try on its way.
func (c *Call) Price() governor.Price {
	if c.now.priced {
		return c.now.price
	}
	return c.Request.Price
}

// billOf is the bill of a usage of the try on its way.
func (c *Call) billOf(u governor.Usage) bill { return bill{u, c.Price().MicroUSD(u)} }

// Lost notes the usage of a try that came to nothing. It is charged at the end.
func (c *Call) Lost(u governor.Usage) { c.lost = c.lost.plus(c.billOf(u)) }

// payLost ends a lease with the usage of failed tries so far.
func (t *tries) payLost(lease governor.Lease) {
	if t.lost.usage == (governor.Usage{}) {
		lease.Release()
		return
	}
	lease.Costing(t.lost.microUSD).Break(t.lost.usage)
	t.paid = t.paid.plus(t.lost)
	t.lost = bill{}
}
