package gateway

import (
	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/tenants"
)

// Reroute makes a call that was asked for under another policy what it is under this
// one: the pool that serves its model, and its price. Where it would be refused before
// the governor is asked it answers with the code of that, else with "".
func Reroute(snap *tenants.Snapshot, req *governor.Request) (code string) {
	t, ok := snap.TenantByName(req.Tenant)
	switch {
	case !ok:
		return codeKey
	case req.Model == "" || req.Forced:
		return "" // it goes by its pool
	}
	p, ok := snap.PoolOf(req.Model)
	if !ok {
		return codeNoModel
	}
	if !t.MayUse(req.Model) {
		return codeModel
	}
	req.Pool, req.Price = p.Name, governor.Price{}
	if price, ok := snap.Price(req.Model); ok {
		req.Price = governor.Price(price)
	}
	return ""
}
