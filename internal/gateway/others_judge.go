package gateway

import (
	"net/http"

	"github.com/llmgov/llmgov/governor"
)

// checkOthers refuses models that the caller is not granted, or that another pool limits.
func (c *call) checkOthers(list []other) *refusal {
	for _, o := range list {
		p, served := c.world.snap.PoolOf(o.model)
		switch {
		case o.instead && !served:
			return noModel(o.model)
		case !c.mayUse(o.model):
			return mayNot(c.tenant.Name, o.param, o.model)
		case c.world.snap.RealModel(o.model) != o.model:
			return invalid(o.param, quoted(brief(o.model))+" is another name of a model here, which the provider does not know. Name the model itself.")
		case o.instead && c.world.pools[p.Index] != c.pool:
			return invalid(o.param, quoted(brief(o.model))+" is of another pool than the model that you ask for, and cannot stand in for it.")
		}
	}
	if c.head.falls && len(c.head.others) == 0 {
		return invalid("route", "With route: \"fallback\" the provider chooses a model. Name in models which ones it may use.")
	}
	return nil
}

func mayNot(tenant, param, model string) *refusal {
	return &refusal{status: http.StatusForbidden, code: codeModel, param: param, message: "Tenant " + tenant + " may not use the model " + quoted(brief(model)) + "."}
}

// price is what the call's tokens cost: as much as with the dearest model that may answer it.
func (c *call) price() (dearest governor.Price) {
	at := func(model string) {
		if p, ok := c.world.snap.Price(model); ok {
			dearest.Input = max(dearest.Input, p.Input)
			dearest.CachedInput = max(dearest.CachedInput, p.CachedInput)
			dearest.Output = max(dearest.Output, p.Output)
		}
	}
	at(c.head.model)
	for _, o := range c.head.others {
		if o.instead {
			at(o.model)
		}
	}
	return dearest
}
