package shape

import (
	"math/rand/v2"
	"testing"
	"time"
)

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
