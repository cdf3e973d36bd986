package gateway

import (
	"github.com/llmgov/llmgov/governor/tokens"
	"github.com/llmgov/llmgov/internal/objects"
	"github.com/llmgov/llmgov/internal/upstreams"
)

// referred is what a prompt has by reference, as far as this gateway saw it being made.
type referred struct {
	size   tokens.Size // of files, by their length
	tokens int64       // as the upstream counted them
	unseen int64       // things of which nothing is known
}

// weighReferences weighs what a body refers to: an earlier response brings along all that it
// took, with what it continues itself.
func (c *call) weighReferences(h *head, found []reference) {
	r := referred{}
	for _, ref := range found {
		if ref.key != "previous_response_id" && ref.key != "id" {
			continue // files are weighed by what the prompt takes them for; nothing else is part of it
		}
		if n := c.sizeOf(ref.id); n > 0 {
			r.tokens += n
		} else {
			r.unseen++
		}
	}
	for _, file := range h.prompt.Files {
		switch n := c.sizeOf(file.ID); {
		case file.Kind == tokens.Image:
			r.size[tokens.Image] += tokens.Pictures(1)
		case n > 0:
			r.size[tokens.Document] += tokens.DocumentOf(n)
		default:
			r.unseen++
		}
	}
	h.referred = r
}

// sizeOf is the size of an object, at whichever upstream may serve the call; 0 is not known.
func (c *call) sizeOf(id string) (size int64) {
	for i, u := range c.pool.upstreams {
		if c.may&upstreams.Mask(0).With(i) != 0 {
			e, _ := c.g.objects.Owner(objects.Key{Upstream: u.name, ID: id})
			size = max(size, e.Size)
		}
	}
	return size
}

// promptSize is how large a prompt is, but for what it continues. What cannot be told is taken to
// be as long as an answer of which nothing is known.
func (c *call) promptSize(h *head) tokens.Size {
	size := h.prompt.Plus(h.referred.size)
	size[tokens.Elsewhere] += (h.prompt.Unseen + h.referred.unseen) * c.pool.DefaultMaxOutput * tokens.Scale
	return size
}

// estimatePrompt is how many tokens the prompt has: by what was learned or, while little is, by
// counting, if that is possible at once.
func (c *call) estimatePrompt() int64 {
	size := c.promptSize(c.head)
	before := c.head.referred.tokens
	prompts := c.estimates.prompts
	isText := before == 0 && size[tokens.Text] == size.Weight()
	if c.g.prompts != nil && c.route.body == jsonBody && isText && prompts.Uncertain(c.head.model) {
		if n, ok := c.g.prompts.Count(c.world.snap.RealModel(c.head.model), c.body); ok {
			return max(1, n)
		}
	}
	return before + prompts.Estimate(c.head.model, size)
}

// leastPrompt is how many tokens the prompt has at the least. It does not rely on the estimate: no
// call may be refused for ever because of a guess. Only prompts that may be too large for the pool
// are counted.
func (c *call) leastPrompt() int64 {
	size := c.head.prompt.Size
	least := size.Least()
	most := c.pool.inputMax
	if c.g.prompts == nil || c.route.body != jsonBody || most == 0 || least > most || size[tokens.Text]/tokens.Scale <= most/2 {
		return least
	}
	return max(least, c.g.prompts.AtLeast(c.world.snap.RealModel(c.head.model), c.body))
}
