package gateway

import (
	"net/http"
	"slices"
	"strconv"

	"github.com/llmgov/llmgov/governor/tokens"
	"github.com/llmgov/llmgov/internal/lib/text"
	"github.com/llmgov/llmgov/internal/proxy/gateway/describe"
	"github.com/llmgov/llmgov/internal/proxy/gateway/head"
	"github.com/llmgov/llmgov/internal/proxy/gateway/route"
	"github.com/llmgov/llmgov/internal/proxy/gateway/stored"
	"github.com/llmgov/llmgov/internal/proxy/gateway/upstream"
	"github.com/llmgov/llmgov/internal/proxy/objects"
	"github.com/llmgov/llmgov/internal/run/admission"
)

// A batch is a file of calls that the upstream makes later, by itself. So the calls
// are checked when the file comes, and batches are made only of files that were checked.

// checkBatch checks a file of calls, and that a batch is made of a file that was checked.
func (c *call) checkBatch() *refusal {
	switch {
	case c.r.Method != http.MethodPost:
	case c.route.Path == stored.UploadsPath && stored.IsBatch(c.head.Purpose):
		return invalid("purpose", "A file of calls cannot be uploaded in parts, for it could not be checked. Send it to /v1/files.")
	case c.route.Path == stored.FilesPath && stored.IsBatch(c.head.Purpose):
		c.stored.Batch.Reset()
		return stored.File{By: checker{c}, MaxOutput: c.Tenant.MaxOutputTokens}.Check(c.form)
	case c.route.Path == stored.BatchesPath:
		return c.checkNewBatch()
	}
	return nil
}

// checkNewBatch checks that a batch is made of a file that was checked.
func (c *call) checkNewBatch() *refusal {
	if !stored.IsInference(c.head.Endpoint) {
		return invalid("endpoint", "A batch cannot call "+strconv.Quote(text.Brief(c.head.Endpoint))+".")
	}
	found, _ := c.head.References() // which have been checked
	for _, ref := range found {
		if ref.Key == "input_file_id" && !c.isBatchFile(ref.ID) {
			return invalid(ref.Key, "A batch is made of a file that was uploaded with purpose batch, and "+ref.ID+" was not.")
		}
	}
	return nil
}

// isBatchFile reports whether a file at the call's upstream was checked as one of calls.
func (c *call) isBatchFile(id string) bool {
	return slices.ContainsFunc(c.pool.upstreams, func(u *upstream.Upstream) bool {
		e, _ := c.g.objects.Owner(objects.Key{Upstream: u.Name, ID: id})
		if e.Kind != objects.BatchFile || !objects.Visible(e.Owner, c.Tenant.Name) {
			return false
		}
		c.stored.Batch.Of(e, c.world.Snapshot)
		return true
	})
}

// createsBatch reports whether the call is to create a batch.
func (c *call) createsBatch() bool { return c.route.Makes && c.route.Shows == objects.Batch }

// holdBatch holds the most that a batch may take that is to be created.
func (c *call) holdBatch() *refusal {
	if !c.createsBatch() {
		return nil
	}
	return c.stored.HoldBatch()
}

// checker is the call by which a file of calls is uploaded.
type checker struct{ c *call }

// CheckModel implements stored.Checker.
func (k checker) CheckModel(model string) *refusal {
	if !k.c.mayUse(model) {
		return admission.NotGranted(k.c.Tenant.Name, "", model)
	}
	k.c.stored.Batch.Asks(model, k.c.world.Snapshot)
	return nil
}

// CheckTiers implements stored.Checker.
func (k checker) CheckTiers(path string, h *head.Head) *refusal { return k.c.models().Tiers(path, h) }

// CheckReference implements stored.Checker.
func (k checker) CheckReference(ref head.Reference) *refusal {
	if !k.c.pin(ref.ID) {
		return noObject(ref.Key, ref.ID)
	}
	return nil
}

// AddCall implements stored.Checker. A call that names no route may be one of any.
func (k checker) AddCall(h *head.Head, to *route.Route, found []head.Reference) {
	c := k.c
	h.Weigh(found, c.sizeOf)
	output := h.Copies * max(h.Bound(head.AnyBound), c.pool.DefaultMaxOutput)
	if to != nil {
		a := describe.Answer(&to.Route, h)
		most := c.MostOutput(h.Model, &a)
		if a.None || a.Bound > 0 || most > output {
			output = most
		}
	}
	size := h.Size(c.pool.DefaultMaxOutput)
	input := h.Referred.Tokens + max(size.Weight()/tokens.Scale, c.Estimates.Prompts.Estimate(h.Model, size))
	c.stored.Batch.Add(input, output)
}
