package policy

import (
	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/run/admission/ask"
	"github.com/llmgov/llmgov/tenants"
)

// Reroute adapts a call that was made under another policy to this one: the pool that serves its
// model, its price, and its tenant in place of a member if that has none here. It returns the code of the refusal if the call would be refused before the
// governor is asked, or "".
func Reroute(snap *tenants.Snapshot, req *governor.Request) (code string) {
	t, ok := snap.TenantOf(req.Tenant)
	if !ok {
		return ask.CodeKey
	}
	if t.Members == nil {
		req.Tenant = t.Name
	}
	if req.Model == "" || req.Forced {
		return "" // without a model, or done already, it stays with its pool
	}
	p, ok := snap.PoolOf(req.Model)
	if !ok {
		return ask.CodeNoModel
	}
	if !t.MayUse(req.Model) {
		return ask.CodeModel
	}
	reach := p.Reach(t)
	if reach != 0 || p.Name != req.Pool { // a set of upstreams is of one pool
		req.Via = reach
		req.Listed = nil
	}
	req.Pool = p.Name
	req.Price = snap.DearestPrice(p, reach, req.Model, req.Input, req.Output, req.Tier)
	return ""
}

// PriceAt is the price of a call that was made under another policy, at an upstream of the pool that serves its model.
func PriceAt(snap *tenants.Snapshot, req *governor.Request, upstream string) *governor.Price {
	p, ok := snap.PoolOf(req.Model)
	if !ok {
		return nil
	}
	return snap.PriceAt(p, upstream, req.Model)
}
