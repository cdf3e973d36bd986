package gateway

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/tidwall/gjson"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/admission"
	"github.com/llmgov/llmgov/internal/objects"
	"github.com/llmgov/llmgov/internal/telemetry"
	"github.com/llmgov/llmgov/streaming"
)

// Background responses and batches go on after their call has been answered, and tell what they
// took only when they are done. Their maker is charged then, when an answer of the upstream first
// shows that they are.

// maxUnseen is how many background responses or batches a tenant may have made without seeing their
// end. After that, the gateway looks after one of them itself for each that is made.
var maxUnseen = map[objects.Kind]int{objects.Response: 16, objects.Batch: 0}

// ended are the states of objects that do not go on.
var ended = map[string]bool{"completed": true, "incomplete": true, "failed": true, "cancelled": true, "expired": true}

// checkBackground refuses answers that come later where nobody could be charged for them.
func (c *call) checkBackground() *refusal {
	switch {
	case c.head.Backdrop && !c.route.Backdrop:
		return invalid("background", "background must be true or false.")
	case !c.head.Background:
	case !c.route.Stores:
		return invalid("background", "background: true is for /v1/responses only.")
	case c.head.Unstored:
		return invalid("background", "background: true needs store: true, or nobody could ask for the answer.")
	}
	return nil
}

// owe records that an object is to be charged when it is done.
func (c *call) owe(kind objects.Kind, id string, input int64) bool {
	key := objects.Key{Upstream: c.try.up.name, ID: id}
	err := c.g.objects.Owe(context.WithoutCancel(c.r.Context()), key, objects.Debt{
		Kind: kind, Owner: c.Tenant.Name, Pool: c.pool.Name, Model: cmp.Or(c.head.Model, c.batch.dearest), Input: input, Bound: max(c.Request.Output, c.batch.size.output),
		Streams: kind == objects.Response && c.head.Stream,
	})
	if err != nil {
		c.Failure = err
	}
	return err == nil
}

// oweBackground does so for a background response that is not done yet, as soon as the first event
// or the whole answer shows it, and before the client sees that.
func (c *call) oweBackground(response gjson.Result) {
	charged := c.Ending.Done && c.Ending.Usage != noUsage // a plain answer that told its usage, or broke off
	if !c.head.Background || c.answer.owed != "" || charged {
		return
	}
	id := response.Get("id").Str
	switch {
	case objects.IsID(id) && !ended[response.Get("status").Str] && c.owe(objects.Response, id, c.Request.Input):
		c.answer.owed = id
	case c.Ending.Later: // its usage will not be told
		u := c.Guess()
		req := c.Request
		req.Booked = governor.Usage{Input: req.Input, Output: req.Output}
		c.Book(req, c.Account, u)
		c.Ending.Usage = u // for the log
	}
}

// seen charges an object that an answer shows, if it is done and not charged yet.
func (c *call) seen(id string, shown gjson.Result) {
	if ended[shown.Get("status").Str] {
		usage, reported := streaming.ReadUsage([]byte(shown.Get("usage").Raw))
		if reported {
			c.g.objects.Resize(objects.Key{Upstream: c.try.up.name, ID: id}, usage.Input+usage.Output)
		}
		c.collect(id, shown.Get("model").Str, governor.Usage(usage), reported)
	}
}

// collect charges an object that is done. If it does not tell what it took, that is the prompt, and
// what was streamed of it, which is known when the stream ends.
func (c *call) collect(id, model string, u governor.Usage, reported bool) {
	key := objects.Key{Upstream: c.try.up.name, ID: id}
	err := c.g.objects.Collect(key, func(d *objects.Debt) bool {
		switch {
		case !reported && d.Kind == objects.Batch:
			u = noUsage
		case !reported && d.Streams:
			d.Untold = true
			return false
		case !reported:
			u = governor.Usage{Input: d.Input, Output: d.Output}
		}
		owed := *d
		if d.Kind == objects.Batch { // it may say which model its calls asked for
			owed.Model = cmp.Or(model, d.Model)
		}
		return c.chargeDebt(key, owed, u)
	})
	if err != nil {
		c.Failure = err
	}
}

// chargeDebt charges the maker of an object, in the pool that served it. If the policy does not
// have these any more, the tenant of this call is charged.
func (c *call) chargeDebt(key objects.Key, d objects.Debt, u governor.Usage) bool {
	tenant := c.Tenant
	pool := c.pool
	account := (*telemetry.Account)(nil)
	owner, known := c.world.Snapshot.TenantByName(d.Owner)
	if p, ok := c.world.poolNamed(d.Pool); ok && known {
		account = c.world.Account(owner.Index, p.Index)
		if account != nil {
			tenant = owner
			pool = p
		}
	}
	if account == nil {
		account = c.Account
	}
	if !account.Hold() {
		return false
	}
	defer account.Release()
	// Providers run batches outside of the limits by the minute, and report the use of hours at once.
	req := governor.Request{Tenant: tenant.Name, Pool: pool.Name, Model: d.Model, ID: c.ID, BudgetsOnly: d.Kind == objects.Batch}
	if d.Kind == objects.Response && d.Bound > 0 { // see Lease.Postpone
		req.Booked = governor.Usage{Input: d.Input, Output: d.Bound}
	}
	if price, ok := c.world.Snapshot.Price(d.Model); ok {
		req.Price = governor.Price(price)
	}
	if c.g.batches.take(key).At(req.Price).Charge(u) { // it replaces what the batch holds
		account.Took(u)
		return true
	}
	return c.Book(req, account, u)
}

// lookAfter looks after things that the tenant made but never asked for: before it makes more, the
// gateway asks for one of them.
func (c *call) lookAfter() {
	kind := objects.Batch
	if c.head.Background {
		kind = objects.Response
	} else if !c.route.Makes || c.route.Shows != kind {
		return
	}
	if key, ok := c.g.objects.AnyDebt(c.try.up.name, kind, c.Tenant.Name, maxUnseen[kind]); ok {
		c.look(kind, key)
	}
}

// lookBack looks at a response that is about to be deleted, since nobody could tell later what it
// took.
func (c *call) lookBack() {
	if !c.route.Forgets {
		return
	}
	if key := (objects.Key{Upstream: c.try.up.name, ID: c.at.IDs[0]}); c.g.objects.Owes(key) {
		c.look(objects.Response, key)
	}
}

// look asks the upstream for an object that is still to be charged.
func (c *call) look(kind objects.Kind, key objects.Key) {
	ctx, cancel := context.WithTimeout(c.r.Context(), listPatience)
	defer cancel()
	path := "/responses/"
	if kind == objects.Batch {
		path = batchesPath + "/"
	}
	own := c.try
	comeBack := c.tries.comeBack
	c.try = &try{Try: admission.Try{Began: time.Now()}, up: own.up, index: own.index} // its answer is not the call's own
	answer, err := c.ask(ctx, http.MethodGet, path+key.ID, nil)
	gone := c.try.status == http.StatusNotFound
	c.try = own
	c.tries.comeBack = comeBack
	switch {
	case gone:
		c.collect(key.ID, "", noUsage, false)
	case err == nil:
		c.seen(key.ID, gjson.ParseBytes(answer))
	}
}
