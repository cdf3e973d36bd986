package gateway

import (
	"github.com/llmgov/llmgov/governor/tokens"
)

// promptSize is how large the prompt is, wherever its parts stand. What cannot be told is taken to
// be as long as an answer of which nothing is known.
func (c *call) promptSize() tokens.Size {
	size := c.head.prompt.Size
	size[tokens.Elsewhere] += c.head.prompt.Unseen * c.pool.DefaultMaxOutput * tokens.Scale
	return size
}

// estimatePrompt is how many tokens the prompt has: by what was learned or, while little is, by
// counting, if that is possible at once.
func (c *call) estimatePrompt(size tokens.Size) int64 {
	prompts := c.estimates.prompts
	isText := size[tokens.Text] == size.Weight()
	if c.g.prompts != nil && c.route.body == jsonBody && isText && prompts.Uncertain(c.head.model) {
		if n, ok := c.g.prompts.Count(c.world.snap.RealModel(c.head.model), c.body); ok {
			return max(1, n)
		}
	}
	return prompts.Estimate(c.head.model, size)
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
