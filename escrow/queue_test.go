package escrow

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// Calls of a leaf stand by priority, then those that have come back by their promise, then as they came.
func TestEnqueue_Order(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		p := New(t0, Config{TPM: MaxLimit})
		leaf := p.Add(Root, Node{Weight: 1})
		var want []int32
		for range 40 {
			n := p.put(entry{leaf: leaf, below: int8(rng.IntN(3)), back: rng.IntN(3) == 0, next: -1, prev: -1})
			e := &p.entries[n]
			if e.back {
				e.turn = t0.Add(time.Duration(rng.IntN(5)) * time.Second)
			}
			p.enqueue(n)
			at := slices.IndexFunc(want, func(o int32) bool { return e.goesBefore(&p.entries[o]) })
			if at < 0 {
				at = len(want)
			}
			want = slices.Insert(want, at, n)
		}
		list := p.nodes[leaf].calls[interactive]
		var got, back []int32
		for n := list.head; n >= 0; n = p.entries[n].next {
			got = append(got, n)
		}
		for n := list.tail; n >= 0; n = p.entries[n].prev {
			back = append(back, n)
		}
		slices.Reverse(back)
		if !slices.Equal(got, want) || !slices.Equal(back, want) {
			t.Fatalf("they stand as %v, and backwards as %v, want %v", got, back, want)
		}
	}
}

// One call of another priority, before or behind all others, does not have each that comes look at all that wait.
func TestEnqueue_LooksAtFew(t *testing.T) {
	for _, c := range []struct{ one, many, next int8 }{{9, 0, 0}, {0, 9, 0}, {0, 9, 9}} {
		p := New(t0, Config{TPM: MaxLimit})
		leaf := p.Add(Root, Node{Weight: 1})
		add := func(below int8) { p.enqueue(p.put(entry{leaf: leaf, below: below, next: -1, prev: -1})) }
		add(c.one)
		for range 100 {
			add(c.many)
		}
		list := &p.nodes[leaf].calls[interactive]
		n := list.head
		for i := range 98 {
			e := &p.entries[n]
			n = e.next
			if i >= 3 { // whoever goes on from here panics
				e.next, e.prev = 1<<20, 1<<20
			}
		}
		add(c.next)
	}
}
