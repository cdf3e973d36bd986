package describe

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"

	"github.com/llmgov/llmgov/internal/admission"
	"github.com/llmgov/llmgov/internal/encoded"
	"github.com/llmgov/llmgov/internal/gateway/head"
	"github.com/llmgov/llmgov/internal/text"
	"github.com/llmgov/llmgov/tenants"
)

// Scope is whose call it is, and in which pool.
type Scope struct {
	Snapshot *tenants.Snapshot
	Tenant   *tenants.Tenant
	Pool     *tenants.Pool
	MayUse   func(model string) bool
}

// Others refuses further models at the top level of a body that the caller is not granted, or that another pool
// limits.
func (s *Scope) Others(h *head.Head) *admission.Refusal {
	for _, o := range h.Others {
		p, served := s.Snapshot.PoolOf(o.Model)
		switch {
		case o.Instead && !served:
			return admission.NoModel(o.Model)
		case !s.MayUse(o.Model):
			return admission.NotGranted(s.Tenant.Name, o.Param, o.Model)
		case s.Snapshot.RealModel(o.Model) != o.Model, s.Pool.Renames(o.Model):
			return invalid(o.Param, strconv.Quote(text.Brief(o.Model))+" is another name of a model here, which the provider does not know. Name the model itself.")
		case o.Instead && p.Index != s.Pool.Index:
			return admission.CannotStandIn(o.Param, o.Model)
		}
	}
	if h.FallsBack && len(h.Others) == 0 {
		return invalid("route", "With route: \"fallback\" the provider chooses a model. Name in models which ones it may use.")
	}
	return nil
}

// MayNameDeeper reports whether a body of inference may name models below its top level: items of images that are
// drawn do.
func MayNameDeeper(body []byte) bool {
	return bytes.Contains(body, []byte("image_generation")) || bytes.Contains(body, []byte(`\u`))
}

// Deeper refuses a body that names a model below its top level that the tenant may not use.
func (s *Scope) Deeper(body []byte) *admission.Refusal {
	deeper := ""
	_, err := head.Walk(body, func(key, text string, depth int) {
		if depth > 1 && strings.EqualFold(key, "model") && text != "{" && !s.MayUse(text) {
			deeper = text
		}
	})
	if err != nil {
		return Unreadable(err)
	}
	if deeper != "" {
		return admission.NotGranted(s.Tenant.Name, "model", deeper)
	}
	return nil
}

// Encoded refuses a body with a Content-Encoding that is not known.
func Encoded(encoding string) *admission.Refusal {
	return &admission.Refusal{
		Status: http.StatusUnsupportedMediaType, Code: admission.CodeInvalid,
		Message: "A body with Content-Encoding " + strconv.Quote(text.Brief(encoding)) + " cannot be governed. Send it as it is, or as " + encoded.Known + ".",
	}
}

// Garbled refuses a body that is not what its Content-Encoding says.
func Garbled(b *encoded.Broken) *admission.Refusal {
	return invalid("", "The body is not whole, or no "+b.Encoding+" as its Content-Encoding says: "+text.Brief(b.Cause.Error())+".")
}

// Unreadable refuses a body or a query that cannot be read.
func Unreadable(err *head.Error) *admission.Refusal { return invalid(err.Param, err.Message) }
