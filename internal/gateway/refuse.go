package gateway

import (
	"net/http"
	"strconv"
	"time"

	"github.com/llmgov/llmgov/internal/admission"
	"github.com/llmgov/llmgov/internal/gateway/dialect"
)

// refusal is an answer that llmgov gives itself.
type refusal = admission.Refusal

// writeRefusal sends a refusal in the caller's dialect.
func writeRefusal(w http.ResponseWriter, f *refusal, d *dialect.Dialect) {
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
	if d.RequestID != "" {
		h.Set(d.RequestID, h.Get("X-Request-Id"))
	}
	w.WriteHeader(f.Status)
	_, _ = w.Write(d.ErrorBody(f))
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
