// Package explain answers why a call would be admitted, would wait or would be refused, and why one was refused:
// the limits that apply to it, where they are written, and the one that decides. It changes nothing.
package explain

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/llmgov/llmgov/internal/run/admission"
	"github.com/llmgov/llmgov/internal/run/policy"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/governor/terms"
	"github.com/llmgov/llmgov/internal/ops/adminapi"
	"github.com/llmgov/llmgov/internal/run/admission/ask"
	"github.com/llmgov/llmgov/tenants"
)

// Explainer explains calls by the policy in force.
type Explainer struct {
	Admission *admission.Controller
	Governor  *governor.Governor
}

// Files explains a call by the policy alone: the limits that apply, without their present use. The question
// must be valid.
func Files(snap *tenants.Snapshot, q *adminapi.Question) (*adminapi.Explanation, error) {
	x, req, _, err := explained(snap, q)
	if err != nil {
		return nil, err
	}
	gov, err := governor.New(policy.Governor(snap)) // in which nothing was used
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
	x.Limits, _ = explainLimits(snap, &governor.Forecast{Checks: o.Checks})
	for i := range x.Limits {
		l := &x.Limits[i]
		l.Used = nil
		l.Left = nil
		l.Wait = nil
	}
	return x, nil
}

// Explain shows the limits that a call would meet now.
func (e *Explainer) Explain(q *adminapi.Question) (*adminapi.Explanation, error) {
	x, err := e.explanation(q)
	if asked, ok := errors.AsType[*tenants.AskError](err); ok {
		return nil, notAsked(asked)
	}
	return x, err
}

// explanation is Explain, with errors as package tenants has them.
func (e *Explainer) explanation(q *adminapi.Question) (*adminapi.Explanation, error) {
	var x *adminapi.Explanation
	var err error
	e.Admission.Steady(func() { x, err = e.explainedNow(q) }) // the governor knows the same policy
	return x, err
}

// explainedNow is explanation while no policy is being taken over.
func (e *Explainer) explainedNow(q *adminapi.Question) (*adminapi.Explanation, error) {
	now := e.Admission.Policy()
	x, req, p, err := explained(now.Snapshot, q)
	if err != nil {
		return nil, err
	}
	o, ok := e.Governor.Explain(*req)
	if !ok {
		return nil, unknownThere(req)
	}
	var decider *int
	x.Limits, decider = explainLimits(now.Snapshot, &o)
	x.Upstreams = explainUpstreams(&o)
	t, _ := now.Snapshot.TenantOf(req.Tenant)
	strict := decided(&o, t, decider)
	x.Decision = strict
	if x.Shadow && (o.Refused == nil || o.Refused.Reason != governor.ReasonDraining) {
		x.Decision = &adminapi.Decision{Outcome: adminapi.OutcomeAdmit, Upstream: o.Upstream}
		x.WithoutShadow = strict
	}
	f := admission.Overridden(t, time.Now())
	if f == nil {
		f = now.Pools[p.Index].TooLong(req.Input, req.Via) // even of a shadow
	}
	if f != nil {
		x.Decision = refusedWith(f, nil)
		x.WithoutShadow = nil
	}
	blocked := admission.Blocked(t, q.Member, time.Now())
	switch {
	case blocked == nil:
	case !x.Shadow:
		x.Decision = refusedWith(blocked, nil)
	case f == nil:
		x.WithoutShadow = refusedWith(blocked, nil)
	}
	return x, nil
}

// explained returns the explanation by the policy alone of a call, and the call and its pool.
func explained(snap *tenants.Snapshot, q *adminapi.Question) (*adminapi.Explanation, *governor.Request, *tenants.Pool, error) {
	t, p, err := snap.Ask(q.Tenant, q.Model)
	if err != nil {
		return nil, nil, nil, err
	}
	if q.Member != "" && t.Members == nil {
		return nil, nil, nil, adminapi.BadRequest("Tenant " + t.Name + " has no members in its policy. Leave the member out.")
	}
	if t.Members != nil {
		q.Member = t.Members.Plain(q.Member)
	}
	req := questioned(q, snap, t, p)
	return explainedCall(snap, t, p, req), req, p, nil
}

