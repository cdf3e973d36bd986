package admission

import (
	"strconv"

	"github.com/llmgov/llmgov/internal/lib/text"
	"github.com/llmgov/llmgov/internal/run/admission/ask"
)

// Route finds the pool that serves a model, and holds the tenant's account in it. If optional, a call
// without a model is the default pool's. A refusal is for callers that speak HTTP with a gateway.
func (c *Call) Route(model string, optional bool) *ask.Refusal {
	f := c.find(model, optional)
	if f != nil && f.Code == ask.CodeNoModel {
		f.Message += " GET /v1/models lists what there is."
	}
	return f
}

func (c *Call) find(model string, optional bool) *ask.Refusal {
	snap := c.Policy.Snapshot
	if model == "" {
		if !optional || c.Tenant.DefaultPool == "" {
			return &ask.Refusal{Status: statusBadRequest, Code: ask.CodeInvalid, Param: "model", Message: "You must name a model."}
		}
		if p, ok := c.Policy.PoolNamed(c.Tenant.DefaultPool); ok {
			return c.Use(p)
		}
	}
	p, ok := snap.PoolOf(model)
	if !ok {
		return NoModel(model)
	}
	if !c.Tenant.MayUse(model) {
		return NotGranted(c.Tenant.Name, "model", model)
	}
	return c.Use(c.Policy.Pools[p.Index])
}

// Use takes a pool for the call's own.
func (c *Call) Use(p *Pool) *ask.Refusal {
	c.Pool = p
	account := c.Policy.Account(c.Tenant.Index, p.Index)
	if account == nil && len(p.For(c.Tenant).Upstreams) == 0 {
		return &ask.Refusal{Status: statusForbidden, Code: ask.CodeModel, Message: "Tenant " + c.Tenant.Name + " may reach no upstream of pool " + p.Name + "."}
	}
	if account == nil {
		return &ask.Refusal{Status: statusForbidden, Code: ask.CodeModel, Message: "Tenant " + c.Tenant.Name + " may use no model of pool " + p.Name + "."}
	}
	if !account.Hold() { // the policy has changed since this call began
		return c.stale()
	}
	c.Account = account
	return nil
}

// stale is Stale, after the policy has been taken over.
func (c *Call) stale() *ask.Refusal {
	if !c.outdated() {
		panic("llmgov: BUG: policy and governor know different tenants")
	}
	return Stale
}

// NoModel refuses a model that no pool serves.
func NoModel(model string) *ask.Refusal {
	return &ask.Refusal{Status: statusNotFound, Code: ask.CodeNoModel, Param: "model", Message: "No pool serves the model " + quoted(model) + "."}
}

// CannotStandIn refuses a model of another pool than the one that is asked for, given the parameter that names it.
func CannotStandIn(param, model string) *ask.Refusal {
	return &ask.Refusal{
		Status: statusBadRequest, Code: ask.CodeInvalid, Param: param,
		Message: quoted(text.Brief(model)) + " is of another pool than the model that you ask for, and cannot stand in for it.",
	}
}

// NotGranted refuses a model that a tenant may not use, given the parameter that names it.
func NotGranted(tenant, param, model string) *ask.Refusal {
	return &ask.Refusal{Status: statusForbidden, Code: ask.CodeModel, Param: param, Message: "Tenant " + tenant + " may not use the model " + quoted(text.Brief(model)) + "."}
}

func quoted(s string) string { return strconv.Quote(s) }
