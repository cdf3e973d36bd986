package gateway

import (
	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/tenants"
)

// Reroute adapts a call that was made under another policy to this one: the pool that serves its
// model, and its price. It returns the code of the refusal if the call would be refused before the
// governor is asked, or "".
func Reroute(snap *tenants.Snapshot, req *governor.Request) (code string) {
	t, ok := snap.TenantByName(req.Tenant)
	switch {
	case !ok:
		return codeKey
	case req.Model == "" || req.Forced:
		return "" // without a model, or done already, it stays with its pool
	}
	p, ok := snap.PoolOf(req.Model)
	if !ok {
		return codeNoModel
	}
	if !t.MayUse(req.Model) {
		return codeModel
	}
	req.Pool = p.Name
	req.Price = governor.Price{}
	if price, ok := snap.Price(req.Model); ok {
		req.Price = governor.Price(price)
	}
	return ""
}