// explainedCall is the explanation by the policy alone of a tenant's call to a pool.
func explainedCall(snap *tenants.Snapshot, t *tenants.Tenant, p *tenants.Pool, req *governor.Request) *adminapi.Explanation {
	_, member, _ := terms.CutMember(req.Tenant)
	x := &adminapi.Explanation{
		Tenant: t.Name, Member: member, Tier: t.Tier, Pool: p.Name, Model: req.Model, Upstream: p.For(t).UpstreamNames(), UpstreamModel: p.For(t).ModelNames(snap.RealModel(req.Model)),
		Tokens: req.Input + req.Output, Input: req.Input, Output: req.Output,
		Priority: adminapi.PriorityInteractive, MaxWait: t.MaxWait.Seconds(), Shadow: t.Shadow, PolicyHash: snap.Hash(),
		TenantLimits: p.TenantLimits.String(),
	}
	for _, o := range snap.Overrides() {
		if o.Tenant == t.Name || o.Tenant == req.Tenant || strings.HasPrefix(t.Name, o.Tenant+"/") {
			x.Overrides = append(x.Overrides, o)
		}
	}
	switch {
	case req.Background || t.Background:
		x.Priority = adminapi.PriorityBackground
	case req.Below > 0:
		x.Priority = "priority " + tenants.SpellPriority(max(int64(req.Below), t.Below))
	}
	if req.MaxWait != nil {
		x.MaxWait = min(x.MaxWait, req.MaxWait.Seconds())
	}
	return x
}

// notAsked is the answer to a question about a call that nobody could make.
func notAsked(err *tenants.AskError) *adminapi.Fault {
	e := &adminapi.Fault{Status: http.StatusNotFound, Code: "tenant_not_found", Message: sentence(err.What)}
	switch err.Kind {
	case tenants.ErrNoModel:
		e.Code = ask.CodeNoModel
	case tenants.ErrNoGrant:
		e.Status = http.StatusForbidden
		e.Code = ask.CodeModel
	case tenants.ErrNoKeys:
		e.Status = http.StatusConflict
		e.Code = "tenant_without_keys"
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
	return fmt.Errorf("explain: the governor knows no tenant %q in pool %q", req.Tenant, req.Pool)
}

// questioned is the governor's request for the call that is asked about.
func questioned(q *adminapi.Question, snap *tenants.Snapshot, t *tenants.Tenant, p *tenants.Pool) *governor.Request {
	req := &governor.Request{
		Tenant: t.Counted(q.Member), Pool: p.Name, Model: q.Model, MaxWait: q.MaxWait,
		Via: p.Reach(t),
	}
	if below, ok := tenants.BelowOf(q.Priority); ok {
		req.Background = tenants.IsBackground(below)
		if !req.Background {
			req.Below = int(below)
		}
	}
	if q.Input != nil {
		req.Input = *q.Input
	}
	req.Output = boundOf(q, req.Input, t, p)
	req.Price = snap.DearestPrice(p, req.Via, q.Model, req.Input, req.Output, "")
	return req
}

// boundOf is the most that the answer may have: the caller's bound, cut or supplied as for a chat
// call.
func boundOf(q *adminapi.Question, input int64, t *tenants.Tenant, p *tenants.Pool) int64 {
	bound := int64(0)
	switch {
	case q.Tokens != nil:
		bound = *q.Tokens - input
	case q.Output != nil:
		bound = *q.Output
	case t.MaxOutputTokens > 0:
		bound = t.MaxOutputTokens
	default:
		bound = p.DefaultMaxOutput
	}
	if t.MaxOutputTokens > 0 {
		bound = min(bound, t.MaxOutputTokens)
	}
	return bound
}
