package gateway

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/llmgov/llmgov/internal/lib/text"
	"github.com/llmgov/llmgov/internal/proxy/gateway/describe"
	"github.com/llmgov/llmgov/internal/proxy/gateway/dialect"
	"github.com/llmgov/llmgov/internal/proxy/gateway/grants"
	"github.com/llmgov/llmgov/internal/proxy/gateway/head"
	"github.com/llmgov/llmgov/internal/proxy/gateway/realtime"
	"github.com/llmgov/llmgov/internal/proxy/gateway/stored"
	"github.com/llmgov/llmgov/internal/proxy/gateway/upstream"
	"github.com/llmgov/llmgov/internal/proxy/objects"
	"github.com/llmgov/llmgov/internal/proxy/upstreams"
	"github.com/llmgov/llmgov/internal/run/admission"
	"github.com/llmgov/llmgov/internal/run/admission/ask"
	"github.com/llmgov/llmgov/tenants"
)

// sees reports whether the tenant may see an object at an upstream.
func (c *call) sees(upstream, id string) bool {
	return c.stored.Sees(objects.Key{Upstream: upstream, ID: id})
}

// mayUse reports whether the tenant may use a model at the upstream of the call.
func (c *call) mayUse(model string) bool { return c.Tenant.MayUse(model) && !c.othersModel(model) }

// othersModel reports whether a model was tuned for another tenant. To grant it all the same, a
// policy must name it.
func (c *call) othersModel(model string) bool {
	if !strings.HasPrefix(model, "ft:") || slices.Contains(c.Tenant.Models, model) {
		return false
	}
	return slices.ContainsFunc(c.pool.upstreams, func(u *upstream.Upstream) bool {
		e, known := c.g.objects.Owner(objects.Key{Upstream: u.Name, ID: model})
		return known && !objects.Visible(e.Owner, c.Tenant.Name)
	})
}

// holding are the pool's upstreams at which the tenant sees an object.
func (c *call) holding(id string) (some upstreams.Mask) {
	for i, u := range c.pool.upstreams {
		if c.sees(u.Name, id) {
			some = some.With(i)
		}
	}
	return some
}

// pin restricts the call to the upstreams that have an object. It reports false if the tenant sees
// it at none of them.
func (c *call) pin(id string) bool {
	return c.tries.pin(c.holding(id))
}

func noObject(param, id string) *refusal {
	return &refusal{Status: http.StatusNotFound, Code: ask.CodeNotFound, Param: param, Message: "There is no object with the id " + strconv.Quote(text.Brief(id)) + "."}
}

// chooseHome finds the pool of a call to objects: the one whose upstream has them all, with the
// tenant's default pool first; or the default for new objects and lists.
func (c *call) chooseHome() *refusal {
	if c.head.Model != "" && !c.Tenant.MayUse(c.head.Model) {
		return &refusal{Status: http.StatusForbidden, Code: ask.CodeModel, Param: "model", Message: "Tenant " + c.Tenant.Name + " may not use the model " + strconv.Quote(c.head.Model) + "."}
	}
	if len(c.at.IDs) == 0 {
		for _, p := range c.world.pools {
			if p.Name == c.Tenant.DefaultPool {
				return c.use(p)
			}
		}
		return invalid("", "Tenant "+c.Tenant.Name+" has no default_pool, which serves routes that name no model. Whoever runs this gateway can set one.")
	}
	for _, isDefault := range []bool{true, false} {
		for _, p := range c.world.pools {
			if (p.Name == c.Tenant.DefaultPool) == isDefault && c.world.Reaches(c.Tenant.Index, p.Index) && c.seesAll(p) {
				if f := c.use(p); f != nil {
					return f
				}
				for _, id := range c.at.IDs {
					if !c.pin(id) { // an upstream that has it does not have the route
						return c.servedByNone()
					}
				}
				return nil
			}
		}
	}
	return noObject("", c.at.IDs[len(c.at.IDs)-1])
}

// seesAll reports whether one of a pool's upstreams has everything that the path names.
func (c *call) seesAll(p *poolSide) bool {
	return slices.ContainsFunc(p.upstreams, func(u *upstream.Upstream) bool {
		return !slices.ContainsFunc(c.at.IDs, func(id string) bool { return !c.sees(u.Name, id) })
	})
}

// checkReferences refuses a query or body that refers to an object that the tenant may not see.
func (c *call) checkReferences() *refusal {
	switch {
	case c.othersModel(c.head.Model):
		return admission.NoModel(c.head.Model)
	case strings.HasPrefix(c.head.Model, "ft:"):
		c.pin(c.head.Model) // where it was tuned, if that is known
	}
	switch {
	case c.route.List:
		return c.readPage()
	case c.route.Realtime:
		return realtime.CheckUpgrade(c.r)
	}
	if f := c.models().Others(c.route.Path, c.head); f != nil {
		return f
	}
	if c.route.Body == dialect.JSON {
		if f := c.checkNamed(); f != nil {
			return f
		}
	}
	if f := c.checkBatch(); f != nil {
		return f
	}
	c.head.ForgetReferences() // of which there may be many, and the call may last
	return nil
}

// models is the scope in which package grants checks models.
func (c *call) models() *grants.Scope {
	return &grants.Scope{Snapshot: c.world.Snapshot, Tenant: c.Tenant, Pool: c.pool.Pool.Pool, MayUse: c.mayUse}
}

// checkNamed refuses a JSON body that refers to an object that the tenant may not see, or names a model
// below its top level that the tenant may not use.
func (c *call) checkNamed() *refusal {
	found, err := c.head.References()
	if err == nil && len(found) == 0 && len(c.head.Prompt.Files) == 0 && !c.head.NamesDeeper() {
		return nil
	}
	if !c.route.ToObjects() && c.route.Dialect != dialect.Responses && !head.MayRefer(c.body) {
		return nil
	}
	if err != nil {
		return describe.Unreadable(err)
	}
	if c.head.NamesDeeper() && c.mayNameDeeper() {
		if f := c.models().Deeper(c.body); f != nil {
			return f
		}
	}
	for _, ref := range found {
		if !c.pin(ref.ID) {
			return noObject(ref.Key, ref.ID)
		}
	}
	c.head.Weigh(found, c.sizeOf)
	return nil
}

// mayNameDeeper reports whether a body may name models deeper down: items of images that are drawn, and
// the graders of a fine-tuning job.
func (c *call) mayNameDeeper() bool {
	return c.route.Grant == tenants.RouteFineTuning || describe.MayNameDeeper(c.body)
}

// readPage reads the page of a list that is asked for. A cursor must be an object that the tenant may
// see, because another's would reveal its position.
func (c *call) readPage() *refusal {
	p, f := stored.ReadPage(c.query, c.route.Shows)
	if f != nil {
		return f
	}
	if key, id := p.Cursor(); id != "" && !c.pin(id) {
		return noObject(key, id)
	}
	c.page = p
	return nil
}

// sizeOf is the size of an object, at whichever upstream may serve the call; 0 is not known.
func (c *call) sizeOf(id string) (size int64) {
	for i, u := range c.pool.upstreams {
		if c.tries.may&upstreams.Mask(0).With(i) != 0 {
			e, _ := c.g.objects.Owner(objects.Key{Upstream: u.Name, ID: id})
			size = max(size, e.Size)
		}
	}
	return size
}
