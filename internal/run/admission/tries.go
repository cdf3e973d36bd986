package admission

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/ops/telemetry"
	"github.com/llmgov/llmgov/tenants"
)

// Try is a call on its way to one upstream. Most calls have one.
type Try struct {
	Began time.Time
	Sent  atomic.Bool // the upstream has got the beginning of it
	// Refused says that the upstream answered with an error, so that it has produced nothing.
	Refused bool

	price  *governor.Price // at its upstream
	priced bool            // else it is the Request's
	at     int32           // which of the pool's upstreams that is, from 1; 0 if the caller did not tell
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
		next.price = c.price(1 << at)
		next.priced = true
		next.at = int32(at) + 1
	}
	c.now = next
}

// Price is the price of the tokens of the try on its way.
func (c *Call) Price() *governor.Price {
	if c.now.priced {
		return c.now.price
	}
	return c.Request.Price
}

// billOf is the bill of a usage of the try on its way.
func (c *Call) billOf(u governor.Usage) bill { return bill{u, c.Price().MicroUSD(u)} }

// Lost notes the usage of a try that came to nothing, which nobody reports. It is counted where it went, and charged at the end.
func (c *Call) Lost(u governor.Usage) {
	took := c.taken(u, true)
	c.Account.Took(took)
	c.lost = c.lost.plus(bill{u, took.MicroUSD})
}

// Took counts usage of the call with which a lease other than its last was ended.
func (c *Call) Took(u governor.Usage, estimated bool) {
	c.Account.Took(c.taken(u, estimated))
}

// taken is a usage of the try on its way, as it is counted.
func (c *Call) taken(u governor.Usage, estimated bool) telemetry.Taken {
	return telemetry.Taken{
		Model: c.Policy.Snapshot.CountedModel(c.Ask.Model), Upstream: c.ServedBy(), Usage: u, MicroUSD: c.billOf(u).microUSD, Estimated: estimated,
	}
}

// Taken is a usage that an upstream reported, or that was estimated, at the price of a request.
func (p *Policy) Taken(req *governor.Request, upstream string, u governor.Usage, estimated bool) telemetry.Taken {
	return telemetry.Taken{
		Model: p.Snapshot.CountedModel(req.Model), Upstream: upstream, Usage: u, MicroUSD: req.Price.MicroUSD(u), Estimated: estimated,
	}
}

// ServedBy is the name of the upstream to which the try on its way goes, or telemetry.Other where callers choose among several
// themselves and do not tell.
func (c *Call) ServedBy() string {
	switch {
	case c.now.at > 0:
		return c.Pool.names[c.now.at-1]
	case c.Lease.Upstream() != "":
		return c.Lease.Upstream()
	case len(c.Pool.names) == 1:
		return c.Pool.names[0]
	}
	return telemetry.Other
}

// payLost ends a lease with the usage of failed tries so far.
func (t *tries) payLost(lease governor.Lease) {
	if !t.lost.usage.Took() {
		lease.Release()
		return
	}
	lease.Costing(t.lost.microUSD).Break(t.lost.usage)
	t.paid = t.paid.plus(t.lost)
	t.lost = bill{}
}
