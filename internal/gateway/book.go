package gateway

import (
	"context"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/telemetry"
)

// charge books a part of what a call takes while it goes on.
func (c *call) charge(u governor.Usage) bool {
	if u == noUsage {
		return true
	}
	return c.book(c.req, c.account, u)
}

// book charges something that was done already, whatever the limits say.
func (c *call) book(req governor.Request, account *telemetry.Account, u governor.Usage) bool {
	req.Input = u.Input
	req.Output = u.Output
	req.Forced = true
	lease, rej := c.g.gov.Acquire(context.WithoutCancel(c.r.Context()), req)
	if rej != nil {
		return false
	}
	lease.Charge(u)
	account.Took(u)
	return true
}
