package dialect

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/run/admission/ask"
)

// Dialect is a protocol in which callers ask for inference.
type Dialect struct {
	Name   string
	Routes []Route

	// ErrorBody is the error object that SDKs parse.
	ErrorBody func(*ask.Refusal) []byte
	// ErrorEvent is the event that ends a stream which broke off.
	ErrorEvent func(*ask.Refusal) []byte
	// RequestID is a header, beside X-Request-Id, in which SDKs look for the id of a refused call.
	RequestID string

	// ShowRate shows the rest of a limit, beside the headers that all answers have. It is nil if the
	// SDKs read these.
	ShowRate func(h http.Header, axis Axis, q governor.Quota, now time.Time)
	// RatePrefix begins the headers about a server's own limits, which are renamed for the caller.
	RatePrefix string

	// Passed are the request headers of the dialect that reach the upstream.
	Passed []string

	// usualTiers are the words by which bodies ask for the usual tier of service, by key; see [UsualTier].
	usualTiers map[string]string
}

// UsualTier is the word by which bodies of the route of a path ask for the usual tier of service under a key. It is "" if there is no such route, or
// it has no such word: what names none is taken for it.
func UsualTier(path, param string) string {
	d, r := Inference(path)
	if r == nil || r.Operation != "chat" {
		return ""
	}
	return d.usualTiers[param]
}

// All are the dialects.
var All = []*Dialect{OpenAI, Responses, Anthropic}

// Inference finds a route of inference and its dialect by the path below /v1; nil if there is none.
func Inference(path string) (*Dialect, *Route) {
	for _, d := range All {
		for i := range d.Routes {
			if r := &d.Routes[i]; r.Path == path {
				return d, r
			}
		}
	}
	return nil, nil
}

// InferencePaths lists the paths of inference below /v1, such as /chat/completions.
func InferencePaths() (list []string) {
	for _, d := range All {
		for _, r := range d.Routes {
			list = append(list, r.Path)
		}
	}
	return list
}

// Spoken is the dialect of a caller whose route belongs to none.
func Spoken(h http.Header) *Dialect {
	if h[anthropicVersion] != nil {
		return Anthropic
	}
	return OpenAI
}

// RatePrefixes begin the headers about limits.
var RatePrefixes = func() (list []string) {
	for _, d := range All {
		if d.RatePrefix != "" {
			list = append(list, d.RatePrefix)
		}
	}
	return list
}()

// Axis is the unit of a limit.
type Axis string

// The axes whose limits are shown.
const (
	Requests Axis = "Requests"
	Tokens   Axis = "Tokens"

	InputTokens  Axis = "Input-Tokens"
	OutputTokens Axis = "Output-Tokens"
)

// event is an event of a stream, with its name if it has one.
func event(name string, data []byte) []byte {
	out := make([]byte, 0, len(data)+len(name)+24)
	if name != "" {
		out = append(out, "event: "+name+"\n"...)
	}
	out = append(out, "data: "...)
	out = append(out, data...)
	return append(out, "\n\n"...)
}

func encoded(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("llmgov: BUG: an error cannot be encoded: " + err.Error())
	}
	return b
}
