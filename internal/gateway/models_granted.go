package gateway

import (
	"net/http"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/admission"
	"github.com/llmgov/llmgov/internal/gateway/head"
)

// checkOthers refuses models that the caller is not granted, or that another pool limits.
func (c *call) checkOthers(list []head.Other) *refusal {
	for _, o := range list {
		p, served := c.world.Snapshot.PoolOf(o.Model)
		switch {
		case o.Instead && !served:
			return noModel(o.Model)
		case !c.mayUse(o.Model):
			return mayNot(c.tenant.Name, o.Param, o.Model)
		case c.world.Snapshot.RealModel(o.Model) != o.Model:
			return invalid(o.Param, quoted(brief(o.Model))+" is another name of a model here, which the provider does not know. Name the model itself.")
		case o.Instead && c.world.pools[p.Index] != c.pool:
			return invalid(o.Param, quoted(brief(o.Model))+" is of another pool than the model that you ask for, and cannot stand in for it.")
		}
	}
	if c.head.FallsBack && len(c.head.Others) == 0 {
		return invalid("route", "With route: \"fallback\" the provider chooses a model. Name in models which ones it may use.")
	}
	return nil
}

func mayNot(tenant, param, model string) *refusal {
	return &refusal{Status: http.StatusForbidden, Code: admission.CodeModel, Param: param, Message: "Tenant " + tenant + " may not use the model " + quoted(brief(model)) + "."}
}

// price is what the call's tokens cost: as much as with the dearest model that may answer it.
func (c *call) price() (dearest governor.Price) {
	at := func(model string) {
		if p, ok := c.world.Snapshot.Price(model); ok {
			dearest.Input = max(dearest.Input, p.Input)
			dearest.CachedInput = max(dearest.CachedInput, p.CachedInput)
			dearest.Output = max(dearest.Output, p.Output)
		}
	}
	at(c.head.Model)
	for _, o := range c.head.Others {
		if o.Instead {
			at(o.Model)
		}
	}
	return dearest
}
