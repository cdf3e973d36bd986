package dialect

import (
	"net/http"
	"strconv"
	"time"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/proxy/gateway/head"
	"github.com/llmgov/llmgov/internal/run/admission/ask"
)

// Anthropic is the dialect of messages.
var Anthropic = &Dialect{
	Name: "anthropic",
	Routes: []Route{
		{Path: "/messages", Bounds: []head.Bound{head.MaxTokens}, Operation: "chat"},
		{Path: "/messages/count_tokens", Free: true},
	},
	ErrorBody:  anthropicBody,
	ErrorEvent: func(f *ask.Refusal) []byte { return event("error", anthropicBody(f)) },
	RequestID:  "Request-Id",
	ShowRate:   showAnthropicRate,
	RatePrefix: "Anthropic-",
	Passed:     []string{anthropicVersion, "Anthropic-Beta", "Anthropic-Dangerous-Direct-Browser-Access"},
	usualTiers: map[string]string{"service_tier": "standard_only", "speed": "standard"},
}

const anthropicVersion = "Anthropic-Version"

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

func anthropicBody(f *ask.Refusal) []byte {
	return encoded(anthropicError{Type: "error", Error: anthropicDetail{
		Type: anthropicType(f), Message: f.Message, Code: f.Code,
	}})
}

var anthropicTypes = map[int]string{
	http.StatusUnauthorized: "authentication_error", http.StatusPaymentRequired: "billing_error", http.StatusForbidden: "permission_error",
	http.StatusNotFound: "not_found_error", http.StatusConflict: "conflict_error", http.StatusTooManyRequests: "rate_limit_error",
	http.StatusRequestEntityTooLarge: "request_too_large", http.StatusRequestHeaderFieldsTooLarge: "request_too_large",
	http.StatusGatewayTimeout: "timeout_error",
}

// anthropicType is Anthropic's name for a refusal. Of those with status 503 only the ones for a full queue or memory are an
// overload: agents end their session at the third overload, and try longer at other failures.
func anthropicType(f *ask.Refusal) string {
	known := anthropicTypes[f.Status]
	switch {
	case known != "":
		return known
	case f.Code == ask.CodeOverloaded:
		return "overloaded_error"
	case f.Status >= 500:
		return "api_error"
	}
	return "invalid_request_error"
}

// showAnthropicRate shows a limit under the names that Anthropic's SDKs read, where the reset is a time.
func showAnthropicRate(h http.Header, axis Axis, q governor.Quota, now time.Time) {
	prefix := "Anthropic-Ratelimit-" + string(axis)
	h.Set(prefix+"-Limit", strconv.FormatInt(q.Limit, 10))
	h.Set(prefix+"-Remaining", strconv.FormatInt(q.Remaining, 10))
	at := now.Add(q.Reset + time.Second - 1) // rounded up to whole seconds
	h.Set(prefix+"-Reset", at.UTC().Format(time.RFC3339))
}
