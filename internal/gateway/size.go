package gateway

import (
	"github.com/llmgov/llmgov/internal/objects"
	"github.com/llmgov/llmgov/internal/upstreams"
)

// sizeOf is the size of an object, at whichever upstream may serve the call; 0 is not known.
func (c *call) sizeOf(id string) (size int64) {
	for i, u := range c.pool.upstreams {
		if c.tries.may&upstreams.Mask(0).With(i) != 0 {
			e, _ := c.g.objects.Owner(objects.Key{Upstream: u.name, ID: id})
			size = max(size, e.Size)
		}
	}
	return size
}
