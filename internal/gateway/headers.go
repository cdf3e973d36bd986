package gateway

import (
	"net/http"
	"strconv"

	"github.com/llmgov/llmgov/internal/admission"
)

// MaxHeader is how many bytes of headers a request may have. A server around a Gateway should
// accept more: what is too large for the server it refuses by itself, in plain text, which no SDK
// understands.
const MaxHeader = 64 << 10

// unfit refuses what is wrong whoever asks: more headers than MaxHeader, or an unknown route.
func (c *call) unfit() *refusal {
	if n := headerBytes(c.r); n > MaxHeader {
		return &refusal{
			Status: http.StatusRequestHeaderFieldsTooLarge, Code: admission.CodeTooLarge,
			Message: "The headers have " + strconv.Itoa(n) + " bytes, more than " + strconv.Itoa(MaxHeader) + ". Send what is long in the body.",
		}
	}
	if c.at.Wrong {
		return &refusal{Status: http.StatusNotFound, Code: admission.CodeNotFound, Message: "There is no route " + c.r.Method + " " + brief(c.r.URL.Path) + "."}
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
