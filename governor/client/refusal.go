package client

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Refusal is the error of a call that may not begin, or that the governor ended early.
type Refusal struct {
	// ID is that of the call, by which `llmgov explain` finds the reasons.
	ID string
	// Status is HTTP's.
	Status int
	// Code is for programs, such as rate_limit_exceeded, and Kind is the limit that refused, such as tokens. Kind
	// is "" if it says no more than Code.
	Code, Kind string
	// Param is the field of the request that is to blame; "" if none is.
	Param string
	// Message is for people.
	Message string
	// RetryAfter is when to come back; 0 is unknown.
	RetryAfter time.Duration
	// Final says that the call should not be retried by itself, whatever the Status: a budget is spent. See Retryable.
	Final bool
	// Header shows an HTTP caller where it stands and when to come back.
	Header http.Header
}

// Error implements error.
func (r *Refusal) Error() string {
	return "llmgov: " + cmp.Or(r.Message, fmt.Sprintf("%d %s", r.Status, cmp.Or(r.Code, http.StatusText(r.Status))))
}

// Retryable reports whether the same call may be let through later: after RetryAfter, or, if that is 0, a time of the caller's choice. It
// is false for a call that is wrong by itself, such as one of an unknown tenant or model.
func (r *Refusal) Retryable() bool {
	switch r.Status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests:
		return !r.Final
	}
	return r.Status >= 500 && !r.Final
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
