package gateway

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/llmgov/llmgov/governor"
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

// refusals remembers the calls that were refused last, by their ids.
type refusals struct {
	mu   sync.Mutex
	ring []*pastRefusal
	next int // index in ring of the next one
	byID map[string]*pastRefusal
}

// keep remembers a refusal, and forgets the oldest.
func (r *refusals) keep(p *pastRefusal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byID == nil {
		r.ring, r.byID = make([]*pastRefusal, keptRefusals), map[string]*pastRefusal{}
	}
	if old := r.ring[r.next]; old != nil && r.byID[old.id] == old { // not if the id came again
		delete(r.byID, old.id)
	}
	r.ring[r.next], r.byID[p.id] = p, p
	r.next = (r.next + 1) % len(r.ring)
}

func (r *refusals) find(id string) *pastRefusal {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byID[id]
}

// noteReasons remembers why the governor refused the call, or would have.
func (c *call) noteReasons(rej *governor.Rejection, shadow bool) {
	if rej.Reason == governor.ReasonCancelled {
		return
	}
	c.g.refused.keep(&pastRefusal{
		id: c.id, at: time.Now(), snap: c.world.snap, tenant: c.tenant, req: c.req, said: rejected(rej), shadow: shadow, rejected: rej,
		outlook: c.g.gov.Reasons(c.req, rej),
	})
}

// explainRefusal explains why a call was refused.
func (g *Gateway) explainRefusal(query url.Values) (*Explanation, error) {
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if name != "request" {
			return nil, badQuestion("request asks about a call that came, of which all else is known; leave " + quoted(brief(name)) + " out.")
		}
	}
	id := query.Get("request")
	p := g.refused.find(id)
	if p == nil {
		return nil, &adminError{http.StatusNotFound, "request_not_found", "None of the last refusals is of a request with the id " + quoted(brief(id)) + "; it is what x-request-id says. Calls that were admitted are not kept, nor are those without a valid key; of several gateways ask the one that refused it."}
	}
	return p.explain(), nil
}

func (p *pastRefusal) explain() *Explanation {
	x := &Explanation{Tenant: p.tenant.Name, Tier: p.tenant.Tier, Shadow: p.tenant.Shadow, PolicyHash: p.snap.Hash(), Limits: []ExplainedLimit{}}
	pools := p.snap.Pools()
	if at := slices.IndexFunc(pools, func(o tenants.Pool) bool { return o.Name == p.req.Pool }); at >= 0 {
		x = explainedCall(p.snap, p.tenant, &pools[at], &p.req)
	}
	x.Request, x.At = p.id, &p.at
	if p.rejected == nil {
		x.Decision = refusedWith(p.said, nil)
		return x
	}
	x.Waited = p.rejected.Waited.Seconds()
	var decider *int
	x.Limits, decider = explainLimits(p.snap, &p.outlook)
	x.Decision = refusedWith(p.said, decider)
	if p.shadow {
		x.Decision, x.WithoutShadow = &Decision{Outcome: outcomeAdmit}, x.Decision
	}
	return x
}
