package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/llmgov/llmgov/federation/parts"
)

// sameAsks sends beats and asks of some processes, which come late, twice, or not at all for a
// while; the store has to answer as accounts do.
func sameAsks(t *testing.T, h PartsHarness) {
	rng := rand.New(rand.NewPCG(7, 8))
	w := newCrowd(rng, "t/{ü} in p", "t/{ü}", "t in p", "t")
	now := begin
	var old []*parts.Ask
	in := map[bool]int{}
	const full = 800
	rounds := rounds(h.Fewer, full)
	for range rounds {
		now = drift(rng, now+rng.Int64N(300), 60)
		h.SetClock(now)
		if rng.IntN(5) == 0 {
			w.share(t, h, now, []*parts.Beat{w.next(now)})
			continue
		}
		q := w.ask(now)
		if len(old) > 0 && rng.IntN(12) == 0 {
			q = old[rng.IntN(len(old))]
		} else {
			old = append(old, q)
		}
		want := q.Tell(now, w.accounts(q))
		got, err := h.Store.Ask(context.Background(), q)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("at +%d ms %s (- want, + got):\n%s", now-begin, Text(q), diff)
		}
		for i, b := range q.Beats {
			w.heard(b, want.Replies[i])
		}
		for _, v := range want.Verdicts {
			in[v.In]++
		}
	}
	if in[true] < 80*rounds/full || in[false] < 300*rounds/full {
		t.Errorf("so many were let in: %v", in)
	}
}

func (w *crowd) accounts(q *parts.Ask) (list []*parts.Account) {
	for _, b := range q.Beats {
		list = append(list, w.oracle(b.Owner))
	}
	return list
}

// ask is an ask of a process, of some owners, with some calls.
func (w *crowd) ask(now int64) *parts.Ask {
	q := &parts.Ask{}
	instance := []string{"i", "j", "k"}[w.rng.IntN(3)]
	from := w.rng.IntN(len(w.owners))
	for _, owner := range w.owners[from:] {
		b := w.beat(owner, instance, now)
		for i := range b.Claims {
			c := &b.Claims[i]
			c.Part = min(c.Part, c.Used)
			if w.rng.IntN(3) > 0 {
				c.Want = c.Used
				c.Need = 0
			}
		}
		q.Beats = append(q.Beats, b)
	}
	for range w.rng.IntN(4) {
		var c parts.Call
		for i, b := range q.Beats {
			for j, claim := range b.Claims {
				if w.rng.IntN(3) > 0 {
					c = append(c, parts.Take{Beat: i, Claim: j, Amount: w.rng.Int64N(claim.Limit/4 + 2), Rest: w.rng.IntN(3) == 0})
				}
			}
		}
		q.Calls = append(q.Calls, c)
	}
	return q
}

// plea is an ask for one unit of each owner, by a process that reports a usage.
func plea(instance string, seq, used int64, owners ...string) *parts.Ask {
	q := &parts.Ask{Calls: []parts.Call{nil}}
	for i, owner := range owners {
		q.Beats = append(q.Beats, &parts.Beat{Owner: owner, Instance: instance, Seq: seq, Claims: []parts.Claim{
			{Name: "x", Kind: parts.Rolling, Limit: 10, Used: used, Want: used},
		}})
		q.Calls[0] = append(q.Calls[0], parts.Take{Beat: i, Amount: 1})
	}
	return q
}

// replayed: an ask that is sent twice is charged once, and units that a process reports as unused are
// not charged.
func replayed(t *testing.T, h PartsHarness) {
	h.SetClock(begin)
	ask := func(q *parts.Ask, in bool, part, others int64) {
		t.Helper()
		got, err := h.Store.Ask(context.Background(), q)
		if err != nil {
			t.Fatal(err)
		}
		if v := got.Verdicts[0]; v.In != in {
			t.Errorf("let in: %v, want %v", v.In, in)
		}
		if r := got.Replies[0]; len(r.Parts) > 0 && (r.Parts[0].Part != part || r.Parts[0].Others != others) || len(r.Parts) == 0 && part >= 0 {
			t.Errorf("answered %+v, want part %d, others %d", r, part, others)
		}
	}
	first := plea("i", 1, 0, "o")
	ask(first, true, 1, 0)
	for range 3 {
		ask(first, false, -1, 0)
	}
	ask(plea("j", 1, 8, "o"), true, 9, 1)
	ask(plea("j", 2, 9, "o"), false, 9, 1)
	ask(plea("i", 2, 0, "o"), true, 1, 9) // the answer to the first was lost, and the call did not go
	ask(plea("j", 3, 8, "o"), true, 9, 1)
}

// rush: many processes ask concurrently, of two owners each. Each call is admitted by both or by
// none, and exactly as many as fit.
func rush(t *testing.T, h PartsHarness) {
	var group sync.WaitGroup
	const processes, rounds = 6, 8
	var used [2][processes]int64
	owners := [2][]string{{"t/a", "t"}, {"t/b", "t"}}
	for i := range processes {
		group.Go(func() {
			for round := range int64(rounds) {
				team := i % 2
				q := plea(fmt.Sprint("i", i), round+1, used[team][i], owners[team]...)
				got, err := h.Store.Ask(context.Background(), q)
				if err != nil {
					t.Error(err)
					return
				}
				if got.Verdicts[0].In {
					used[team][i]++
				}
			}
		})
	}
	group.Wait()
	var sum [2]int64
	for team := range used {
		for _, n := range used[team] {
			sum[team] += n
		}
	}
	if sum[0]+sum[1] != 10 {
		t.Errorf("%v were let in, of 10 that their tenant may", sum)
	}
}
