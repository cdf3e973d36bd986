package governor

import (
	"cmp"
	"slices"
	"time"
)

// PastState is a Past as a value that can be written down.
type PastState struct {
	Uses   []OwnerUse
	Shares []ShareState
	// Ended are the calls of the last minutes.
	Ended []Record
	// Last is the last call's number in the journal.
	Last uint64
}

// OwnerUse is what one Owner used.
type OwnerUse struct {
	Owner
	Use
}

// State copies a past in which no call runs any more; see Cut.
func (p *Past) State() *PastState {
	s := &PastState{Shares: slices.Clone(p.Shares), Ended: slices.Clone(p.ended), Last: p.last}
	for who, use := range p.Uses.rows {
		s.Uses = append(s.Uses, OwnerUse{who, *use})
	}
	slices.SortFunc(s.Uses, func(a, b OwnerUse) int {
		return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Pool, b.Pool))
	})
	return s
}

// Past returns the past that was copied, as read at now.
func (s *PastState) Past(now time.Time, zone *time.Location) *Past {
	p := NewPast(now, zone)
	for _, u := range s.Uses {
		p.Uses.Set(u.Owner, u.Use)
	}
	p.Shares = slices.Clone(s.Shares)
	p.ended = slices.Clone(s.Ended)
	p.last = s.Last
	return p
}
