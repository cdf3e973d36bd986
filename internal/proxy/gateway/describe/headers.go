package describe

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/internal/run/admission/ask"
)

// RequestID takes over the caller's id if it is fit for logs and headers, or makes one.
func RequestID(h http.Header) string {
	if id := first(h, "X-Request-Id"); id != "" && len(id) <= 128 && strings.IndexFunc(id, func(c rune) bool { return c <= ' ' || c > '~' }) < 0 {
		return id
	}
	var b [12]byte // unique, but no secret
	binary.NativeEndian.PutUint64(b[:8], rand.Uint64())
	binary.NativeEndian.PutUint32(b[8:], rand.Uint32())
	id := append(make([]byte, 0, len("req_")+hex.EncodedLen(len(b))), "req_"...)
	return string(hex.AppendEncode(id, b[:]))
}

// Hints reads the headers by which callers say how a call is to be treated.
func Hints(h http.Header, a *ask.Ask) *ask.Refusal {
	a.Header = ask.Header(h)
	switch p := first(h, "X-Llmgov-Priority"); p {
	case "", "interactive":
	case "background":
		a.Background = true
	default:
		return ask.Invalid("x-llmgov-priority", "x-llmgov-priority must be interactive or background, not "+strconv.Quote(p)+".")
	}
	if text := first(h, "X-Llmgov-Max-Wait"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 {
			return ask.Invalid("x-llmgov-max-wait", "x-llmgov-max-wait must be a duration such as 500ms or 3s, not "+strconv.Quote(text)+".")
		}
		a.MaxWait = &d
	}
	return nil
}

// Attempt is the count of retries that Stainless SDKs (openai, anthropic) send.
func Attempt(h http.Header) escrow.Retry {
	count := first(h, "X-Stainless-Retry-Count")
	if count == "" {
		return escrow.RetryUnknown
	}
	n, err := strconv.Atoi(count)
	switch {
	case err != nil:
		return escrow.RetryUnknown
	case n > 0:
		return escrow.RetryAgain
	}
	return escrow.RetryFirst
}

// first is h.Get for a name that is spelled as net/http does, and need not be checked for that.
func first(h http.Header, name string) string {
	if values := h[name]; len(values) > 0 {
		return values[0]
	}
	return ""
}
