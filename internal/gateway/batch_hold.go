package gateway

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/gateway/head"
	"github.com/llmgov/llmgov/internal/objects"
)

// A batch holds in budgets the most that its calls may take, from before it is sent until it is seen
// done. The file keeps how much that is, because its lines are read only when it is uploaded; the debt
// of the batch keeps it over restarts.

// batch is the part of a call that uploads a file of calls, or creates a batch of one.
type batch struct {
	dearest string         // of the models that its calls ask for
	size    batchSize      // of the file, or of the batch
	held    governor.Lease // of the batch that is being created
}

// batchSize is the most that the calls of a batch may take, in tokens.
type batchSize struct{ input, output int64 }

// maxBatchTokens bounds the sums, so that they cannot overflow.
const maxBatchTokens = int64(1e12)

// add adds a line. One that names no route may be a call of any.
func (s *batchSize) add(c *call, l *head.Line) {
	answer := l.Head.Copies * max(l.Head.Bound(head.AnyBound), c.pool.DefaultMaxOutput)
	if r := calledBy(l); r != nil {
		a := answerOf(r, l.Head)
		answer = c.MostOutput(l.Head.Model, &a)
	}
	prompt := l.Head.Referred.Tokens + c.Estimates.Prompts.Estimate(l.Head.Model, l.Head.Size(c.pool.DefaultMaxOutput))
	s.input = min(s.input+prompt, maxBatchTokens)
	s.output = min(s.output+answer, maxBatchTokens)
}

// batchHolds are the leases of batches that were not seen done yet. They are safe for concurrent use.
type batchHolds struct {
	mu     sync.Mutex
	leases map[objects.Key]governor.Lease // guarded by mu
}

func (b *batchHolds) put(key objects.Key, l governor.Lease) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.leases[key] = l
}

// take takes the lease of a batch out. It is the zero Lease if there is none.
func (b *batchHolds) take(key objects.Key) governor.Lease {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.leases[key]
	delete(b.leases, key)
	return l
}

// keys are the batches that have a lease.
func (b *batchHolds) keys() []objects.Key {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Keys(b.leases))
}

// forgetBatches gives back what batches hold that nobody is to be charged for any more.
func (g *Gateway) forgetBatches() {
	for _, key := range g.batches.keys() {
		if !g.objects.Owes(key) {
			g.batches.take(key).Release()
		}
	}
}

// holdAgain holds what unfinished batches may take after a restart.
func (g *Gateway) holdAgain(w *world) {
	for key, d := range g.objects.Debts(objects.Batch) {
		req := governor.Request{
			Tenant: d.Owner, Pool: d.Pool, Model: d.Model, ID: key.ID, Input: d.Input, Output: d.Bound,
			BudgetsOnly: true, Forced: true,
		}
		if price, ok := w.Snapshot.Price(d.Model); ok {
			req.Price = governor.Price(price)
		}
		lease, rej := g.gov.Acquire(context.Background(), req)
		if rej == nil { // else the policy does not have its maker or pool any more
			g.batches.put(key, lease)
		}
	}
}

// holdBatch holds what a batch that is to be created may take. It never waits. A call that is refused
// here counts as if it had not been admitted.
func (c *call) holdBatch() *refusal {
	if !c.createsBatch() {
		return nil
	}
	c.g.forgetBatches()
	req := governor.Request{
		Tenant: c.Tenant.Name, Pool: c.pool.Name, Model: c.batch.dearest, ID: c.ID, Input: c.batch.size.input, Output: c.batch.size.output,
		BudgetsOnly: true,
	}
	if price, ok := c.world.Snapshot.Price(c.batch.dearest); ok {
		req.Price = governor.Price(price)
	}
	lease, rej := c.Acquire(req)
	if rej == nil {
		c.batch.held = lease
		return nil
	}
	return c.Retract(rej)
}

// createsBatch reports whether the call is to create a batch.
func (c *call) createsBatch() bool { return c.route.Makes && c.route.Shows == objects.Batch }

// oweBatch hands what the call holds to the batch that it has created.
func (c *call) oweBatch(id string) bool {
	if !c.owe(objects.Batch, id, c.batch.size.input) {
		return false
	}
	c.g.batches.put(objects.Key{Upstream: c.try.up.name, ID: id}, c.batch.held)
	c.batch.held = governor.Lease{}
	return true
}
