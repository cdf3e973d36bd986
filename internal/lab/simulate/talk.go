package simulate

import (
	"slices"

	"github.com/llmgov/llmgov/internal/lib/affinity"
)

// talk is a conversation of a worker: each call begins with all that was said before.
type talk struct {
	id    uint64
	turns int64 // that were begun
	said  int64 // tokens
}

// continueTalk makes a call the next of its worker's conversation, or the first of a new one.
func (w *world) continueTalk(c *call, t *talk) {
	most := w.phases[c.leaf][c.phase].Turns
	if most == 0 {
		return
	}
	if t == nil || t.turns == most {
		w.talks++
		t = &talk{id: w.talks}
	}
	c.talk = t
	c.before = t.said
	c.input += t.said
	t.turns++
	t.said = c.tokens()
}

// conversation is how upstreams are asked to keep a call's conversation together.
func (w *world) conversation(c *call) uint64 {
	if c.talk == nil || w.Pool.Spreads {
		return uint64(affinity.None)
	}
	return uint64(affinity.ConversationOf(w.tree.Leaves[c.leaf].Path, c.talk.id))
}

// cache is what an upstream keeps of conversations, the latest last.
type cache struct {
	list []cached
	sum  int64
}

type cached struct {
	id     uint64
	tokens int64
}

// take takes out what is kept of a conversation.
func (c *cache) take(id uint64) (tokens int64) {
	i := slices.IndexFunc(c.list, func(x cached) bool { return x.id == id })
	if i < 0 {
		return 0
	}
	tokens = c.list[i].tokens
	c.list = slices.Delete(c.list, i, i+1)
	c.sum -= tokens
	return tokens
}

// keep keeps a conversation, and drops those that were not used for longest if there is no room for it.
func (c *cache) keep(id uint64, tokens, room int64) {
	c.take(id)
	c.list = append(c.list, cached{id, tokens})
	c.sum += tokens
	drop := 0
	for ; c.sum > room; drop++ {
		c.sum -= c.list[drop].tokens
	}
	c.list = slices.Delete(c.list, 0, drop)
}

// recall looks up what the upstream of a call has of its conversation.
func (w *world) recall(c *call) {
	if c.talk == nil || w.Pool.Cache == 0 {
		return
	}
	kept := &w.caches[w.trace.Upstreams[c.id]]
	found := min(kept.take(c.talk.id), c.before)
	kept.keep(c.talk.id, c.input, w.Pool.Cache)
	w.trace.Recalls = append(w.trace.Recalls, Recall{Request: c.id, Before: c.before, Found: found})
}

// remember has the upstream of a call keep its answer, too.
func (w *world) remember(c *call) {
	if c.talk != nil && w.Pool.Cache > 0 {
		w.caches[w.trace.Upstreams[c.id]].keep(c.talk.id, c.tokens(), w.Pool.Cache)
	}
}
