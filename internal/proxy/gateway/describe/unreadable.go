package describe

import (
	"bytes"
	"net/http"
	"strconv"

	"github.com/llmgov/llmgov/internal/lib/encoded"
	"github.com/llmgov/llmgov/internal/lib/text"
	"github.com/llmgov/llmgov/internal/proxy/gateway/head"
	"github.com/llmgov/llmgov/internal/run/admission/ask"
)

// MayNameDeeper reports whether a body of inference may name models below its top level: items of images that are
// drawn do.
func MayNameDeeper(body []byte) bool {
	return bytes.Contains(body, []byte("image_generation")) || bytes.Contains(body, []byte(`\u`))
}

// Encoded refuses a body with a Content-Encoding that is not known.
func Encoded(encoding string) *ask.Refusal {
	return &ask.Refusal{
		Status: http.StatusUnsupportedMediaType, Code: ask.CodeInvalid,
		Message: "A body with Content-Encoding " + strconv.Quote(text.Brief(encoding)) + " cannot be governed. Send it as it is, or as " + encoded.Known + ".",
	}
}

// Garbled refuses a body that is not what its Content-Encoding says.
func Garbled(b *encoded.Broken) *ask.Refusal {
	return ask.Invalid("", "The body is not whole, or no "+b.Encoding+" as its Content-Encoding says: "+text.Brief(b.Cause.Error())+".")
}

// Unreadable refuses a body or a query that cannot be read.
func Unreadable(err *head.Error) *ask.Refusal { return ask.Invalid(err.Param, err.Message) }
