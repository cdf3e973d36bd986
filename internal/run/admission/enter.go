package admission

import (
	"github.com/llmgov/llmgov/internal/lib/text"
	"github.com/llmgov/llmgov/internal/run/admission/ask"
	"github.com/llmgov/llmgov/tenants"
)

// Caller says who asks: by a key, or by the name of a tenant if whoever names it is trusted.
type Caller struct{ Key, Tenant string }

// Enter takes a call from its caller's name to its lease, for callers that know everything about it from
// the beginning. It waits. Others take the same steps one by one, because they read the body
// in between: Identify, Route, Estimate, Admit.
func (c *Call) Enter(who Caller, a ask.Ask) *ask.Refusal {
	c.entry.asked = c.Began
	for {
		c.Ask = a // Estimate changes it
		f := c.enter(who)
		if f == nil {
			return nil
		}
		if f != Stale {
			c.Refused(f)
			return f
		}
		c.Renew(c.ctl.Policy())
	}
}

func (c *Call) enter(who Caller) *ask.Refusal {
	if f := c.identify(who); f != nil {
		return f
	}
	if !c.Tenant.Routes.Has(tenants.RouteInference) {
		return &ask.Refusal{Status: statusForbidden, Code: ask.CodeRoute, Message: "Tenant " + c.Tenant.Name + " is not granted calls of models."}
	}
	if f := c.choosePool(); f != nil {
		return f
	}
	if f := c.mayStandIn(); f != nil {
		return f
	}
	if f := c.Estimate(); f != nil {
		return f
	}
	return c.Admit()
}

func (c *Call) identify(who Caller) *ask.Refusal {
	if who.Tenant != "" {
		return c.IdentifyTenant(who.Tenant)
	}
	if who.Key == "" {
		return &ask.Refusal{Status: statusUnauthorized, Code: ask.CodeKey, Message: "The call has no tenant: name one, or give the key of one."}
	}
	return c.Identify(who.Key, "")
}

// choosePool takes the pool that Ask names, or that of its model.
func (c *Call) choosePool() *ask.Refusal {
	if c.Ask.Pool == "" {
		return c.find(c.Ask.Model, c.Ask.Free)
	}
	p, ok := c.Policy.PoolNamed(c.Ask.Pool)
	if !ok {
		return &ask.Refusal{Status: statusNotFound, Code: ask.CodeNoModel, Param: "pool", Message: "There is no pool " + quoted(text.Brief(c.Ask.Pool)) + "."}
	}
	if c.Ask.Model != "" && !c.Tenant.MayUse(c.Ask.Model) {
		return NotGranted(c.Tenant.Name, "model", c.Ask.Model)
	}
	return c.Use(p)
}

// mayStandIn refuses models of Ask.Instead that the tenant is not granted, or that another pool limits.
func (c *Call) mayStandIn() *ask.Refusal {
	for _, model := range c.Ask.Instead {
		p, served := c.Policy.Snapshot.PoolOf(model)
		anyPool := c.Ask.Pool != ""
		switch {
		case !anyPool && !served:
			return NoModel(model)
		case !c.Tenant.MayUse(model):
			return NotGranted(c.Tenant.Name, "instead", model)
		case !anyPool && p.Index != c.Pool.Index:
			return CannotStandIn("instead", model)
		}
	}
	return nil
}
