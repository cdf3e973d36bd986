package escrow

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// naiveLedger keeps every booking and sums those of the last Window.
type naiveLedger struct {
	at     []time.Time
	amount []int64
	held   int64
}

func (n *naiveLedger) used(now time.Time) int64 {
	sum := n.held
	for i, t := range n.at {
		if now.Sub(t) < Window {
			sum += n.amount[i]
		}
	}
	return sum
}

// The ring counts everything that the exact log counts, and at most one slot
// more: it is safe at every instant and wastes no more than it must.
func TestI1_LedgerCoversEveryWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		slots := rapid.SampledFrom([]int{60, 120, 240, 600}).Draw(t, "slots")
		l := NewLedger(t0, 1_000_000, slots)
		var exact naiveLedger
		now := t0
		type booking struct {
			i    int
			slot int64
		}
		var live []booking
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(9*time.Second)).Draw(t, "dt")))
			l.Advance(now)
			switch rapid.IntRange(0, 3).Draw(t, "op") {
			case 0, 1:
				c := rapid.Int64Range(1, 5000).Draw(t, "c")
				live = append(live, booking{len(exact.at), l.Slot()})
				exact.at = append(exact.at, now)
				exact.amount = append(exact.amount, c)
				l.Book(c)
			case 2:
				if len(live) > 0 {
					b := live[rapid.IntRange(0, len(live)-1).Draw(t, "which")]
					d := rapid.Int64Range(0, exact.amount[b.i]).Draw(t, "refund")
					exact.amount[b.i] -= d
					l.Correct(b.slot, -d)
				}
			case 3:
				c := rapid.Int64Range(1, 100).Draw(t, "hold")
				exact.held += c
				l.Hold(c)
			}
			slot := Window / time.Duration(slots)
			if got, min := l.Used(), exact.used(now); got < min {
				t.Fatalf("ledger counts %d, the last minute holds %d", got, min)
			}
			if got, max := l.Used(), exact.used(now.Add(-slot)); got > max+sumSince(exact, now, slot) {
				t.Fatalf("ledger counts %d, more than one slot beyond the last minute (%d)", got, max)
			}
		}
	})
}

// sumSince is what was booked in the last d before now: exact.used of an
// earlier time does not know it yet, or knows it already.
func sumSince(n naiveLedger, now time.Time, d time.Duration) int64 {
	sum := int64(0)
	for i, t := range n.at {
		if now.Sub(t) <= d {
			sum += n.amount[i]
		}
	}
	return sum
}

func TestLedgerFreeAt(t *testing.T) {
	l := NewLedger(t0, 100, 60)
	l.Book(40)
	l.Advance(t0.Add(10 * time.Second))
	l.Book(60)

	for _, c := range []struct {
		cost  int64
		after time.Duration
	}{
		{0, 10 * time.Second},
		{1, 61 * time.Second},
		{40, 61 * time.Second},
		{41, 71 * time.Second},
		{100, 71 * time.Second},
	} {
		at, known := l.FreeAt(c.cost)
		if !known || at.Sub(t0) != c.after {
			t.Errorf("FreeAt(%d) = %v, %v; want %v", c.cost, at.Sub(t0), known, c.after)
		}
		l2 := *l
		l2.slots = append([]int64(nil), l.slots...)
		l2.Advance(at)
		if l2.Room() < c.cost {
			t.Errorf("FreeAt(%d): only %d free then", c.cost, l2.Room())
		}
	}
	if at := l.FullAt(); at.Sub(t0) != 71*time.Second {
		t.Errorf("FullAt = %v, want 71s", at.Sub(t0))
	}
	l.Hold(1)
	if _, known := l.FreeAt(100); known {
		t.Error("FreeAt promises a time while a hold of unknown length stands in the way")
	}
}

func TestLedgerTimeNeverRunsBack(t *testing.T) {
	l := NewLedger(t0, 100, 60)
	l.Advance(t0.Add(30 * time.Second))
	l.Book(10)
	l.Advance(t0)
	if l.Used() != 10 || l.Slot() != 30 {
		t.Fatalf("used %d in slot %d after a step back, want 10 in slot 30", l.Used(), l.Slot())
	}
}
