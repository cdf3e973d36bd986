package gateway

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/adminapi"
	"github.com/llmgov/llmgov/internal/admission"
	"github.com/llmgov/llmgov/tenants"
)

// keptRefusals is how many refusals can be explained afterwards.
const keptRefusals = 2048

// pastRefusal is a call that was refused, with all that it takes to explain why. The explanation is
// worked out only when somebody asks.
type pastRefusal struct {
	id     string
	at     time.Time
	snap   *tenants.Snapshot
	tenant *tenants.Tenant
	req    governor.Request
	said   *refusal // the answer, or what it would have been:
	shadow bool     // the call went all the same
	// rejected is the governor's reason, and outlook is how all limits stood; they are nil if
	// something else was wrong with the call.
	rejected *governor.Rejection
	outlook  governor.Outlook
}

// remember keeps a refusal for whoever asks about it later.
func (g *Gateway) remember(p *pastRefusal) { g.refused.Keep(p.tenant.Name, p.id, p) }

// noteReasons remembers why the governor refused the call, or would have.
func (c *call) noteReasons(rej *governor.Rejection, shadow bool) {
	if rej.Reason == governor.ReasonCancelled {
		return
	}
	c.g.remember(&pastRefusal{
		id: c.id, at: time.Now(), snap: c.world.Snapshot, tenant: c.tenant, req: c.req, said: admission.Rejected(rej), shadow: shadow, rejected: rej,
		outlook: c.g.gov.Reasons(c.req, rej),
	})
}

// ExplainRefusal explains why a call was refused.
func (g *Gateway) ExplainRefusal(request, tenant string) (*adminapi.Explanation, error) {
	p, err := g.pastRefusal(request, tenant)
	if err != nil {
		return nil, err
	}
	return p.explain(), nil
}

// pastRefusal finds a refusal by its request id, and by its tenant, if that is given. Ids are
// callers' to choose, so several tenants may have used one.
func (g *Gateway) pastRefusal(id, tenant string) (*pastRefusal, error) {
	found := g.refused.Find(id)
	if tenant != "" {
		found = slices.DeleteFunc(found, func(p *pastRefusal) bool { return p.tenant.Name != tenant })
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return nil, &adminapi.Fault{Status: http.StatusNotFound, Code: "request_not_found", Message: "None of the last refusals is of a request with the id " + quoted(brief(id)) + "; it is what x-request-id says. Calls that were admitted are not kept, nor are those without a valid key; of several gateways ask the one that refused it."}
	}
	var names []string
	for _, p := range found {
		names = append(names, p.tenant.Name)
	}
	slices.Sort(names)
	return nil, &adminapi.Fault{Status: http.StatusConflict, Code: "request_ambiguous", Message: "Calls of several tenants have the id " + quoted(brief(id)) + ". Add tenant, one of " + brief(strings.Join(names, ", ")) + "."}
}

func (p *pastRefusal) explain() *adminapi.Explanation {
	x := &adminapi.Explanation{Tenant: p.tenant.Name, Tier: p.tenant.Tier, Shadow: p.tenant.Shadow, PolicyHash: p.snap.Hash(), Limits: []adminapi.ExplainedLimit{}}
	pools := p.snap.Pools()
	if at := slices.IndexFunc(pools, func(o tenants.Pool) bool { return o.Name == p.req.Pool }); at >= 0 {
		x = explainedCall(p.snap, p.tenant, &pools[at], &p.req)
	}
	x.Request = p.id
	x.At = &p.at
	if p.rejected == nil {
		x.Decision = refusedWith(p.said, nil)
		return x
	}
	x.Waited = p.rejected.Waited.Seconds()
	var decider *int
	x.Limits, decider = explainLimits(p.snap, &p.outlook)
	x.Decision = refusedWith(p.said, decider)
	if p.shadow {
		x.Decision, x.WithoutShadow = &adminapi.Decision{Outcome: adminapi.OutcomeAdmit}, x.Decision
	}
	return x
}
