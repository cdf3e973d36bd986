package gateway

import (
	"github.com/llmgov/llmgov/internal/lib/splice"
	"github.com/llmgov/llmgov/internal/proxy/gateway/dialect"
	"github.com/llmgov/llmgov/internal/proxy/intake"
	"github.com/llmgov/llmgov/internal/proxy/upstreams"
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
// place; see variant.
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

// added is where a JSON body has an addition, and what stands there for upstreams that refuse it; its zero value, that nothing was added.
type added struct {
	what       upstreams.Addition
	start, end int
	instead    string
}

func addedAt(what upstreams.Addition, edits []splice.Edit, i int, instead string) added {
	start := splice.Place(edits, i)
	return added{what, start, start + len(edits[i].Text), instead}
}

// additions are what was added to the body.
func (c *call) additions() upstreams.Addition { return c.added[0].what | c.added[1].what }

// variant is a JSON body for one upstream, which has a name of its own for the model, or refuses what was added. Its parts are not put
// together, because a second body would be memory that nobody counts.
type variant [][]byte

// varies reports whether the upstream of a try gets another body than c.body.
func (c *call) varies(t *try) bool {
	return len(c.body) > 0 && (t.model != c.named.name || t.without != 0)
}

func (c *call) variant(t *try) (parts variant) {
	var edits []splice.Edit
	if t.model != c.named.name {
		edits = append(edits, splice.Edit{Start: c.named.start, End: c.named.end, Text: c.head.Rename(t.model).Text})
	}
	for _, a := range c.added {
		if a.what&t.without != 0 {
			edits = append(edits, splice.Edit{Start: a.start, End: a.end, Text: a.instead})
		}
	}
	splice.Sort(edits)
	at := 0
	for _, e := range edits {
		parts = append(parts, c.body[at:e.Start], []byte(e.Text))
		at = e.End
	}
	return append(parts, c.body[at:])
}

// open returns a reader of the body, whose parts are in memory.
func (v variant) open(memory *intake.Claim) *intake.Sent { return memory.Open(v[0], v[1:]...) }

func (v variant) size() (bytes int64) {
	for _, part := range v {
		bytes += int64(len(part))
	}
	return bytes
}
