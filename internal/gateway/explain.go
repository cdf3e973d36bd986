package gateway

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/tenants"
)

// Explanation is what a call would meet, and why.
type Explanation struct {
	// Request and At are set for a call that came: its id, and when it was decided. Waited is how
	// long it had waited by then.
	Request string     `json:"request,omitempty"`
	At      *time.Time `json:"at,omitempty"`
	Waited  float64    `json:"waited_seconds,omitempty"`

	Tenant string `json:"tenant"`
	Tier   string `json:"tier"`
	Pool   string `json:"pool"`
	Model  string `json:"model"`
	// Upstream is where it would go, and UpstreamModel what the model is called there.
	Upstream      string `json:"upstream"`
	UpstreamModel string `json:"upstream_model"`
	// Tokens is Input and Output together.
	Tokens     int64   `json:"tokens"`
	Input      int64   `json:"input"`
	Output     int64   `json:"output"`
	Priority   string  `json:"priority"`
	MaxWait    float64 `json:"max_wait_seconds"`
	Shadow     bool    `json:"shadow"`
	PolicyHash string  `json:"policy_hash"`
	// TenantLimits is how the tenant's own limits are kept together with other gateways that
	// share a store: leased, cached_deny or strict.
	TenantLimits string `json:"tenant_limits"`
	// Limits are all that apply, the strictest first.
	Limits []ExplainedLimit `json:"limits"`
	// Decision is what would become of it now; nil if only the files were asked.
	Decision *Decision `json:"decision,omitempty"`
	// WithoutShadow is what would become of it if the tenant's limits were enforced; nil if they
	// are.
	WithoutShadow *Decision `json:"without_shadow,omitempty"`
}

// ExplainFiles tells what the policy says of a call: the limits that apply, and nothing of what is
// used of them. The question must be valid.
func ExplainFiles(snap *tenants.Snapshot, q *Question) (*Explanation, error) {
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
func (g *Gateway) explanation(q *Question) (*Explanation, error) {
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
		x.Decision, x.WithoutShadow = &Decision{Outcome: outcomeAdmit}, strict
	}
	if f := w.pools[p.Index].tooLong(req.Input); f != nil { // even of a shadow
		x.Decision, x.WithoutShadow = refusedWith(f, nil), nil
	}
	return x, nil
}

// explained returns what the policy alone says of a call, and the call and its pool.
func explained(snap *tenants.Snapshot, q *Question) (*Explanation, *governor.Request, *tenants.Pool, error) {
	t, p, err := snap.Ask(q.Tenant, q.Model)
	if err != nil {
		return nil, nil, nil, err
	}
	req := q.request(snap, t, p)
	return explainedCall(snap, t, p, req), req, p, nil
}

// explainedCall is what the policy alone says of a tenant's call to a pool.
func explainedCall(snap *tenants.Snapshot, t *tenants.Tenant, p *tenants.Pool, req *governor.Request) *Explanation {
	x := &Explanation{
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
