package ask

import "time"

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
	CodeKey          = "invalid_api_key"
	CodeRoute        = "route_not_allowed"
	CodeModel        = "model_not_allowed"
	CodeBlocked      = "member_blocked"
	CodeNotFound     = "not_found"
	CodeNoModel      = "model_not_found"
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

	CodeTenantBlocked = "tenant_blocked" // a limit of the tenant was set to 0, or what was set in its place is set aside
)

// Invalid refuses a request for a fault in itself.
func Invalid(param, message string) *Refusal {
	return &Refusal{Status: 400, Code: CodeInvalid, Param: param, Message: message}
}
