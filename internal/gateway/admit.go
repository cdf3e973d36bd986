package gateway

import (
	"net/http"
	"time"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/governor/tokens"
)

// choosePool finds the pool that serves the model.
func (c *call) choosePool() *refusal {
	snap := c.world.snap
	if c.head.model == "" {
		if !c.route.anyModel || c.tenant.DefaultPool == "" {
			return invalid("model", "You must name a model.")
		}
		for _, p := range c.world.pools {
			if p.Name == c.tenant.DefaultPool {
				return c.use(p)
			}
		}
	}
	p, ok := snap.PoolOf(c.head.model)
	if !ok {
		return &refusal{status: http.StatusNotFound, code: codeNoModel, param: "model", message: "No pool serves the model " + quoted(c.head.model) + ". GET /v1/models lists what there is."}
	}
	if !c.tenant.MayUse(c.head.model) {
		return &refusal{status: http.StatusForbidden, code: codeModel, param: "model", message: "Tenant " + c.tenant.Name + " may not use the model " + quoted(c.head.model) + "."}
	}
	return c.use(c.world.pools[p.Index])
}

func (c *call) use(p *poolSide) *refusal {
	c.pool, c.account = p, c.world.accounts[c.tenant.Index][p.Index]
	if c.account == nil {
		return &refusal{status: http.StatusForbidden, code: codeModel, message: "Tenant " + c.tenant.Name + " may use no model of pool " + p.Name + "."}
	}
	return nil
}

// admit estimates what the call may take, edits its body accordingly, and asks
// the governor.
func (c *call) admit() *refusal {
	if f := c.readHints(); f != nil {
		return f
	}
	var edits []edit
	if c.route.bounds != nil && c.tenant.MaxOutputTokens > 0 {
		edits = c.head.clamp(edits, c.route, c.tenant.MaxOutputTokens)
	}
	if c.route.chunked && c.head.stream {
		edits, c.withhold = c.head.askForUsage(edits)
	}
	c.body = splice(c.body, edits)

	c.req.Tenant, c.req.Pool, c.req.ID, c.req.Stream = c.tenant.Name, c.pool.Name, c.id, c.head.stream
	c.req.Model, c.req.Claim = c.head.model, c.claim()
	if price, ok := c.world.snap.Price(c.head.model); ok {
		c.req.Price = governor.Price(price)
	}
	c.req.Input = c.estimates.prompts.Estimate(c.head.model, c.head.weight)
	// By the least that it can have, not by the guess: no call is refused for ever
	// because of a guess.
	if least := tokens.Least(c.head.weight); c.pool.inputMax > 0 && least > c.pool.inputMax {
		return &refusal{status: http.StatusRequestEntityTooLarge, code: codeTooLarge, message: tooLong(least, c.pool.Name, c.pool.inputMax)}
	}
	if c.route.bounds != nil {
		bound := c.head.bound(c.route)
		if bound == 0 {
			bound = c.pool.DefaultMaxOutput
		}
		c.req.Output = bound * c.head.copies
	}

	asked := time.Now()
	lease, rej := c.g.gov.Acquire(c.r.Context(), c.req)
	c.showStanding()
	if rej != nil {
		c.rejected = true
		c.account.Refused(rej.Reason)
		c.w.queued(rej.Waited)
		return rejected(rej)
	}
	c.lease, c.admitted = lease, time.Now()
	c.w.queued(lease.Waited)
	c.account.Admitted(c.req.Input+c.req.Output, lease.Waited)
	c.g.metrics.Overhead.Observe(asked.Sub(c.arrived).Seconds())
	return nil
}

// readHints reads what the caller may say about how it is to be treated.
func (c *call) readHints() *refusal {
	switch p := c.r.Header.Get("X-Llmgov-Priority"); p {
	case "", "interactive":
	case "background":
		c.req.Background = true
	default:
		return invalid("x-llmgov-priority", "x-llmgov-priority must be interactive or background, not "+quoted(p)+".")
	}
	if text := c.r.Header.Get("X-Llmgov-Max-Wait"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 {
			return invalid("x-llmgov-max-wait", "x-llmgov-max-wait must be a duration such as 500ms or 3s, not "+quoted(text)+".")
		}
		c.req.MaxWait = &d
	}
	return nil
}
