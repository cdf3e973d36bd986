package explain

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/llmgov/llmgov/internal/lib/text"
	"github.com/llmgov/llmgov/internal/ops/adminapi"
	"github.com/llmgov/llmgov/internal/run/admission"
	"github.com/llmgov/llmgov/tenants"
)

// ExplainRefusal explains why a call was refused.
func (e *Explainer) ExplainRefusal(request, tenant string) (*adminapi.Explanation, error) {
	p, err := e.pastRefusal(request, tenant)
	if err != nil {
		return nil, err
	}
	return explainRefusal(p), nil
}

// pastRefusal finds a refusal by its request id, and by its tenant, if that is given. Ids are
// callers' to choose, so several tenants may have used one.
func (e *Explainer) pastRefusal(id, tenant string) (*admission.PastRefusal, error) {
	found := e.Admission.PastRefusals(id)
	if tenant != "" {
		found = slices.DeleteFunc(found, func(p *admission.PastRefusal) bool { return p.Tenant != tenant })
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return nil, &adminapi.Fault{Status: http.StatusNotFound, Code: adminapi.RequestNotFound, Message: "None of the last refusals is of a request with the id " + strconv.Quote(text.Brief(id)) + "; it is what x-request-id says. Calls that were admitted are not kept, nor are those without a valid key."}
	}
	var names []string
	for _, p := range found {
		names = append(names, p.Tenant)
	}
	slices.Sort(names)
	return nil, &adminapi.Fault{Status: http.StatusConflict, Code: "request_ambiguous", Message: "Calls of several tenants have the id " + strconv.Quote(text.Brief(id)) + ". Add tenant, one of " + text.Brief(strings.Join(names, ", ")) + "."}
}

func explainRefusal(p *admission.PastRefusal) *adminapi.Explanation {
	t, _ := p.Snapshot.TenantByName(p.Tenant)
	x := &adminapi.Explanation{Tenant: t.Name, Tier: t.Tier, Shadow: t.Shadow, PolicyHash: p.Snapshot.Hash(), Limits: []adminapi.ExplainedLimit{}}
	pools := p.Snapshot.Pools()
	if at := slices.IndexFunc(pools, func(o tenants.Pool) bool { return o.Name == p.Request.Pool }); at >= 0 {
		x = explainedCall(p.Snapshot, t, &pools[at], &p.Request)
	}
	x.Request = p.ID
	x.At = &p.At
	if p.Refused == nil {
		x.Decision = refusedWith(p.Said, nil)
		return x
	}
	x.Waited = p.Refused.Waited.Seconds()
	var decider *int
	x.Limits, decider = explainLimits(p.Snapshot, &p.Forecast)
	x.Upstreams = explainUpstreams(&p.Forecast)
	x.Decision = refusedWith(p.Said, decider)
	if p.Shadow {
		x.Decision, x.WithoutShadow = &adminapi.Decision{Outcome: adminapi.OutcomeAdmit}, x.Decision
	}
	return x
}
