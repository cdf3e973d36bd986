package inprocess

import (
	"context"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/governor/client"
	"github.com/llmgov/llmgov/governor/client/doors"
	"github.com/llmgov/llmgov/internal/run/admission"
	"github.com/llmgov/llmgov/internal/run/admission/ask"
)

// Later returns a function that charges what a call that has ended, but was not completed, turns out to have taken
// beyond what was charged at its end, for servers that hear of it too late. The function keeps nothing of the call itself.
func (d *Door) Later(h doors.Held) func(client.Usage) {
	c := h.(*held).call
	req := c.Request.Record()
	charged := c.Ending.Usage
	upstream := c.ServedBy()
	paid := c.Ending.MicroUSD
	return func(u client.Usage) {
		if more := u.Beyond(charged); more.Took() {
			d.charge(req, more, upstream, max(0, req.Price.MicroUSD(u)-paid))
		}
	}
}

// charge charges usage to the tenant and pool of a call, if the policy still has them.
func (d *Door) charge(req governor.Request, u governor.Usage, upstream string, microUSD int64) {
	var c admission.Call
	c.Begin(context.Background(), d.ctl, d.ctl.Policy(), req.ID)
	defer c.Close()
	for {
		f := use(&c, &req)
		if f == nil {
			took := c.Policy.Taken(&req, upstream, u, false)
			took.MicroUSD = microUSD
			c.Book(req, c.Account, took)
		}
		if f != admission.Stale {
			return
		}
		c.Renew(d.ctl.Policy())
	}
}

// use finds the account of a request.
func use(c *admission.Call, req *governor.Request) *ask.Refusal {
	name := req.Tenant
	if t, known := c.Policy.Snapshot.TenantOf(name); known { // it may be a member's
		name = t.Name
	}
	if f := c.IdentifyTenant(name); f != nil {
		return f
	}
	p, ok := c.Policy.PoolNamed(req.Pool)
	if !ok {
		return admission.NoModel(req.Model)
	}
	return c.Use(p)
}
