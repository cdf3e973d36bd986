package gateway

import (
	"github.com/llmgov/llmgov/internal/admission"
	"github.com/llmgov/llmgov/internal/gateway/head"
)

// checkOthers refuses models that the caller is not granted, or that another pool limits.
func (c *call) checkOthers(list []head.Other) *refusal {
	for _, o := range list {
		p, served := c.world.Snapshot.PoolOf(o.Model)
		switch {
		case o.Instead && !served:
			return admission.NoModel(o.Model)
		case !c.mayUse(o.Model):
			return admission.NotGranted(c.Tenant.Name, o.Param, o.Model)
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
