package gateway

import (
	"context"
	"time"

	"github.com/llmgov/llmgov/internal/lib/affinity"
	"github.com/llmgov/llmgov/internal/lib/cancel"
	"github.com/llmgov/llmgov/internal/proxy/upstreams"
)

// tries are the ways of a call to the upstreams of its pool.
type tries struct {
	may    upstreams.Mask // the upstreams that can serve the call
	scope  upstreams.Scope
	of     affinity.Conversation
	pinned bool               // no others can, because these have the objects to which it refers
	been   upstreams.Mask     // the upstreams where it was since it was last admitted
	count  int                // in all
	first  *try               // a part of outliving, because the transport may know of it
	afresh bool               // it was sent once more, because its connection was lost
	amend  upstreams.Addition // is left out where it was refused

	said upstreams.Told // by the last answer, and beside it
	left upstreams.Remains
	wait time.Duration // for which it asked
	why  string        // the last answer or its absence is a failure
	// comeBack is when the upstream said to come back, if its last answer did.
	comeBack time.Duration
	// paused is until when its upstream gets no calls because of that.
	paused time.Time

	ctx       *cancel.Context // of all tries
	interrupt context.CancelCauseFunc
	unwatch   func() bool // ends the watch for a drain; nil if there is none
}

// end ends what is left of the tries.
func (t *tries) end() {
	t.interrupt(nil)
	if t.unwatch != nil {
		t.unwatch()
	}
}

// pin restricts the tries to some upstreams. It reports false if none of them can serve the call.
func (t *tries) pin(to upstreams.Mask) bool {
	left := t.may & to
	if left == 0 {
		return false
	}
	t.may = left
	t.pinned = true
	return true
}

// again reports whether a call is sent to the same upstream once more.
func (t *tries) again(said upstreams.Outcome) bool {
	t.afresh = t.afresh || said == upstreams.Stale
	return said == upstreams.Stale || said == upstreams.Amended
}

// next chooses an upstream where the call was not, or, if only the connection was lost or something added was refused, the same one.
func (t *tries) next(set *upstreams.Set, last *try, tenant string, said upstreams.Outcome) upstreams.Choice {
	if t.again(said) {
		same := upstreams.Mask(0).With(last.index)
		if ch := set.Choose(time.Now(), t.may&same, t.scope, tenant, t.of); ch.OK {
			return ch
		}
	}
	return set.Choose(time.Now(), t.may&^t.been, t.scope, tenant, t.of)
}
