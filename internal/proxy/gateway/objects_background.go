package gateway

import (
	"context"
	"net/http"
	"time"

	"github.com/tidwall/gjson"

	"github.com/llmgov/llmgov/internal/proxy/gateway/stored"
	"github.com/llmgov/llmgov/internal/proxy/objects"
	"github.com/llmgov/llmgov/internal/run/admission"
)

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

// lookAfter looks after things that the tenant made but never asked for: before it makes more, the
// gateway asks for one of them.
func (c *call) lookAfter() {
	kind := objects.Batch
	if c.head.Background {
		kind = objects.Response
	} else if !c.route.Makes || c.route.Shows != kind {
		return
	}
	if key, ok := c.g.objects.AnyDebt(c.try.up.Name, kind, c.Tenant.Name, stored.MaxUnseen[kind]); ok {
		c.look(kind, key)
	}
}

// lookBack looks at a response that is about to be deleted, since nobody could tell later what it
// took.
func (c *call) lookBack() {
	if !c.route.Forgets {
		return
	}
	if key := c.keyOf(c.at.IDs[0]); c.g.objects.Owes(key) {
		c.look(objects.Response, key)
	}
}

// look asks the upstream for an object that is still to be charged.
func (c *call) look(kind objects.Kind, key objects.Key) {
	ctx, cancel := context.WithTimeout(c.r.Context(), stored.ListPatience)
	defer cancel()
	path := "/responses/"
	if kind == objects.Batch {
		path = stored.BatchesPath + "/"
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
		c.stored.Collect(key, stored.End{Left: true})
	case err == nil:
		c.stored.Seen(key, gjson.ParseBytes(answer))
	}
}
