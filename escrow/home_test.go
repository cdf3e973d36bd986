package escrow

import (
	"slices"
	"testing"
	"time"
)

// homely is a pool before two upstreams with a slot each, in which so many calls run, and a leaf of which calls of some conversations wait.
// Conversations 10 and above are at home at the second upstream.
type homely struct {
	*testing.T
	p       *Pool
	running [2]Handle
	calls   []Handle
}

func newHomely(t *testing.T, conversations ...uint64) *homely {
	u := newOutlets(t, 1_000_000, 1_000_000)
	u.homes = map[uint64]int{}
	for _, o := range u.list {
		o.slots = 1
	}
	w := &homely{T: t, p: New(t0, Config{TPM: 2_000_000, Burst: time.Minute, Slots: 10, MaxQueue: 100})}
	w.p.SetUpstreams(u, Moved{})
	leaf := w.p.Add(Root, Node{Weight: WeightOne})
	for i := range w.running {
		w.running[i], _ = w.p.Offer(t0, Call{Leaf: leaf, Most: Cost{100, 1}, Via: Mask(0).With(i)})
	}
	for _, of := range conversations {
		if of >= 10 {
			u.homes[of] = 1
		}
		h, ans := w.p.Offer(t0, Call{Leaf: leaf, Most: Cost{100, 1}, Via: 3, MaxWait: time.Hour, Conversation: of})
		if ans.Verdict != Queued {
			t.Fatalf("a call is %v", ans.Verdict)
		}
		w.calls = append(w.calls, h)
	}
	return w
}

// free has the call end that runs at an upstream, and returns which of the calls that wait goes there.
func (w *homely) free(upstream int) int {
	w.p.Settle(t0, w.running[upstream], Cost{100, 1})
	goes := w.p.Pump(t0, nil)
	if err := w.p.Check(); err != nil {
		w.Error(err)
	}
	if len(goes) != 1 || w.p.At(goes[0]) != upstream {
		w.Fatalf("%v go when upstream %d is free", goes, upstream)
	}
	w.running[upstream] = goes[0]
	return slices.Index(w.calls, goes[0])
}

// TestHome: of a leaf's calls that wait the first goes that is at home where a slot is free, and the first of all if none is.
func TestHome(t *testing.T) {
	w := newHomely(t, 10, 11, 1, 12, 2)
	for _, step := range []struct{ free, goes int }{{0, 2}, {1, 0}, {0, 4}, {0, 1}, {0, 3}} {
		if got := w.free(step.free); got != step.goes {
			t.Fatalf("when upstream %d is free call %d goes, want %d", step.free, got, step.goes)
		}
	}
}

// TestHome_Bounded: no call is passed by more than a few, nor from far behind, and those of no conversation go in order.
func TestHome_Bounded(t *testing.T) {
	w := newHomely(t, append([]uint64{10, 11}, slices.Repeat([]uint64{1}, 20)...)...)
	var order []int
	for range 12 {
		order = append(order, w.free(0))
	}
	if want := []int{2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 10, 11}; !slices.Equal(order, want) {
		t.Errorf("calls go in the order %v, want %v", order, want)
	}
	w = newHomely(t, append(slices.Repeat([]uint64{10}, homeLook), 1)...)
	if got := w.free(0); got != 0 {
		t.Errorf("behind %d others call %d goes first", homeLook, got)
	}
	w = newHomely(t, 0, 1)
	if got := w.free(0); got != 0 {
		t.Errorf("before a call of no conversation call %d goes", got)
	}
}
