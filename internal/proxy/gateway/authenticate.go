package gateway

import (
	"net/http"
	"strconv"
	"time"

	"github.com/llmgov/llmgov/internal/lib/bearer"
	"github.com/llmgov/llmgov/internal/lib/connections"
	"github.com/llmgov/llmgov/internal/lib/text"
	"github.com/llmgov/llmgov/internal/proxy/gateway/realtime"
	"github.com/llmgov/llmgov/internal/run/admission/ask"
)

// MaxHeader is how many bytes of headers a request may have. A server around a Gateway should
// accept more: what is too large for the server it refuses by itself, in plain text, which no SDK
// understands.
const MaxHeader = 64 << 10

// unfit refuses what is wrong whoever asks: more headers than MaxHeader, or an unknown route.
func (c *call) unfit() *refusal {
	if n := headerBytes(c.r); n > MaxHeader {
		return &refusal{
			Status: http.StatusRequestHeaderFieldsTooLarge, Code: ask.CodeTooLarge,
			Message: "The headers have " + strconv.Itoa(n) + " bytes, more than " + strconv.Itoa(MaxHeader) + ". Send what is long in the body.",
		}
	}
	if c.at.Wrong && c.route != nil && realtime.Asked(c.r.Header) { // agents go on without a websocket at once
		return &refusal{
			Status: http.StatusUpgradeRequired, Code: ask.CodeInvalid,
			Message: c.route.Name + " is no websocket here. Send a POST.",
		}
	}
	if c.at.Wrong {
		return &refusal{Status: http.StatusNotFound, Code: ask.CodeNotFound, Message: "There is no route " + c.r.Method + " " + text.Brief(c.r.URL.Path) + "."}
	}
	return nil
}

// headerBytes is the length of a request's headers, including its first line.
func headerBytes(r *http.Request) int {
	n := len(r.Method) + len(r.RequestURI) + len(r.Host)
	for name, values := range r.Header {
		for _, v := range values {
			n += len(name) + len(v) + len(": \r\n")
		}
	}
	return n
}

// credential is the key or token of the caller; "" is none.
func (c *call) credential() string {
	key := bearer.Credential(c.r.Header)
	if key == "" && c.route != nil && c.route.Realtime {
		return realtime.Key(c.r.Header)
	}
	return key
}

// authenticate finds the tenant by its key.
func (c *call) authenticate() *refusal {
	if f := c.Identify(c.credential(), "Send it as \"Authorization: Bearer KEY\", \"x-api-key\" or \"api-key\"."); f != nil {
		return f
	}
	if !connections.Known(c.r.Context(), c.Tenant.Name) {
		c.closeAfter()
		return &refusal{
			Status: http.StatusServiceUnavailable, Code: ask.CodeOverloaded, RetryAfter: time.Second,
			Message: "Tenant " + c.Tenant.Name + " has its part of this gateway's connections, and none of them is idle. " + comeAgain(time.Second),
		}
	}
	return nil
}

// granted refuses a route that the tenant is not granted.
func (c *call) granted() *refusal {
	if c.Tenant.Routes.Has(c.at.Grant()) {
		return nil
	}
	return &refusal{Status: http.StatusForbidden, Code: ask.CodeRoute, Message: "Tenant " + c.Tenant.Name + " is not granted " + c.r.Method + " " + text.Brief(c.r.URL.Path) + ". Whoever runs this gateway can add " + c.at.Grant().String() + " to its routes."}
}
