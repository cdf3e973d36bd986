package storetest

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgov/llmgov/federation"
	"github.com/llmgov/llmgov/federation/parts"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// declared sends beats of nodes that stop and restart, to a store that is replaced and declared new in between.
func declared(t *testing.T, h Harness) {
	w := newTwin(t, h)
	rng := rand.New(rand.NewPCG(13, 14))
	nodes := []*node{newNode("a", h, 1), newNode("b", h, 2)}
	refused := map[bool]int{}
	granted := 0
	rounds := testkit.Rounds(100, 400)
	for range rounds {
		w.at(w.now + rng.Int64N(900))
		n := nodes[rng.IntN(len(nodes))]
		switch rng.IntN(12) {
		case 0:
			n.restart()
		case 1:
			w.at(w.now + []int64{2900, 3100, 62_700, 63_000}[rng.IntN(4)])
		case 2:
			w.incarnation = string(rune('A' + rng.IntN(26)))
			h.Replace(w.incarnation)
		case 3, 4:
			w.at(w.now + rng.Int64N(2)*62_800)
			no := w.declare()
			refused[no]++
			n.restart()
			if r := w.beat(n.next()); !no && r.Status == federation.Granted {
				granted++
			}
			continue
		}
		n.took(w.beat(n.next()))
	}
	if least := rounds / 40; refused[true] < least || refused[false] < least || granted < least {
		t.Errorf("so many were refused, and not: %v; and %d nodes were granted something at once", refused, granted)
	}
}

// declare declares the pool new, compares what comes of that, and reports whether it was refused.
func (w *twin) declare() bool {
	w.t.Helper()
	if w.oracle == nil {
		w.oracle = federation.NewAccount(w.h.Rules, w.now, federation.Options{Incarnation: w.incarnation})
	}
	want := w.oracle.Declare(w.now, w.incarnation)
	err := w.h.Declare("p")
	got, _ := errors.AsType[*federation.InUseError](err)
	if want != nil {
		want.Pool = "p"
	}
	if diff := cmp.Diff(want, got); diff != "" || (err != nil) != (want != nil) {
		w.t.Fatalf("declared new at +%d ms: %v (- want, + got):\n%s", w.now-begin, err, diff)
	}
	return want != nil
}

// declaredParts sends beats of processes that tell what they have heard, to accounts that are declared new, forgotten, or taken over by another
// server in between.
func declaredParts(t *testing.T, h PartsHarness) {
	rng := rand.New(rand.NewPCG(15, 16))
	now := begin
	early, voided, refused := 0, 0, map[bool]int{}
	owners := testkit.Rounds(4, 16)
	for i := range owners {
		owner := string(rune('a'+i)) + "of"[:i%2] // its processes expect as many as it has letters
		w := newCrowd(rng, owner)
		w.incarnation = "first"
		h.SetClock(now)
		h.Replace(w.incarnation)
		heard := map[string]int64{}
		for range 40 {
			now = drift(rng, now+rng.Int64N(400), 30)
			h.SetClock(now)
			if rng.IntN(12) == 0 {
				now += []int64{0, 3000, 100_000}[rng.IntN(3)]
				h.SetClock(now)
				want := false
				for range 1 + rng.IntN(2) {
					a := w.oracle(owner)
					a.On(w.incarnation)
					want = a.Declare(now, w.incarnation)
					got, err := h.DeclareOwner(owner)
					if err != nil || got != want {
						t.Fatalf("%s declared new at +%d ms: %v, %v, want %v", owner, now-begin, got, err, want)
					}
				}
				refused[!want]++
				if want && rng.IntN(2) == 0 {
					w.incarnation += "x"
					h.Replace(w.incarnation)
					voided++
				}
			}
			b := w.beat(owner, []string{"i", "j"}[rng.IntN(2)], now)
			m := w.members[b.Owner+b.Instance]
			b.Epoch = m.epoch
			b.Known = m.epoch
			b.Heard = heard[b.Instance]
			r := w.share(t, h, now, []*parts.Beat{b})[0]
			m.epoch = r.Epoch
			heard[b.Instance] = r.Now
			a := w.oracle(owner)
			for i, p := range r.Parts {
				if c := b.Claims[i]; c.Kind == parts.Slots && c.Tail > 0 && p.Part > c.Part && a.Born == a.Began && a.Now <= a.Began+5000 {
					early++
				}
			}
		}
	}
	if least := owners / 2; early < least || voided < least || refused[true] < least || refused[false] < least {
		t.Errorf("%d got slots of an account that is new; %d were declared new in vain; so many were refused, and not: %v", early, voided, refused)
	}
}
