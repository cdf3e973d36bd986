package history

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

var t0 = time.Unix(1_800_000_000, 0)

func at(step int) time.Time { return t0.Add(time.Duration(step) * Step) }

// one is a reading of pool p with one tenant.
func one(received float64, refused, failed int64) []Reading {
	return []Reading{{Pool: "p", Used: int64(1000 * received), Limit: 1000, Tenants: []TenantReading{
		{Name: "a", Received: received, Entitled: received / 2, Refused: refused, Failed: failed},
	}}}
}

// Counts of a step are what the totals have grown by, also after these began anew.
func TestBook_Steps(t *testing.T) {
	b := NewBook()
	b.Record(at(0), one(0.25, 3, 0))
	b.Record(at(0).Add(Step/2), one(0.75, 9, 9)) // the same step
	b.Record(at(1), one(0.5, 5, 2))
	b.Record(at(4), one(0, 5, 2)) // does nothing; two steps were missed
	b.Record(at(5), one(0.12345, 1, 2))
	got := b.Pool(at(5), "p", nil, 10)
	want := TenantSeries{
		Name: "a", Received: []float64{0.25, 0.5, 0, 0.1235}, Entitled: []float64{0.125, 0.25, 0, 0.0617},
		Refused: []int64{3, 2, 0, 1}, Failed: []int64{0, 2, 0, 0},
	}
	testkit.Same(t, []TenantSeries{want}, got.Tenants, "tenants")
	testkit.Same(t, []time.Time{at(0).UTC(), at(1).UTC(), at(4).UTC(), at(5).UTC()}, got.Times, "times")
	if p := got.Points[1]; p.Used != 500 || p.Limit != 1000 || p.Refused != 2 || p.Failed != 2 || p.Received != 0.5 {
		t.Errorf("the second point is %+v", p)
	}
}

// An hour is kept, and nothing of before.
func TestBook_AnHour(t *testing.T) {
	b := NewBook()
	for i := range 1000 {
		b.Record(at(i), one(float64(i%100)/100, int64(i), 0))
	}
	got := b.Pool(at(999), "p", nil, 1)
	if n := len(got.Times); n != int(Points) || !got.Times[0].Equal(at(640)) {
		t.Errorf("%d points from %v, want %d from %v", n, got.Times[0], Points, at(640))
	}
	if r := got.Tenants[0].Received; r[0] != 0.40 || r[len(r)-1] != 0.99 {
		t.Errorf("received %v … %v", r[0], r[len(r)-1])
	}
	if later := b.Pool(at(999+300), "p", nil, 1); len(later.Times) != 60 {
		t.Errorf("%d points after 50 minutes without one, want 60", len(later.Times))
	}
}

// A clock that was put back does not stop the record.
func TestBook_ClockPutBack(t *testing.T) {
	b := NewBook()
	b.Record(at(500), one(0.5, 0, 0))
	b.Record(at(3), one(0.25, 0, 0))
	if got := b.Pool(at(3), "p", nil, 1); len(got.Times) != 1 || got.Tenants[0].Received[0] != 0.25 {
		t.Errorf("got %+v", got)
	}
}

// Only pairs that did anything are kept, and no longer than an hour.
func TestBook_OnlyWhoDidAnything(t *testing.T) {
	b := NewBook()
	readings := func(busy float64, refused int64) []Reading {
		return []Reading{{Pool: "p", Tenants: []TenantReading{{Name: "busy", Received: busy, Refused: refused}, {Name: "idle"}}}}
	}
	b.Record(at(0), readings(1, 7))
	if got := b.Pool(at(0), "p", nil, 10); got.Active != 1 || len(got.Tenants) != 1 || b.rings != 1 {
		t.Fatalf("%d active, %d rings", got.Active, b.rings)
	}
	for i := range int(Points) {
		b.Record(at(1+i), readings(0, 7))
	}
	if b.rings != 0 {
		t.Errorf("%d rings after an idle hour", b.rings)
	}
	b.Record(at(400), readings(0, 8)) // its earlier refusals are not counted again
	if got := b.Pool(at(400), "p", []string{"busy", "nobody"}, 0); got.Tenants[0].Refused[len(got.Times)-1] != 1 || got.Tenants[1].Refused[0] != 0 {
		t.Errorf("got %+v", got.Tenants)
	}
	b.Record(at(1000), nil)
	if len(b.pools) != 0 {
		t.Errorf("a pool without a point is still there")
	}
}

// The tenants that received most come first.
func TestBook_Top(t *testing.T) {
	b := NewBook()
	b.Record(at(0), []Reading{{Pool: "p", Tenants: []TenantReading{{Name: "b", Received: 0.2}, {Name: "c", Received: 0.5}, {Name: "a", Received: 0.2}}}})
	var names []string
	for _, s := range b.Pool(at(0), "p", nil, 2).Tenants {
		names = append(names, s.Name)
	}
	testkit.Same(t, []string{"c", "a"}, names, "top")
}

// 1,000 tenants that all use 10 pools take less than 32 MB, and more pairs than that take no more.
func TestBook_MemoryIsBounded(t *testing.T) {
	readings := func(tenants int) []Reading {
		var out []Reading
		for p := range 10 {
			r := Reading{Pool: fmt.Sprint("pool-", p)}
			for i := range tenants {
				r.Tenants = append(r.Tenants, TenantReading{Name: fmt.Sprint("tenant-", i), Received: 0.001})
			}
			out = append(out, r)
		}
		return out
	}
	few := readings(1000)
	many := readings(1100)
	b := NewBook()
	b.Record(at(0), few)
	if !testkit.Race {
		spent := testkit.Allocated(t, 1, func() { NewBook().Record(at(0), few) })
		if spent.Bytes > 33e6 {
			t.Errorf("%.1f MB", float64(spent.Bytes)/1e6)
		}
	}
	b.Record(at(1), many)
	if b.rings != MaxPairs {
		t.Errorf("%d pairs are kept, want %d", b.rings, MaxPairs)
	}
	omitted := 0
	for p := range 10 {
		omitted += b.Pool(at(1), fmt.Sprint("pool-", p), nil, 1).Omitted
	}
	if omitted != 1000 {
		t.Errorf("%d are omitted, want 1000", omitted)
	}
}

// A recorder reads its source at each full step, until its context ends.
func TestRecorder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		r := NewRecorder(func() []Reading { return one(0.5, 0, 0) })
		done := make(chan error)
		go func() { done <- r.Run(ctx) }()
		synctest.Wait()
		time.Sleep(time.Minute + time.Second)
		times := r.Pool("p", nil, 1).Times
		if len(times) != 6 || !times[0].Equal(time.Now().Truncate(time.Minute).Add(-50*time.Second)) {
			t.Errorf("after a minute there are points of %v", times)
		}
		end()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestMinute(t *testing.T) {
	var m Minute
	for _, second := range []int{0, 0, 30, 59} {
		m.Add(t0.Add(time.Duration(second) * time.Second))
	}
	for _, c := range []struct {
		second int
		want   int64
	}{{59, 4}, {60, 2}, {89, 2}, {90, 1}, {119, 0}, {500, 0}} {
		if got := m.Count(t0.Add(time.Duration(c.second) * time.Second)); got != c.want {
			t.Errorf("after %d s: %d, want %d", c.second, got, c.want)
		}
	}
	m.Add(t0) // the clock was put back
	if got := m.Count(t0); got != 1 {
		t.Errorf("after the clock was put back: %d, want 1", got)
	}
}
