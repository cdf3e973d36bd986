package gateway

import (
	"net/http"
	"time"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/admission"
	"github.com/llmgov/llmgov/internal/splice"
	"github.com/llmgov/llmgov/internal/telemetry"
)

// choosePool finds the pool that serves the model.
func (c *call) choosePool() *refusal {
	if c.route.ToObjects() && !c.route.Realtime {
		return c.chooseHome()
	}
	snap := c.world.Snapshot
	if c.head.Model == "" {
		if !c.route.AnyModel || c.tenant.DefaultPool == "" {
			return invalid("model", "You must name a model.")
		}
		if p, ok := c.world.poolNamed(c.tenant.DefaultPool); ok {
			return c.use(p)
		}
	}
	p, ok := snap.PoolOf(c.head.Model)
	if !ok {
		return noModel(c.head.Model)
	}
	if !c.tenant.MayUse(c.head.Model) {
		return mayNot(c.tenant.Name, "model", c.head.Model)
	}
	return c.use(c.world.pools[p.Index])
}

func noModel(model string) *refusal {
	return &refusal{Status: http.StatusNotFound, Code: admission.CodeNoModel, Param: "model", Message: "No pool serves the model " + quoted(model) + ". GET /v1/models lists what there is."}
}

func (c *call) use(p *poolSide) *refusal {
	c.pool = p
	account := c.world.Account(c.tenant.Index, p.Index)
	if account == nil {
		return &refusal{Status: http.StatusForbidden, Code: admission.CodeModel, Message: "Tenant " + c.tenant.Name + " may use no model of pool " + p.Name + "."}
	}
	if !account.Hold() { // the policy has changed since this call came
		return c.again(c.choosePool)
	}
	c.account = account
	c.may = p.serving(c.route, c.realModel())
	c.pinned = false
	if c.may == 0 {
		return c.servedByNone()
	}
	return nil
}

// admit estimates what the call may take, edits its body accordingly, and asks the governor. This
// is where the call waits.
func (c *call) admit() *refusal {
	if f := c.readHints(); f != nil {
		return f
	}
	var edits []splice.Edit
	if c.route.Bounds != nil && c.tenant.MaxOutputTokens > 0 {
		edits = c.head.Clamp(edits, c.route.Bounds, c.tenant.MaxOutputTokens)
	}
	if c.route.Chunked && c.head.Stream {
		edits, c.withhold = c.head.AskForUsage(edits)
	}
	if real := c.realModel(); real != c.head.Model || c.head.Deployed {
		edits = c.rename(edits, real)
	}

	c.req.Tenant = c.tenant.Name
	c.req.Pool = c.pool.Name
	c.req.ID = c.id
	c.req.Stream = c.head.Stream
	c.req.Claim = c.claim()
	c.req.Interrupt = c.interrupted
	c.req.Price = c.price()
	if c.route.ToObjects() || c.route.Free { // one request; a socket's tokens are counted as they come
		return c.acquire(edits)
	}
	c.req.Model = c.head.Model
	c.req.Input = c.estimatePrompt()
	if f := c.pool.TooLong(c.leastPrompt()); f != nil {
		return f
	}
	c.req.Output = c.mostOutput(c.route, c.head)
	return c.acquire(edits)
}

// acquire asks the governor for a lease, and waits for it.
func (c *call) acquire(edits []splice.Edit) *refusal {
	if f := c.onlyOne(); f != nil {
		return f
	}
	if c.asked.IsZero() {
		c.asked = time.Now().Add(-c.waited)
	}
	lease, rej := c.askGovernor(c.req)
	if rej != nil && rej.Reason == governor.ReasonUnknown && c.outdated() {
		c.waited += rej.Waited
		return c.again(c.choosePool, c.checkReferences, c.admit)
	}
	c.showStanding()
	if rej != nil {
		c.rejection = rej
		c.noteReasons(rej, false)
		c.account.Refused(rej.Reason)
		c.w.queued(rej.Waited)
		return admission.Rejected(rej)
	}
	lease.Waited += c.waited
	c.lease = lease
	c.admitted = time.Now()
	c.ongoing.runs(lease)
	c.w.queued(lease.Waited)
	c.account.Admitted(c.req.Input+c.req.Output, lease.Waited, c.spans.Exemplar())
	if would := lease.Would; would != nil {
		c.account.ShadowRefused(would.Reason)
		c.noteReasons(would, true)
	}
	c.body = splice.InPlace(c.body, edits) // not earlier: a call that waits holds one body, and can begin again
	telemetry.Observe(c.g.metrics.Overhead, time.Since(c.arrived)-(lease.Waited-c.memory.Waited), c.spans.Exemplar())
	return nil
}

// readHints reads the headers by which callers say how a call is to be treated.
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
		c.hint = &d
		c.req.MaxWait = &d
	}
	if c.waited > 0 {
		left := max(0, c.maxWait()-c.waited)
		c.req.MaxWait = &left
	}
	return nil
}

// maxWait is how long the call may wait in all.
func (c *call) maxWait() time.Duration {
	if c.hint != nil {
		return min(c.tenant.MaxWait, *c.hint)
	}
	return c.tenant.MaxWait
}
