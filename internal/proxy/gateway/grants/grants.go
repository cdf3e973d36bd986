// Package grants refuses bodies that name further models than the one that their caller is let in for, if the caller is
// not granted these, or another pool limits them, and tiers of service that it may not ask for.
package grants

import (
	"strconv"
	"strings"

	"github.com/llmgov/llmgov/internal/lib/text"
	"github.com/llmgov/llmgov/internal/proxy/gateway/describe"
	"github.com/llmgov/llmgov/internal/proxy/gateway/dialect"
	"github.com/llmgov/llmgov/internal/proxy/gateway/head"
	"github.com/llmgov/llmgov/internal/run/admission"
	"github.com/llmgov/llmgov/internal/run/admission/ask"
	"github.com/llmgov/llmgov/tenants"
)

// Scope is whose call it is, and in which pool.
type Scope struct {
	Snapshot *tenants.Snapshot
	Tenant   *tenants.Tenant
	Pool     *tenants.Pool
	MayUse   func(model string) bool
}

// Tiers refuses a body, of the route of a path, that names a tier of service for which its tenant may not ask, or lowers that.
func (s *Scope) Tiers(path string, h *head.Head) *ask.Refusal {
	t := s.Tenant
	h.Lower(func(tier string) bool { return !t.LowerTiers || t.MayAskFor(tier) }, func(param string) string {
		if s.Pool.OtherTiers {
			return ""
		}
		return dialect.UsualTier(path, param)
	})
	if t.LowerTiers {
		return nil
	}
	for tier := h.Asked; tier != nil; tier = tier.Before {
		if !t.MayAskFor(tier.Name) {
			return ask.Invalid(tier.Param, "Tenant "+t.Name+" may not ask for the "+tier.Param+" "+strconv.Quote(text.Brief(tier.Name))+
				", but for "+strings.Join(t.ServiceTiers, ", ")+". Leave it out, or name one of these.")
		}
	}
	return nil
}

// Others refuses further models at the top level of a body, of the route of a path, that the caller is not granted, or that another pool
// limits, and tiers of service.
func (s *Scope) Others(path string, h *head.Head) *ask.Refusal {
	if f := s.Tiers(path, h); f != nil {
		return f
	}
	for _, o := range h.Others {
		p, served := s.Snapshot.PoolOf(o.Model)
		switch {
		case o.Instead && !served:
			return admission.NoModel(o.Model)
		case !s.MayUse(o.Model):
			return admission.NotGranted(s.Tenant.Name, o.Param, o.Model)
		case s.Snapshot.RealModel(o.Model) != o.Model, s.Pool.Renames(o.Model):
			return ask.Invalid(o.Param, strconv.Quote(text.Brief(o.Model))+" is another name of a model here, which the provider does not know. Name the model itself.")
		case o.Instead && p.Index != s.Pool.Index:
			return admission.CannotStandIn(o.Param, o.Model)
		}
	}
	if h.FallsBack && len(h.Others) == 0 {
		return ask.Invalid("route", "With route: \"fallback\" the provider chooses a model. Name in models which ones it may use.")
	}
	return nil
}

// Deeper refuses a body that names a model below its top level that the tenant may not use.
func (s *Scope) Deeper(body []byte) *ask.Refusal {
	deeper := ""
	_, err := head.Walk(body, func(key, text string, depth int) {
		if depth > 1 && strings.EqualFold(key, "model") && text != "{" && !s.MayUse(text) {
			deeper = text
		}
	})
	if err != nil {
		return describe.Unreadable(err)
	}
	if deeper != "" {
		return admission.NotGranted(s.Tenant.Name, "model", deeper)
	}
	return nil
}
