package mock

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestWindowEdges(t *testing.T) {
	var w window
	w.add(0, 10)
	w.add(time.Second, 5)
	steps := []struct {
		at  time.Duration
		sum int64
	}{
		{time.Second, 15},
		{minute - 1, 15},
		{minute, 5}, // (now-60s, now]: what is a minute old to the nanosecond counts no more
		{minute + time.Second - 1, 5},
		{minute + time.Second, 0},
	}
	for _, st := range steps {
		w.expire(st.at)
		if w.sum != st.sum {
			t.Errorf("sum at %s = %d, want %d", st.at, w.sum, st.sum)
		}
	}
	if w.peak != 15 {
		t.Errorf("peak = %d, want 15", w.peak)
	}
}

// TestWindowReduceGone gives back an entry that has left: nothing must change.
func TestWindowReduceGone(t *testing.T) {
	var w window
	ref := w.add(0, 10)
	w.add(30*time.Second, 7)
	w.reduce(minute, ref, 4)
	if w.sum != 7 {
		t.Errorf("sum = %d, want 7", w.sum)
	}
}

// naive is the window as its definition says it: a list that is never cut.
type naive []entry

func (n naive) sum(now time.Duration) (sum int64) {
	for _, e := range n {
		if e.at > now-minute && e.at <= now {
			sum += e.amount
		}
	}
	return sum
}

// gone returns when at least amount of what is in the window now will have left it.
func (n naive) gone(now time.Duration, amount int64) time.Duration {
	before := n.sum(now)
	for _, e := range n { // only at these instants does the sum fall
		if at := e.at + minute; at > now && before-n.sum(at) >= amount {
			return at - now
		}
	}
	return 0
}

func TestWindowAgainstNaiveList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var (
			w    window
			n    naive
			refs []uint64
			now  time.Duration
			peak int64
		)
		gap := rapid.OneOf(
			rapid.Just(time.Duration(0)), rapid.Just(time.Duration(1)), rapid.Just(minute-1), rapid.Just(minute),
			rapid.Custom(func(t *rapid.T) time.Duration {
				return time.Duration(rapid.Int64Range(0, int64(3*time.Second)).Draw(t, "gap"))
			}))
		for range rapid.IntRange(1, 150).Draw(t, "steps") {
			now += gap.Draw(t, "wait")
			if len(n) == 0 || rapid.IntRange(0, 2).Draw(t, "what") > 0 {
				amount := rapid.Int64Range(0, 100).Draw(t, "amount")
				refs = append(refs, w.add(now, amount))
				n = append(n, entry{now, amount})
			} else {
				i := rapid.IntRange(0, len(n)-1).Draw(t, "refund of")
				back := rapid.Int64Range(0, n[i].amount).Draw(t, "refund")
				w.reduce(now, refs[i], back)
				n[i].amount -= back
			}
			w.expire(now)
			peak = max(peak, n.sum(now))
			if w.sum != n.sum(now) || w.peak != peak {
				t.Fatalf("at %s: sum %d peak %d, want %d and %d", now, w.sum, w.peak, n.sum(now), peak)
			}
			if amount := rapid.Int64Range(0, 300).Draw(t, "need"); amount > 0 && amount <= w.sum {
				if got, want := w.wait(now, amount), n.gone(now, amount); got != want {
					t.Fatalf("at %s: wait for %d = %s, want %s", now, amount, got, want)
				}
			}
			if got, want := w.empty(now), n.gone(now, w.sum); w.sum > 0 && got != want {
				t.Fatalf("at %s: empty in %s, want %s", now, got, want)
			}
		}
	})
}
