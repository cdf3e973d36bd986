package admission

import (
	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/run/admission/ask"
	"github.com/llmgov/llmgov/tenants"
)

// The statuses of refusals that are decided here, as RFC 9110 has them.
const (
	statusBadRequest   = 400
	statusUnauthorized = 401
	statusForbidden    = 403
	statusNotFound     = 404
	statusConflict     = 409
	statusTooLarge     = 413
	statusTooMany      = 429
	statusUnavailable  = 503
	// StatusClientClosed is nginx's, for logs only: nobody is there to be answered.
	StatusClientClosed = 499
)

// RefusalOf is the governor's refusal as a call of t hears it; nil is of nobody's in particular.
func RefusalOf(rej *governor.Refusal, t *tenants.Tenant) *ask.Refusal {
	f := &ask.Refusal{Status: statusTooMany, Code: ask.CodeRate, Message: rej.Error(), RetryAfter: rej.RetryAfter}
	switch rej.Reason {
	case governor.ReasonQueueFull:
		f.Kind = governor.ReasonShare.String()
	case governor.ReasonBudget:
		f.Code = ask.CodeBudget
		f.Final = true
		if rej.Budget.Per == tenants.Life {
			f.RetryAfter = 0 // never
		}
		if t != nil && t.Spent != 0 {
			f.Status = int(t.Spent)
			f.Kind = ask.CodeInvalid
			f.Message = rej.Brief()
		}
	case governor.ReasonStore, governor.ReasonStoreLost:
		f.Status = statusUnavailable
		f.Code = ask.CodeStore
	case governor.ReasonOverloaded:
		f.Status = statusUnavailable
		f.Code = ask.CodeOverloaded
	case governor.ReasonDraining:
		f.Status = statusUnavailable
		f.Code = ask.CodeDraining
	case governor.ReasonThrottled: // SDKs know no such type
		f.Kind = governor.ReasonRequests.String()
	case governor.ReasonCancelled:
		f.Status = StatusClientClosed
	default:
		f.Kind = rej.Reason.String()
	}
	return f
}

// AxisOf is the axis of the limit that refused, or the name of the budget.
func AxisOf(rej *governor.Refusal) string {
	if rej.Budget.Limit > 0 {
		return rej.Budget.Name()
	}
	return rej.Axis
}
