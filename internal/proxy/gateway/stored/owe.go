package stored

import (
	"cmp"
	"context"

	"github.com/tidwall/gjson"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/proxy/objects"
	"github.com/llmgov/llmgov/internal/run/admission"
	"github.com/llmgov/llmgov/internal/run/admission/ask"
)

// owe records that an object is to be charged when it is done.
func (l *Ledger) owe(ctx context.Context, key objects.Key, kind objects.Kind, input int64) bool {
	c := l.Call
	text := c.Sample()
	err := l.Store.Owe(context.WithoutCancel(ctx), key, objects.Debt{
		Kind:    kind,
		Owner:   c.Tenant.Name,
		Counted: c.Counted(),
		Pool:    c.Pool.Name,
		Model:   cmp.Or(c.Ask.Model, l.Batch.Dearest),
		Input:   input,
		Bound:   max(c.Request.Output, l.Batch.Output),
		Calls:   l.Batch.Calls,
		Size:    c.Ask.Prompt.Size,
		Before:  c.Ask.Prompt.Before,
		Text:    [2]int64{text.Tokens, text.Weight},
		Most:    c.MostProduced(),
		Streams: kind == objects.Response && c.Ask.Stream,
	})
	if err != nil {
		c.Failure = err
	}
	return err == nil
}

// OweResponse does so for a background response that is not done yet, as soon as the first event
// or the whole answer shows it, and before the client sees that.
func (l *Ledger) OweResponse(ctx context.Context, upstream string, response gjson.Result) {
	ending := &l.Call.Ending
	charged := ending.Done && ending.Usage.Took() // a plain answer that reported its usage, or broke off
	if l.owed != "" || charged {
		return
	}
	id := response.Get("id").Str
	key := objects.Key{Upstream: upstream, ID: id}
	switch {
	case objects.IsID(id) && !HasEnded(response) && l.owe(ctx, key, objects.Response, l.Call.Request.Input):
		l.owed = id
	case ending.Later: // its usage will not be reported
		u := l.Call.Guess()
		req := l.Call.Request
		req.Booked = governor.Booked{Input: req.Input, Output: req.Output}
		l.Call.Book(req, l.Call.Account, l.Call.Policy.Taken(&req, l.Call.ServedBy(), u, true))
		ending.Usage = u // for the log
	}
}

// HoldBatch holds the most that a batch may take that is to be created. It never waits. A call that is refused
// here counts as if it had not been admitted.
func (l *Ledger) HoldBatch() *ask.Refusal {
	l.Holds.Forget(l.Store)
	c := l.Call
	req := governor.Request{
		Tenant:      c.Counted(),
		Pool:        c.Pool.Name,
		Model:       l.Batch.Dearest,
		ID:          c.ID,
		Input:       l.Batch.Input,
		Output:      l.Batch.Output,
		BudgetsOnly: true,
		Tier:        governor.TierBatch,
	}
	req.Price = ofCalls(c.Policy.Snapshot.DearestPrice(c.Pool.Pool, c.Ask.Via, l.Batch.Dearest, req.Input, req.Output, req.Tier), l.Batch.Calls)
	lease, rej := c.Acquire(&req)
	if rej != nil {
		return c.Retract(rej)
	}
	l.held = lease
	return nil
}

// OweBatch hands the lease of HoldBatch over to the batch that the call has created.
func (l *Ledger) OweBatch(ctx context.Context, key objects.Key) bool {
	if !l.owe(ctx, key, objects.Batch, l.Batch.Input) {
		return false
	}
	l.Holds.Put(key, l.held)
	l.held = governor.Lease{}
	return true
}

// Close gives back the lease for a batch that was not created.
func (l *Ledger) Close() { l.held.Release() }

// Again acquires the leases of unfinished batches after a restart.
func (h *Holds) Again(store *objects.Store, gov *governor.Governor, p *admission.Policy) {
	for key, d := range store.Debts(objects.Batch) {
		req := governor.Request{
			Tenant: d.Counts(), Pool: d.Pool, Model: d.Model, ID: key.ID, Input: d.Input, Output: d.Bound,
			BudgetsOnly: true, Forced: true, Tier: governor.TierBatch,
		}
		req.Price = priceOf(p, key, &d)
		lease, rej := governor.Refused(gov.Acquire(context.Background(), req))
		if rej == nil { // else the policy does not have its maker or pool any more
			h.Put(key, lease)
		}
	}
}

// priceOf is the price of an object's work, in the pool and at the upstream that does it.
func priceOf(p *admission.Policy, key objects.Key, d *objects.Debt) *governor.Price {
	pool, there := p.PoolNamed(d.Pool)
	if !there {
		return ofCalls(p.Snapshot.Price(d.Model), d.Calls)
	}
	return ofCalls(p.Snapshot.PriceAt(pool.Pool, key.Upstream, d.Model), d.Calls)
}

// ofCalls is the price of a batch of so many calls, each of which costs what a call does beside its tokens.
func ofCalls(p *governor.Price, calls int64) *governor.Price {
	if p == nil || p.Call == 0 || calls <= 1 {
		return p
	}
	own := *p
	own.Call *= min(calls, maxCalls)
	return &own
}
