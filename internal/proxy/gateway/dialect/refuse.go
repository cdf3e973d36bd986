package dialect

import (
	"net/http"
	"time"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/run/admission/ask"
	"github.com/llmgov/llmgov/internal/run/rateheaders"
)

// Refuse returns the body of a refusal by a node, and sets its headers. X-Request-Id is set already, and so is what names the
// node if node is "".
func (d *Dialect) Refuse(h http.Header, f *ask.Refusal, node string) []byte {
	h.Set("Content-Type", "application/json")
	rateheaders.Node(h, node)
	rateheaders.Retry(h, f.Status, f.RetryAfter, f.Final)
	if d.RequestID != "" {
		h.Set(d.RequestID, h.Get("X-Request-Id"))
	}
	return d.ErrorBody(f)
}

// Show shows where a tenant stands, in the headers of all dialects and those of this one.
func (d *Dialect) Show(h http.Header, gov *governor.Governor, tenant, pool string) {
	st := rateheaders.Show(h, gov, tenant, pool)
	if d.ShowRate == nil {
		return
	}
	now := time.Now()
	for _, axis := range [...]struct {
		name  Axis
		quota governor.Quota
	}{{Requests, st.Requests}, {Tokens, st.Tokens}, {InputTokens, st.Input}, {OutputTokens, st.Output}} {
		if axis.quota.Limit != 0 {
			d.ShowRate(h, axis.name, axis.quota, now)
		}
	}
}
