package client

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/llmgov/llmgov/governor"
)

// Refusal is the error of a call that may not begin, or that the governor ended early.
type Refusal struct {
	// ID is that of the call, by which `llmgov explain` finds the reasons.
	ID string
	// Status is HTTP's.
	Status int
	// Code is for programs.
	Code Code
	// Kind is the limit that refused, such as tokens; "" if it says no more than Code.
	Kind string
	// Param is the field of the request that is to blame; "" if none is.
	Param string
	// Message is for people.
	Message string
	// RetryAfter is when to come back. It is more than 0 if the refusal is Retryable.
	RetryAfter time.Duration
	// Final says that the call should not be retried by itself: a budget is spent, or the call is wrong. See Retryable.
	Final bool
	// Header shows an HTTP caller where it stands and when to come back.
	Header http.Header
}

// Code says for programs why a call is refused.
type Code string

// The codes of refusals. More may come.
const (
	CodeInvalid     Code = "invalid_request_error" // the request, or its end, is wrong by itself
	CodeKey         Code = "invalid_api_key"       // no such tenant or key
	CodeRoute       Code = "route_not_allowed"     // the tenant is not granted such calls
	CodeModel       Code = "model_not_allowed"     // the tenant is not granted the model
	CodeBlocked     Code = "member_blocked"        // a limit of the tenant's member is 0
	CodeNoModel     Code = "model_not_found"       // no pool serves the model
	CodeTooLarge    Code = "request_too_large"
	CodeRate        Code = "rate_limit_exceeded" // see Kind
	CodeBudget      Code = "insufficient_quota"  // a budget is spent until its period ends
	CodeRunning     Code = "request_in_progress" // another call with the same Retry.Key is
	CodeOverloaded  Code = "overloaded"          // too many calls wait
	CodeStore       Code = "store_unavailable"   // the limits are shared, and nobody says what is left
	CodeDraining    Code = "draining"            // the governor shuts down
	CodeUnavailable Code = "admission_unavailable"
	CodeClosed      Code = "client_closed"
	CodeExpired     Code = "lease_expired" // see MaxHold of embedded.Options

	CodeTenantBlocked Code = "tenant_blocked" // a limit of the tenant was set to 0
)

// Classes of refusals, for errors.Is. errors.As finds the *Refusal with its Code.
var (
	// ErrRefused is any call that may not begin, and any that the governor ended early.
	ErrRefused = governor.ErrRefused
	// ErrInvalid is a call that is wrong by itself.
	ErrInvalid = errors.New("llmgov: the call is wrong")
	// ErrUnavailable is a call about which no governor could be asked.
	ErrUnavailable = errors.New("llmgov: the governor cannot be asked")
	// ErrClosed is a call that came, waited or ran when its Client was closed.
	ErrClosed = errors.New("llmgov: the client is closed")
)

// Is tells the class of a refusal.
func (r *Refusal) Is(target error) bool {
	switch target {
	case ErrRefused:
		return true
	case ErrInvalid:
		return r.Code == CodeInvalid
	case ErrUnavailable:
		return r.Code == CodeUnavailable
	case ErrClosed:
		return r.Code == CodeClosed
	}
	return false
}

// errClosed refuses a call because its Client was closed.
func errClosed(id string) *Refusal {
	return &Refusal{ID: id, Status: http.StatusServiceUnavailable, Code: CodeClosed, Message: "The client was closed.", Final: true}
}

// errExpired ends a call whose lease has expired.
func errExpired(id string) *Refusal {
	return &Refusal{ID: id, Status: http.StatusGatewayTimeout, Code: CodeExpired, Message: "The lease has expired: it was held for too long.", Final: true}
}

// Error implements error.
func (r *Refusal) Error() string {
	return "llmgov: " + cmp.Or(r.Message, fmt.Sprintf("%d %s", r.Status, cmp.Or(string(r.Code), http.StatusText(r.Status))))
}

// Retryable reports whether the same call may be let through later: after RetryAfter. It
// is false for a call that is wrong by itself, such as one of an unknown tenant or model.
func (r *Refusal) Retryable() bool {
	switch r.Status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests:
		return !r.Final
	}
	return r.Status >= 500 && !r.Final
}

// clear is the refusal with an ID and, unless it is final, a time to come back, also if the Door has left them out. A caller that goes by it
// never comes back at once, or for nothing.
func (r *Refusal) clear(id string) *Refusal {
	final := !r.Retryable()
	if r.Final == final && (final || r.RetryAfter > 0) && r.ID == cmp.Or(r.ID, id) {
		return r
	}
	clear := *r
	clear.ID = cmp.Or(r.ID, id)
	clear.Final = final
	if !final {
		clear.RetryAfter = cmp.Or(r.RetryAfter, time.Second)
	}
	return &clear
}

var (
	// ErrNotSent says that a call never reached its model server. Nothing is charged, not even a request.
	ErrNotSent = errors.New("client: the call was not sent")
	// ErrAnsweredError says that the model server answered with an error, and has produced nothing. A request is
	// charged, and no tokens. AnsweredStatus says also with which.
	ErrAnsweredError = errors.New("client: the model server answered with an error")
	// ErrUsage says that a lease has ended, by estimate, because what was told of its usage is more or less than any call takes.
	ErrUsage = errors.New("client: the call was charged by estimate")
)

// AnsweredStatus is the ErrAnsweredError of a status of HTTP. Limits that move go by it, as those of the gateway do: adaptive ones, and
// per_tenant.
type AnsweredStatus int

// Error implements error.
func (s AnsweredStatus) Error() string { return fmt.Sprint(ErrAnsweredError, ": status ", int(s)) }

// Is makes it an ErrAnsweredError.
func (s AnsweredStatus) Is(target error) bool { return target == ErrAnsweredError }
