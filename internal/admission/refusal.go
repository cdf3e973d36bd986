package admission

import (
	"time"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/policy"
	"github.com/llmgov/llmgov/tenants"
)

// Refusal is an answer that llmgov gives itself, whatever protocol the caller speaks.
type Refusal struct {
	Status int // of HTTP; other protocols have theirs by the code
	Code   string
	Kind   string // the type of the error; "" = the code
	Param  string // of the request, if one is to blame
	// Message is for people.
	Message string
	// RetryAfter is when to come back; 0 is unknown.
	RetryAfter time.Duration
	// Final tells SDKs not to retry by themselves.
	Final bool
}

// The codes of refusals. They are the reasons in metrics, too.
const (
	CodeInvalid      = "invalid_request_error"
	CodeKey          = policy.CodeKey
	CodeRoute        = "route_not_allowed"
	CodeModel        = policy.CodeModel
	CodeNotFound     = "not_found"
	CodeNoModel      = policy.CodeNoModel
	CodeTooLarge     = "request_too_large"
	CodeRate         = "rate_limit_exceeded"
	CodeUpstream     = "upstream_error"
	CodeUpstreamLate = "upstream_timeout"
	CodeDraining     = "draining"
	CodeOverloaded   = "overloaded"
	CodeBudget       = "insufficient_quota"
	CodeStore        = "store_unavailable"
	CodeRunning      = "request_in_progress"
	CodeInternal     = "internal_error"
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

// Rejected is the refusal for a rejection by the governor.
func Rejected(rej *governor.Rejection) *Refusal {
	f := &Refusal{Status: statusTooMany, Code: CodeRate, Message: rej.Error(), RetryAfter: rej.RetryAfter}
	switch rej.Reason {
	case governor.ReasonQueueFull:
		f.Kind = governor.ReasonShare.String()
	case governor.ReasonBudget:
		f.Code = CodeBudget
		f.Final = true
	case governor.ReasonStore, governor.ReasonStoreLost:
		f.Status = statusUnavailable
		f.Code = CodeStore
	case governor.ReasonOverloaded:
		f.Status = statusUnavailable
		f.Code = CodeOverloaded
	case governor.ReasonDraining:
		f.Status = statusUnavailable
		f.Code = CodeDraining
	case governor.ReasonThrottled: // SDKs know no such type
		f.Kind = governor.ReasonRequests.String()
	case governor.ReasonCancelled:
		f.Status = StatusClientClosed
	default:
		f.Kind = rej.Reason.String()
	}
	return f
}

// To is the refusal as t hears it.
func (f *Refusal) To(t *tenants.Tenant) *Refusal {
	if f.Code == CodeBudget && t.Spent != 0 {
		f.Status = int(t.Spent)
	}
	return f
}

// AxisOf is the axis of the limit that refused, or the name of the budget.
func AxisOf(rej *governor.Rejection) string {
	if rej.Budget.Limit > 0 {
		return rej.Budget.Name()
	}
	return rej.Axis
}
