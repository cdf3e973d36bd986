package escrow

import (
	"math"
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
	w, u := simOf(t, 1, 60_000, 600_000)
	old := w.leaf(Root, Node{Weight: 3000}, 500)
	old.call.Via = 1
	old.keep = 8
	wide := w.leaf(Root, Node{Weight: WeightOne}, 500)
	wide.call.Via = 3
	wide.keep = 8
	back := w.leaf(Root, Node{Weight: WeightOne}, 500)
	back.call.Via = 1
	w.run(20 * Window)
	u.swap(w.p)
	old.call.Via = 2
	back.call.Via = 2
	back.keep = 8
	w.reset()
	w.run(4 * Window)
	want := 60_000. * 4 / 4
	if got := float64(back.got); math.Abs(got-want) > 0.1*want {
		t.Errorf("who returned had %v tokens in 4 minutes, want %v", got, want)
	}
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
