package placement

import (
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/limits"
)

// Standing is whether an upstream can be chosen for a call now, and if not, why.
type Standing uint8

// The reasons are in the order in which they are looked at: the first that holds is the Standing.
const (
	HasRoom    Standing = iota
	NotAllowed          // the call may not go there
	TooSmall            // another upstream takes more of the call
	PerTenant           // the call's tenant runs as many calls there as it may
	Closed              // nothing goes there until Upstream.Closed
	Full                // one of its limits has no room for the call
)

// String is the word for it in answers of the admin API.
func (s Standing) String() string {
	return [...]string{"room", "not_allowed", "too_small", "per_tenant", "closed", "full"}[s]
}

// Standing is how the index-th upstream stands to a call that may use those of via, by the rule of Choose. axis is the limit that
// has no room, if it is Full.
func (b *Books[L]) Standing(now time.Time, index int, via escrow.Mask, of escrow.Choices) (s Standing, axis limits.Axis) {
	u := b.List[index]
	here := escrow.Mask(0).With(index)
	switch {
	case via&here == 0:
		return NotAllowed, 0
	case of.Able&here == 0:
		return TooSmall, 0
	case of.Shut&here != 0:
		return PerTenant, 0
	case now.Before(u.Closed):
		return Closed, 0
	}
	axis, lacks := u.lacks(now, CostOf(of.Cost))
	if lacks {
		return Full, axis
	}
	return HasRoom, 0
}
