package budget

import (
	"testing"
	"time"
)

func at(s string) time.Time {
	t, err := time.Parse("2006-01-02 15:04", s)
	if err != nil {
		panic(err)
	}
	return t
}

func wantUsed(t *testing.T, b interface{ Used(time.Time) int64 }, now time.Time, want int64) {
	t.Helper()
	if got := b.Used(now); got != want {
		t.Errorf("%d is used, want %d", got, want)
	}
}

// One call at a time, over the end of a day and back.
//
// Seen failing with: a refund given after its period; an excess dropped after
// its period.
func TestCapOverMidnight(t *testing.T) {
	b := NewCap(100, Day, nil)
	noon := at("2026-05-05 12:00")
	late := at("2026-05-05 23:59")
	next := at("2026-05-06 00:01")

	a, ans := b.Hold(noon, 60)
	if want := (Answer{OK: true, Ceiling: 100, Remaining: 40}); ans != want {
		t.Fatalf("got %+v, want %+v", ans, want)
	}
	_, ans = b.Hold(noon, 50)
	if ans != (Answer{Ceiling: 100, Remaining: 40, RetryAt: at("2026-05-06 00:00")}) {
		t.Errorf("a call that does not fit: %+v", ans)
	}
	_, ans = b.Hold(noon, 101)
	if ans.OK || !ans.RetryAt.IsZero() {
		t.Errorf("a call larger than the limit can retry: %+v", ans)
	}
	b.Settle(noon, a, 10)
	wantUsed(t, b, noon, 10)
	over, _ := b.Hold(late, 20)
	refund, _ := b.Hold(late, 30)
	wantUsed(t, b, late, 60)

	wantUsed(t, b, next, 0) // calls in flight have been counted yesterday
	b.Settle(next, refund, 5)
	wantUsed(t, b, next, 0) // yesterday is over, and today gets no present
	b.Settle(next, over, 27)
	wantUsed(t, b, next, 7) // what nobody could count yesterday

	wantUsed(t, b, noon, 7) // a clock that steps back opens nothing
	if got := b.ResetAt(noon); !got.Equal(at("2026-05-07 00:00")) {
		t.Errorf("resets at %v", got)
	}
}

// A budget of money in the tenant's own month.
func TestCapOfMoneyInAZone(t *testing.T) {
	b := NewCap(500*USD, Month, zone(t, "America/New_York"))
	now := at("2026-03-01 04:59") // still February there
	if _, ans := b.Hold(now, 499_999_999); !ans.OK || ans.Remaining != 1 {
		t.Errorf("%+v", ans)
	}
	_, ans := b.Hold(now, 2)
	if ans.OK || !ans.RetryAt.Equal(at("2026-03-01 05:00")) {
		t.Errorf("%+v", ans)
	}
	_, ans = b.Hold(ans.RetryAt, 2)
	if !ans.OK {
		t.Errorf("%+v", ans)
	}
}

// Calls that take far more than they hold neither overflow the books nor are
// forgotten.
func TestCapInDebt(t *testing.T) {
	b := NewCap(10, Hour, nil)
	now := at("2026-05-05 12:00")
	for range 2_000_000 {
		b.Settle(now, Hold{}, 1<<62)
	}
	wantUsed(t, b, now, maxUsed)
	if _, ans := b.Hold(now, 1); ans.OK || ans.Remaining != 0 {
		t.Errorf("%+v", ans)
	}
	b.SetLimit(-1)
	if b.Limit() != 0 {
		t.Errorf("limit %d", b.Limit())
	}
}
