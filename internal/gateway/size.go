package gateway

import (
	"github.com/llmgov/llmgov/governor/tokens"
	"github.com/llmgov/llmgov/internal/gateway/dialect"
	"github.com/llmgov/llmgov/internal/objects"
	"github.com/llmgov/llmgov/internal/upstreams"
)

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

// estimatePrompt is how many tokens the prompt has: by what was learned or, while little is, by
// counting, if that is possible at once.
func (c *call) estimatePrompt() int64 {
	size := c.head.Size(c.pool.DefaultMaxOutput)
	before := c.head.Referred.Tokens
	prompts := c.estimates.Prompts
	isText := before == 0 && size[tokens.Text] == size.Weight()
	if c.g.prompts != nil && c.route.Body == dialect.JSON && isText && prompts.Uncertain(c.head.Model) {
		if n, ok := c.g.prompts.Count(c.world.Snapshot.RealModel(c.head.Model), c.body); ok {
			return max(1, n)
		}
	}
	return before + prompts.Estimate(c.head.Model, size)
}

// leastPrompt is how many tokens the prompt has at the least. It does not rely on the estimate: no
// call may be refused for ever because of a guess. Only prompts that may be too large for the pool
// are counted.
func (c *call) leastPrompt() int64 {
	size := c.head.Prompt.Size
	least := size.Least()
	most := c.pool.InputMax()
	if c.g.prompts == nil || c.route.Body != dialect.JSON || most == 0 || least > most || size[tokens.Text]/tokens.Scale <= most/2 {
		return least
	}
	return max(least, c.g.prompts.AtLeast(c.world.Snapshot.RealModel(c.head.Model), c.body))
}
