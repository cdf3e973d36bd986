package admission

import (
	"strconv"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/ops/telemetry"
)

// AnsweredError ends a call that its upstream answered with an error, given the error's status of HTTP; 0 is unknown, and says nothing
// of the upstream. It took no tokens.
func (c *Call) AnsweredError(status int) {
	class := "error"
	switch {
	case status == 0 || status > 599:
	case !Fails(status):
		c.End(telemetry.OK, "", governor.Usage{}) // the caller's own error
		return
	default:
		class = strconv.Itoa(status)
	}
	switch {
	case c.Ask.Free || c.Ending.Done:
	case Overloads(status):
		c.Lease.Overloaded()
		c.Pool.Overloaded.Store(true)
	case Late(status):
		c.Lease.Late()
	}
	c.Fail(class, governor.Usage{})
}

// Fails reports whether the status of an error says that the upstream, or the account that is used there, could not serve the call, and not
// that the call was wrong. By it calls go on to another upstream, breakers open, limits move, and outcomes are told. A status
// of 500 and above that nobody knows means what 500 does (RFC 9110, 15).
func Fails(status int) bool {
	switch status {
	case statusPayment, statusLate, statusTooMany, statusCapacity:
		return true
	case statusNotImplemented, statusVersion: // of what was asked
		return false
	}
	return status >= 500 && status < 600
}

// Overloads reports whether a status says that the upstream has more to do than it can.
func Overloads(status int) bool {
	switch status {
	case statusTooMany, statusCapacity, statusUnavailable, statusUnreached, statusOverloaded:
		return true
	}
	return false
}

// Late reports whether a status says that a call was not answered in time.
func Late(status int) bool { return status == statusGatewayTimeout || status == statusOriginTimeout }

// Statuses of upstreams alone.
const (
	statusPayment        = 402
	statusLate           = 408
	statusCapacity       = 498 // Groq's
	statusNotImplemented = 501
	statusGatewayTimeout = 504
	statusVersion        = 505
	statusUnreached      = 522 // Cloudflare's, as 524
	statusOriginTimeout  = 524
	statusOverloaded     = 529 // Anthropic's
)
