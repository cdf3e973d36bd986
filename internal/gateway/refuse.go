package gateway

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/llmgov/llmgov/internal/policy"

	"github.com/llmgov/llmgov/governor"
)

// refusal is an answer that llmgov gives itself.
type refusal struct {
	status  int
	code    string // error.code; also the metric's reason
	kind    string // error.type; "" = the code
	param   string
	message string
	// retryAfter is when to come back; 0 is not said.
	retryAfter time.Duration
	// final tells SDKs not to retry by themselves.
	final bool
}

const (
	codeInvalid        = "invalid_request_error"
	codeKey            = policy.CodeKey
	codeRoute          = "route_not_allowed"
	codeModel          = policy.CodeModel
	codeNotFound       = "not_found"
	codeNoModel        = policy.CodeNoModel
	codeTooLarge       = "request_too_large"
	codeRate           = "rate_limit_exceeded"
	codeUpstream       = "upstream_error"
	codeUpstreamLate   = "upstream_timeout"
	codeDraining       = "draining"
	codeOverloaded     = "overloaded"
	codeBudget         = "insufficient_quota"
	codeStore          = "store_unavailable"
	codeRunning        = "request_in_progress"
	codeInternal       = "internal_error"
	statusClientClosed = 499 // nginx's, for logs only
)

// rejected is the refusal for a rejection by the governor.
func rejected(rej *governor.Rejection) *refusal {
	f := &refusal{status: http.StatusTooManyRequests, code: codeRate, message: rej.Error(), retryAfter: rej.RetryAfter}
	switch rej.Reason {
	case governor.ReasonQueueFull:
		f.kind = governor.ReasonShare.String()
	case governor.ReasonBudget:
		f.code = codeBudget
		f.final = true
	case governor.ReasonStore, governor.ReasonStoreLost:
		f.status = http.StatusServiceUnavailable
		f.code = codeStore
	case governor.ReasonOverloaded:
		f.status = http.StatusServiceUnavailable
		f.code = codeOverloaded
	case governor.ReasonDraining:
		f.status = http.StatusServiceUnavailable
		f.code = codeDraining
	case governor.ReasonThrottled: // SDKs know no such type
		f.kind = governor.ReasonRequests.String()
	case governor.ReasonCancelled:
		f.status = statusClientClosed
	default:
		f.kind = rej.Reason.String()
	}
	return f
}

// write sends the refusal in the caller's dialect.
func (f *refusal) write(w http.ResponseWriter, d dialect) {
	if f.status == statusClientClosed {
		w.WriteHeader(f.status) // the client has gone, or has only stopped sending
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Del("Content-Length")
	showRetry(h, f.retryAfter)
	if f.final {
		h.Set("x-should-retry", "false")
	}
	if d == anthropic {
		h.Set("Request-Id", h.Get("X-Request-Id")) // where Anthropic's SDKs look for it
	}
	w.WriteHeader(f.status)
	_, _ = w.Write(f.body(d))
}

// showRetry tells when to come back, if that is known. It is rounded up, since a call that comes
// back too early is refused again.
func showRetry(h http.Header, d time.Duration) {
	if d <= 0 {
		return
	}
	h.Set("retry-after-ms", strconv.FormatInt(int64((d+time.Millisecond-1)/time.Millisecond), 10))
	h.Set("Retry-After", strconv.FormatInt(max(1, int64((d+time.Second-1)/time.Second)), 10))
}

// comeAgain says the same to people.
func comeAgain(d time.Duration) string {
	return "Please try again in " + strconv.FormatFloat(d.Seconds(), 'f', 3, 64) + "s."
}

// body is the error object that SDKs parse.
func (f *refusal) body(d dialect) []byte {
	if d == anthropic {
		return encoded(anthropicError{Type: "error", Error: anthropicDetail{
			Type: anthropicType(f.status), Message: f.message, Code: f.code,
		}})
	}
	return encoded(openAIError{f.detail()})
}

func (f *refusal) detail() openAIDetail {
	detail := openAIDetail{Message: f.message, Type: f.kind, Code: f.code}
	if f.kind == "" {
		detail.Type = f.code
	}
	if f.param != "" {
		detail.Param = &f.param
	}
	return detail
}

func encoded(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("llmgov: BUG: an error cannot be encoded: " + err.Error())
	}
	return b
}

type openAIError struct {
	Error openAIDetail `json:"error"`
}

type openAIDetail struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    string  `json:"code"`
}

// responsesError is the error event of a Responses stream. Its first fields are what OpenAI
// documents; many SDKs raise an error only if there is an error object as well.
type responsesError struct {
	Type     string       `json:"type"`
	Sequence int          `json:"sequence_number"` // required by parsers; the true number is unknown
	Code     string       `json:"code"`
	Message  string       `json:"message"`
	Param    *string      `json:"param"`
	Error    openAIDetail `json:"error"`
}

type anthropicError struct {
	Type  string          `json:"type"`
	Error anthropicDetail `json:"error"`
}

// anthropicDetail has a code beside Anthropic's own fields, because their types tell a spent budget
// from a busy minute no more than the status does.
type anthropicDetail struct {
	Type    string `json:"type"`
	Message string `json:"message"`
	Code    string `json:"code"`
}

// anthropicType is Anthropic's name for a status.
func anthropicType(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "authentication_error"
	case http.StatusForbidden:
		return "permission_error"
	case http.StatusNotFound:
		return "not_found_error"
	case http.StatusConflict:
		return "conflict_error"
	case http.StatusRequestEntityTooLarge, http.StatusRequestHeaderFieldsTooLarge:
		return "request_too_large"
	case http.StatusTooManyRequests:
		return "rate_limit_error"
	case http.StatusServiceUnavailable:
		return "overloaded_error"
	case http.StatusGatewayTimeout:
		return "timeout_error"
	}
	if status >= 500 {
		return "api_error"
	}
	return "invalid_request_error"
}

// event is the refusal as an event in mid-stream.
func (f *refusal) event(d dialect) []byte {
	b := f.body(d)
	if d == openAIResponses {
		e := f.detail()
		b = encoded(responsesError{Type: "error", Code: e.Code, Message: e.Message, Param: e.Param, Error: e})
	}
	out := make([]byte, 0, len(b)+24)
	if d != openAI {
		out = append(out, "event: error\n"...)
	}
	out = append(out, "data: "...)
	out = append(out, b...)
	return append(out, "\n\n"...)
}
