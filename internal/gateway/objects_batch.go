package gateway

import (
	"net/http"
	"slices"
	"strings"

	"github.com/llmgov/llmgov/internal/gateway/head"
	"github.com/llmgov/llmgov/internal/gateway/route"
	"github.com/llmgov/llmgov/internal/objects"
)

// A batch is a file of calls that the upstream makes later, by itself. So the calls
// are checked when the file comes, and batches are made only of files that were checked.

const filesPath, uploadsPath, batchesPath = "/files", "/uploads", "/batches"

// isBatch reports whether a file of this purpose is meant for a batch.
func isBatch(purpose string) bool { return strings.EqualFold(strings.TrimSpace(purpose), "batch") }

// isInference reports whether a call of a batch is to a route of inference, which upstreams need
// not check.
func isInference(url string) bool { return route.Inference(url) != nil }

// calledBy is the route that a line calls; nil if it does not say.
func calledBy(l *head.Line) *route.Route { return route.Inference(l.URL) }

// checkBatch checks a file of calls, and that a batch is made of a file that was checked.
func (c *call) checkBatch() *refusal {
	switch {
	case c.r.Method != http.MethodPost:
	case c.route.Path == uploadsPath && isBatch(c.head.Purpose):
		return invalid("purpose", "A file of calls cannot be uploaded in parts, for it could not be checked. Send it to /v1/files.")
	case c.route.Path == filesPath && isBatch(c.head.Purpose):
		return c.checkCalls()
	case c.route.Path == batchesPath:
		if !isInference(c.head.Endpoint) {
			return invalid("endpoint", "A batch cannot call "+quoted(brief(c.head.Endpoint))+".")
		}
		found, _ := c.head.References() // which have been checked
		for _, ref := range found {
			if ref.Key == "input_file_id" && !c.isBatchFile(ref.ID) {
				return invalid(ref.Key, "A batch is made of a file that was uploaded with purpose batch, and "+ref.ID+" was not.")
			}
		}
	}
	return nil
}

// isBatchFile reports whether a file at the call's upstream was checked as one of calls.
func (c *call) isBatchFile(id string) bool {
	return slices.ContainsFunc(c.pool.upstreams, func(u *upstream) bool {
		e, _ := c.g.objects.Owner(objects.Key{Upstream: u.name, ID: id})
		if e.Kind != objects.BatchFile || !objects.Visible(e.Owner, c.Tenant.Name) {
			return false
		}
		c.dearer(e.Model)
		c.batch.size = batchSize{input: e.Input, output: e.Output}
		return true
	})
}

// dearer notes a model that a batch asks for, if it is the dearest so far.
func (c *call) dearer(model string) {
	if len(model) > 256 {
		return // no provider has a model of such a name
	}
	price, known := c.world.Snapshot.Price(model)
	old, _ := c.world.Snapshot.Price(c.batch.dearest)
	if known && (c.batch.dearest == "" || price.Output > old.Output || price.Output == old.Output && price.Input > old.Input) {
		c.batch.dearest = model
	}
}
