package shape

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestBucket_Lowered: a bucket that becomes smaller is no more than full, so that it takes calls again as soon as its new rate says. What
// it owed beyond its size is owed still, and another process's part is not taken for debt.
func TestBucket_Lowered(t *testing.T) {
	now := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
	large := Rule{Kind: TokenBucket, Amount: 60_000, Per: time.Minute, Burst: 300_000}
	small := Rule{Kind: TokenBucket, Amount: 600, Per: time.Minute}
	for what, c := range map[string]struct {
		booked, usable int64 // of the large one
		used           int64 // of the small one
		waits          time.Duration
	}{
		"less than the small one holds": {100, 300_000, 100, 0},
		"more":                          {200_000, 300_000, 600, time.Second},
		"full":                          {300_000, 300_000, 600, time.Second},
		"in debt":                       {300_050, 300_000, 650, 6 * time.Second},
		"half of it used elsewhere":     {150_000, 150_000, 300, time.Second * 2},
		"nothing usable here":           {1_000, 0, 1_000, 0},
	} {
		a := New(now, large)
		a.SetLimit(c.usable)
		a.Book(c.booked)
		a.Reshape(small)
		a.SetLimit(c.usable / 500)
		a.Advance(now.Add(time.Millisecond))
		if used := a.Used(); used != c.used {
			t.Errorf("%s: %d are used, want %d", what, used, c.used)
		}
		if c.usable == 0 {
			continue
		}
		at, known := a.FreeAt(10)
		if late := at.Sub(now) - c.waits; !known || late < -10*time.Millisecond || late > 100*time.Millisecond {
			t.Errorf("%s: there is room for 10 after %v, want %v", what, at.Sub(now), c.waits)
		}
	}
}

// TestBucket_LoweredRefund: calls in flight that give something back after that give it back of what they were booked at: as much as the
// smaller bucket holds is left of the others. What comes later counts whole, and a larger bucket keeps what is in it.
func TestBucket_LoweredRefund(t *testing.T) {
	now := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
	rule := func(burst int64) Rule { return Rule{Kind: TokenBucket, Amount: 60, Per: time.Minute, Burst: burst} }
	a := New(now, rule(1000))
	a.Book(400)
	slot := a.Slot()
	a.Book(500)
	a.Reshape(rule(100))
	a.Correct(slot, -400)
	if used := a.Used(); used != 100 {
		t.Errorf("after a refund %d are used, want 100: 500 of 900 were, and it holds no more", used)
	}
	a.Book(30)
	used := a.Used()
	if used != 130 {
		t.Errorf("after another booking %d are used, want 130", used)
	}
	a.Reshape(rule(1000))
	if got := a.Used(); got != used {
		t.Errorf("in a larger bucket %d are used, of %d before", got, used)
	}
}

// TestBookings: an account that is told what another one has booked counts as much at any time after, and nothing for longer than a twentieth of the
// window more.
func TestBookings(t *testing.T) {
	const per = time.Hour
	for _, kind := range []Kind{Rolling, Fixed, TokenBucket} {
		for seed := range uint64(30) {
			rng := rand.New(rand.NewPCG(seed, 8))
			now := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
			rule := Rule{Kind: kind, Amount: 1000, Per: per}
			before := New(now, rule)
			for range 100 {
				now = now.Add(time.Duration(rng.Int64N(int64(2 * time.Minute))))
				before.Advance(now)
				before.Book(min(before.Room(), rng.Int64N(60)))
			}
			list := before.Bookings()
			if len(list) > Slots/together+1 {
				t.Errorf("%v: %d bookings", kind, len(list))
			}
			now = now.Add(time.Duration(rng.Int64N(int64(time.Minute))))
			after := New(now, rule)
			for _, b := range list {
				after.BookAt(b.At, b.Amount)
			}
			for range 60 {
				before.Advance(now)
				after.Advance(now)
				if after.Used() < before.Used() {
					t.Fatalf("%v, seed %d: %d are used, want %d at least", kind, seed, after.Used(), before.Used())
				}
				now = now.Add(time.Minute)
			}
			now = now.Add(per / 20)
			after.Advance(now)
			if after.Used() > 0 && kind != TokenBucket {
				t.Errorf("%v, seed %d: %d are used when nothing counts any more", kind, seed, after.Used())
			}
		}
	}
}
