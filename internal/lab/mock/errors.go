package mock

import (
	"strconv"
	"time"

	"github.com/tidwall/gjson"
)

// apiError is an error of OpenAI's API.
type apiError struct {
	status     int
	message    string
	kind       string // "type"
	param      string // "" = null
	code       string // "" = null
	retryAfter time.Duration
	noRetry    bool // waiting does not help
}

func badRequest(param, message string) *apiError {
	return &apiError{status: 400, message: message, kind: "invalid_request_error", param: param}
}

// serverError is OpenAI's error when it fails.
func serverError(status int) *apiError {
	return &apiError{
		status: status, kind: "server_error",
		message: "The server had an error while processing your request. Sorry about that!",
	}
}

// injected returns the error that a request's hook asks for.
func injected(status int) *apiError {
	switch {
	case status >= 500:
		return serverError(status)
	case status == 429:
		return &apiError{
			status: status, message: "Rate limit reached, as the request asked. Please try again in 1s.",
			kind: "requests", code: "rate_limit_exceeded", retryAfter: time.Second,
		}
	}
	return &apiError{status: status, message: "The request asked for this error.", kind: "invalid_request_error"}
}

// append writes the body {"error":{…}}.
func (e *apiError) append(b []byte) []byte {
	b = append(b, `{"error":{"message":`...)
	b = gjson.AppendJSONString(b, e.message)
	b = append(b, `,"type":`...)
	b = gjson.AppendJSONString(b, e.kind)
	b = append(b, `,"param":`...)
	b = appendOrNull(b, e.param)
	b = append(b, `,"code":`...)
	b = appendOrNull(b, e.code)
	return append(b, "}}"...)
}

// appendAnthropic writes the body in the form of Anthropic's API.
func (e *apiError) appendAnthropic(b []byte) []byte {
	b = append(b, `{"type":"error","error":{"type":`...)
	b = gjson.AppendJSONString(b, e.anthropicKind())
	b = append(b, `,"message":`...)
	b = gjson.AppendJSONString(b, e.message)
	return append(b, "}}"...)
}

// anthropicKind is Anthropic's type of an error with this status.
func (e *apiError) anthropicKind() string {
	switch {
	case e.status == 401:
		return "authentication_error"
	case e.status == 403:
		return "permission_error"
	case e.status == 404:
		return "not_found_error"
	case e.status == 413:
		return "request_too_large"
	case e.status == 429:
		return "rate_limit_error"
	case e.status == 529:
		return "overloaded_error"
	case e.status >= 500:
		return "api_error"
	}
	return "invalid_request_error"
}

func appendOrNull(b []byte, s string) []byte {
	if s == "" {
		return append(b, "null"...)
	}
	return gjson.AppendJSONString(b, s)
}

// set writes the headers with the time to come back. Retry-After has whole seconds only, so
// it is rounded up, and never 0, because clients ignore that.
func (e *apiError) set(h *header) {
	if e.retryAfter > 0 {
		h.set("Retry-After", strconv.FormatInt(int64((e.retryAfter+time.Second-1)/time.Second), 10))
		h.set("Retry-After-Ms", strconv.FormatInt(roundUp(e.retryAfter).Milliseconds(), 10))
	}
	if e.noRetry {
		h.set("X-Should-Retry", "false")
	}
}

// roundUp returns d in whole milliseconds, never less than d, so that clients do not come back too early.
func roundUp(d time.Duration) time.Duration {
	return (d + time.Millisecond - 1).Truncate(time.Millisecond)
}
