package admission

import (
	"strconv"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/telemetry"
)

// AnsweredError ends a call that its upstream answered with an error, given the error's status of HTTP; 0 is unknown, and says nothing
// of the upstream. It took no tokens.
func (c *Call) AnsweredError(status int) {
	class := "error"
	switch {
	case status == 0 || status > 599:
	case status < 500 && status != statusTooMany:
		c.End(telemetry.OK, "", governor.Usage{}) // the caller's own error
		return
	default:
		class = strconv.Itoa(status)
	}
	if overloads(status) && !c.Ending.Done {
		c.Lease.Overloaded()
	}
	c.Fail(class, governor.Usage{})
}

// overloads reports whether a status says that the upstream has more to do than it can.
func overloads(status int) bool {
	switch status {
	case statusTooMany, statusUnavailable, statusGatewayTimeout, statusOverloaded:
		return true
	}
	return false
}

// Statuses of upstreams alone.
const (
	statusGatewayTimeout = 504
	statusOverloaded     = 529 // Anthropic's
)
