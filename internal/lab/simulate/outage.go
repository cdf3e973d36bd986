package simulate

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/llmgov/llmgov/federation"
)

// outageRetry is when callers are told to come back to a node that is cut off.
const outageRetry = time.Second

// cutOff reports whether a node has had no grant for as long as one lasts. Like the gateway, it then lets
// nobody wait.
func (w *world) cutOff(s *site) bool {
	if s.member == nil {
		return false
	}
	rated := w.Pool.TPM > 0 || w.Pool.RPM > 0
	return rated && w.now-s.granted >= federation.DefaultRules().TTL || s.desk != nil && s.limit.IsAlone() && s.limit.Lost()
}

// turnAway refuses the calls that wait at a node that is cut off.
func (w *world) turnAway(s *site) {
	byID := func(a, b *call) int { return cmp.Compare(a.id, b.id) }
	for _, c := range slices.SortedFunc(maps.Values(s.waiting), byID) {
		c.queued = false
		delete(s.waiting, c.handle)
		s.drop(c)
		if !s.pool.Cancel(w.clock(), c.handle) {
			panic("llmgov: BUG: the pool does not know a call that waits")
		}
		w.sendElsewhere(c)
	}
}

// sendElsewhere refuses a call because its node is cut off. Its caller comes back when told, to whichever node
// it is sent to then.
func (w *world) sendElsewhere(c *call) {
	w.trace.Events = append(w.trace.Events, Occurrence{At: w.now, Kind: Refused, Request: c.id, Hint: outageRetry})
	c.site = nil
	back := w.now + outageRetry + between(w.leafs[c.leaf].manners, lateLeast, lateMost)
	if back < c.deadline {
		w.agenda.plan(task{at: back, step: retry, call: c})
	}
}
