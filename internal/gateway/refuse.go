package gateway

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/llmgov/llmgov/internal/admission"
)

// refusal is an answer that llmgov gives itself.
type refusal = admission.Refusal

// writeRefusal sends a refusal in the caller's dialect.
func writeRefusal(w http.ResponseWriter, f *refusal, d dialect) {
	if f.Status == admission.StatusClientClosed {
		w.WriteHeader(f.Status) // the client has gone, or has only stopped sending
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Del("Content-Length")
	showRetry(h, f.RetryAfter)
	if f.Final {
		h.Set("x-should-retry", "false")
	}
	if d == anthropic {
		h.Set("Request-Id", h.Get("X-Request-Id")) // where Anthropic's SDKs look for it
	}
	w.WriteHeader(f.Status)
	_, _ = w.Write(errorBody(f, d))
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

// errorBody is the error object that SDKs parse.
func errorBody(f *refusal, d dialect) []byte {
	if d == anthropic {
		return encoded(anthropicError{Type: "error", Error: anthropicDetail{
			Type: anthropicType(f.Status), Message: f.Message, Code: f.Code,
		}})
	}
	return encoded(openAIError{errorDetail(f)})
}

func errorDetail(f *refusal) openAIDetail {
	detail := openAIDetail{Message: f.Message, Type: f.Kind, Code: f.Code}
	if f.Kind == "" {
		detail.Type = f.Code
	}
	if f.Param != "" {
		detail.Param = &f.Param
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

// errorEvent is a refusal as an event in mid-stream.
func errorEvent(f *refusal, d dialect) []byte {
	b := errorBody(f, d)
	if d == openAIResponses {
		e := errorDetail(f)
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
