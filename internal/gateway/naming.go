package gateway

import (
	"github.com/llmgov/llmgov/internal/gateway/dialect"
	"github.com/llmgov/llmgov/internal/intake"
	"github.com/llmgov/llmgov/internal/splice"
)

// How a call's model is named: by its caller, by an alias's target, and by each upstream.

// naming is the name of the model in the body that is sent. In a JSON body it is a value, or, if the caller's body had
// none, a member.
type naming struct {
	start, end int
	name       string
}

// realModel is the model's own name, by which upstreams know it that have no other for it.
func (c *call) realModel() string { return c.world.Snapshot.RealModel(c.head.Model) }

// rename replaces the model in the call's body by its own name. Upstreams that know it by another get that in its
// place; see renamed.
func (c *call) rename(edits []splice.Edit) []splice.Edit {
	real := c.realModel()
	same := real == c.head.Model && !c.head.Deployed
	c.named = naming{name: real}
	switch {
	case c.route.Body == dialect.Form && !same:
		c.form.Text("model", real)
	case c.route.Body != dialect.JSON: // it is in the query
	case same:
		start, end := c.head.ModelAt()
		c.named.start = splice.Moved(edits, start)
		c.named.end = c.named.start + end - start
	default:
		edit := c.head.Rename(real)
		c.named.start = splice.Moved(edits, edit.Start)
		c.named.end = c.named.start + len(edit.Text)
		edits = append(edits, edit)
	}
	return edits
}

// renamed is a JSON body in which the model has another name. The parts are not put together, because a second body
// would be memory that nobody counts.
type renamed struct {
	before, after []byte
	name          []byte
}

// renamed is the body for an upstream that has a name of its own for the model.
func (c *call) renamed(t *try) renamed {
	return renamed{
		before: c.body[:c.named.start],
		name:   []byte(c.head.Rename(t.model).Text),
		after:  c.body[c.named.end:],
	}
}

// open returns a reader of the body, whose parts are in memory.
func (r *renamed) open(memory *intake.Claim) *intake.Sent {
	return memory.Open(r.before, r.name, r.after)
}

func (r *renamed) size() int64 { return int64(len(r.before) + len(r.name) + len(r.after)) }
