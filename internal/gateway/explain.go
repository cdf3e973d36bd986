package gateway

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/adminapi"
	"github.com/llmgov/llmgov/tenants"
)

// ExplainFiles tells what the policy says of a call: the limits that apply, and nothing of what is
// used of them. The question must be valid.
func ExplainFiles(snap *tenants.Snapshot, q *Question) (*adminapi.Explanation, error) {
	x, req, _, err := explained(snap, q)
	if err != nil {
		return nil, err
	}
	gov, err := governor.New(GovernorConfig(snap)) // in which nothing was used
	if err != nil {
		return nil, err
	}
	o, ok := gov.Explain(*req)
	if !ok {
		return nil, unknownThere(req)
	}
	for i := range o.Checks {
		o.Checks[i].Wait = 0 // a pool that has just begun waits for its pace
	}
	x.Limits, _ = explainLimits(snap, &governor.Outlook{Checks: o.Checks})
	for i := range x.Limits {
		l := &x.Limits[i]
		l.Used, l.Left, l.Wait = nil, nil, nil
	}
	return x, nil
}

// explain answers GET /api/v1/explain.
func (g *Gateway) explain(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Cache-Control", "no-store")
	if query := r.URL.Query(); query.Has("request") {
		x, err := g.explainRefusal(query)
		if err == nil {
			respond(w, x)
		}
		return err
	}
	q, err := readQuestion(r.URL.Query())
	if err != nil {
		return err
	}
	x, err := g.explanation(q)
	if asked, ok := errors.AsType[*tenants.AskError](err); ok {
		return notAsked(asked)
	}
	if err != nil {
		return err
	}
	respond(w, x)
	return nil
}

// explanation tells what a call would meet now.
func (g *Gateway) explanation(q *Question) (*adminapi.Explanation, error) {
	g.applying.Lock() // so that the governor knows the same policy
	defer g.applying.Unlock()
	w := g.world.Load()
	x, req, p, err := explained(w.snap, q)
	if err != nil {
		return nil, err
	}
	o, ok := g.gov.Explain(*req)
	if !ok {
		return nil, unknownThere(req)
	}
	var decider *int
	x.Limits, decider = explainLimits(w.snap, &o)
	strict := decided(&o, decider)
	x.Decision = strict
	if x.Shadow && (o.Refused == nil || o.Refused.Reason != governor.ReasonDraining) {
		x.Decision, x.WithoutShadow = &adminapi.Decision{Outcome: adminapi.OutcomeAdmit}, strict
	}
	if f := w.pools[p.Index].tooLong(req.Input); f != nil { // even of a shadow
		x.Decision, x.WithoutShadow = refusedWith(f, nil), nil
	}
	return x, nil
}

// explained returns what the policy alone says of a call, and the call and its pool.
func explained(snap *tenants.Snapshot, q *Question) (*adminapi.Explanation, *governor.Request, *tenants.Pool, error) {
	t, p, err := snap.Ask(q.Tenant, q.Model)
	if err != nil {
		return nil, nil, nil, err
	}
	req := q.request(snap, t, p)
	return explainedCall(snap, t, p, req), req, p, nil
}

// explainedCall is what the policy alone says of a tenant's call to a pool.
func explainedCall(snap *tenants.Snapshot, t *tenants.Tenant, p *tenants.Pool, req *governor.Request) *adminapi.Explanation {
	x := &adminapi.Explanation{
		Tenant: t.Name, Tier: t.Tier, Pool: p.Name, Model: req.Model, Upstream: p.UpstreamNames(), UpstreamModel: snap.RealModel(req.Model),
		Tokens: req.Input + req.Output, Input: req.Input, Output: req.Output,
		Priority: priorityInteractive, MaxWait: t.MaxWait.Seconds(), Shadow: t.Shadow, PolicyHash: snap.Hash(),
		TenantLimits: string(p.TenantLimits),
	}
	if req.Background || t.Background {
		x.Priority = priorityBackground
	}
	if req.MaxWait != nil {
		x.MaxWait = min(x.MaxWait, req.MaxWait.Seconds())
	}
	return x
}

// notAsked is the answer to a question about a call that nobody could make.
func notAsked(err *tenants.AskError) *adminError {
	e := &adminError{http.StatusNotFound, "tenant_not_found", sentence(err.What)}
	switch err.Kind {
	case tenants.ErrNoModel:
		e.code = codeNoModel
	case tenants.ErrNoGrant:
		e.status, e.code = http.StatusForbidden, codeModel
	case tenants.ErrNoKeys:
		e.status, e.code = http.StatusConflict, "tenant_without_keys"
	}
	return e
}

// sentence turns an error text of package tenants into a sentence.
func sentence(s string) string {
	s = strings.ToUpper(s[:1]) + s[1:]
	if strings.HasSuffix(s, "?") {
		return s
	}
	return s + "."
}

func unknownThere(req *governor.Request) error {
	return fmt.Errorf("gateway: the governor knows no tenant %q in pool %q", req.Tenant, req.Pool)
}
