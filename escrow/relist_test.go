package escrow

import (
	"slices"
	"testing"
)

// swap puts two upstreams in each other's place.
func (u *outlets) swap(p *Pool) {
	slices.Reverse(u.list)
	for slot, x := range u.of {
		x.upstream = 1 - x.upstream
		u.of[slot] = x
	}
	p.SetUpstreams(u, Moved{To: []int{1, 0}, All: 3})
}

// When upstreams change their places, one that returns to an upstream gets its share of that, as in TestUpstreams_Return: how far the
// calls of each had come is known of the upstream, not of its place.
func TestSetUpstreams_Return(t *testing.T) {
	w := longPassedOver(t)
	w.upstreams.swap(w.p)
	w.old.call.Via = 2
	w.back.call.Via = 2
	w.checkReturn(t)
	if err := w.p.Check(); err != nil {
		t.Error(err)
	}
}

// Values that are kept by upstream follow these.
func TestMoved(t *testing.T) {
	m := Moved{To: []int{2, -1, 0}, All: 0b1111}
	for before, now := range map[Mask]Mask{0: 0b1111, 0b001: 0b100, 0b010: 0b1111, 0b011: 0b100, 0b101: 0b101, 0b1000: 0b1111} {
		if got := m.mask(before); got != now {
			t.Errorf("%b is at %b, want %b", before, got, now)
		}
	}
	if got := inPlace(&m, []int{7, 8, 9}, -1); !slices.Equal(got, []int{9, -1, 7}) {
		t.Errorf("values are %v", got)
	}
	if got := inPlace(&m, []int{7, 8}, -1); !slices.Equal(got, []int{-1, -1, 7}) {
		t.Errorf("values are %v", got)
	}
}
