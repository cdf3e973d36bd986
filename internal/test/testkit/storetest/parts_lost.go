package storetest

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/llmgov/llmgov/federation/parts"
)

// lostParts sends beats and asks to accounts that know nothing, by processes some of which know of an account
// before; the store has to restore them as accounts do.
func lostParts(t *testing.T, h PartsHarness) {
	rng := rand.New(rand.NewPCG(9, 10))
	now := begin
	learning := map[bool]int{}
	const full = 25
	rounds := rounds(h.Fewer, full) // losses
	for loss := range rounds {
		owners := []string{fmt.Sprint("t", loss, "/u"), fmt.Sprint("t", loss)}
		w := newCrowd(rng, owners...)
		for range 30 {
			now = drift(rng, now+rng.Int64N(400), 60)
			h.SetClock(now)
			q := w.ask(now)
			for _, b := range q.Beats {
				w.knows(b)
			}
			want := q.Tell(now, w.accounts(q))
			got, err := h.Store.Ask(context.Background(), q)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("loss %d, at +%d ms %s (- want, + got):\n%s", loss, now-begin, Text(q), diff)
			}
			batch := []*parts.Beat{w.knows(w.next(now)), w.knows(w.next(now))}
			for i, r := range w.share(t, h, now, batch) {
				learning[r.Learning]++
				w.members[batch[i].Owner+batch[i].Instance].epoch = r.Epoch
			}
		}
	}
	if learning[true] < 100*rounds/full || learning[false] < 300*rounds/full {
		t.Errorf("so many answers were of accounts that learn, and not: %v", learning)
	}
}

// knows adds to a beat what its process knows of an account that was lost.
func (w *crowd) knows(b *parts.Beat) *parts.Beat {
	m := w.members[b.Owner+b.Instance]
	b.Epoch = m.epoch
	b.Heard = begin + w.rng.Int64N(6000)
	switch {
	case b.Instance == "i" || w.rng.IntN(3) == 0:
		b.Known = 5
	case w.rng.IntN(6) == 0: // of which the account, or its member, may not know
		b.Known = m.epoch
		b.Heard = []int64{math.MaxInt32 * 1000, w.oracle(b.Owner).Now - w.rng.Int64N(4000)}[w.rng.IntN(2)]
	}
	for i := range b.Claims {
		c := &b.Claims[i]
		c.Sum = w.rng.Int64N(c.Limit + 1)
		c.Most = w.rng.Int64N(c.Limit + 1)
		c.Peers = w.rng.Int64N(3)
		c.Had = w.rng.Int64N(c.Limit + 1)
	}
	return b
}
