package penalty

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

var t0 = time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)

// TestLimit_Steps: each line is one event and the limit after it.
func TestLimit_Steps(t *testing.T) {
	const all = 16
	type event struct {
		at      time.Duration
		failed  bool
		began   time.Duration
		running int64
		want    int64
	}
	fail := func(at, began time.Duration, running, want int64) event { return event{at, true, began, running, want} }
	ok := func(at time.Duration, running, want int64) event { return event{at, false, 0, running, want} }
	for what, steps := range map[string][]event{
		"a burst counts once": {fail(10, 0, 8, 4), fail(11, 0, 7, 4), fail(12, 10, 6, 4), fail(20, 11, 4, 2), fail(30, 21, 2, 1), fail(40, 31, 1, 1)},
		"calls that began before, beyond the limit, do not count": {fail(10, 0, 8, 4), fail(20, 11, 7, 2)},
		"as many successes as may run add one":                    {fail(10, 0, 6, 3), ok(11, 3, 3), ok(12, 3, 3), ok(13, 3, 4), ok(14, 4, 4)},
		"successes below the limit add nothing":                   {fail(10, 0, 4, 2), ok(11, 1, 2), ok(12, 1, 2), ok(13, 1, 2), ok(14, 2, 2), ok(15, 2, 3)},
		"successes count anew after a failure":                    {fail(10, 0, 6, 3), ok(11, 3, 3), ok(12, 3, 3), fail(13, 11, 3, 1), ok(14, 1, 1), ok(15, 1, 2)},
		"a number that failed twice is tried half as often":       {fail(10, 0, 2, 1), ok(11, 1, 2), fail(12, 11, 2, 1), ok(13, 1, 1), ok(14, 1, 2), fail(15, 14, 2, 1), ok(16, 1, 1), ok(17, 1, 1), ok(18, 1, 1), ok(19, 1, 2)},
		"beyond the number that failed it goes as before": {
			fail(8, 0, 4, 2), fail(11, 10, 2, 1), ok(12, 1, 1), ok(13, 1, 2), ok(14, 2, 2), ok(15, 2, 2), ok(16, 2, 2), ok(17, 2, 3), ok(18, 3, 3), ok(19, 3, 3), ok(20, 3, 4),
		},
		"forgotten at all that anybody may run":       {fail(10, 0, 30, 15), ok(11, 14, 15), fail(12, 0, 15, 15)},
		"forgotten after a while":                     {fail(10, 0, 4, 2), ok(10+Memory-1, 1, 2), ok(10+Memory, 2, 0)},
		"a failure that is not counted is remembered": {fail(10, 0, 4, 2), fail(20, 0, 4, 2), ok(10+Memory, 1, 2), ok(20+Memory, 1, 0)},
		"a success without a limit changes nothing":   {ok(10, 16, 0)},
	} {
		var l Limit
		for i, e := range steps {
			now := t0.Add(e.at)
			if e.failed {
				l.Failed(now, t0.Add(e.began), e.running)
			} else {
				l.Succeeded(now, e.running, all)
			}
			if got := l.Most(now); got != e.want {
				t.Errorf("%s: after event %d it is %d, want %d", what, i, got, e.want)
			}
		}
	}
}

// oracle is the rule as textbooks have it, with a part of a call for each success.
type oracle struct {
	most            float64
	patience, tried float64
	lowered, failed time.Time
}

func (o *oracle) forget(now time.Time) {
	if now.Sub(o.failed) >= Memory {
		*o = oracle{}
	}
}

func (o *oracle) end(now, began time.Time, failed bool, running, all int64) {
	o.forget(now)
	switch {
	case failed:
		o.failed = now
		if o.most == 0 || began.After(o.lowered) {
			half := float64(running)
			if o.most > 0 {
				half = math.Min(half, math.Floor(o.most+1e-9))
			}
			o.most = math.Max(1, math.Floor(half/2))
			o.tried = half
			o.patience = math.Min(math.Max(1, 2*o.patience), 16)
			o.lowered = now
		}
	case o.most > 0 && running >= int64(o.most+1e-9):
		whole := math.Floor(o.most + 1e-9)
		o.most += 1 / whole / o.patience
		if grown := math.Floor(o.most + 1e-9); grown > whole && grown > o.tried {
			o.patience = math.Max(1, o.patience/2)
		}
		if o.most+1e-9 >= float64(all) {
			*o = oracle{}
		}
	}
}

// TestLimit_AsTextbook: over random ends of calls the limit is the oracle's whole part.
func TestLimit_AsTextbook(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 2))
		all := 2 + rng.Int64N(40)
		var l Limit
		var o oracle
		now := t0
		for range 400 {
			now = now.Add(time.Duration(rng.ExpFloat64() * float64(5*time.Second)))
			if rng.IntN(100) == 0 {
				now = now.Add(Memory)
			}
			began := now.Add(-time.Duration(rng.ExpFloat64() * float64(10*time.Second)))
			running := 1 + rng.Int64N(all)
			failed := rng.IntN(15) == 0
			if failed {
				l.Failed(now, began, running)
			} else {
				l.Succeeded(now, running, all)
			}
			o.end(now, began, failed, running, all)
			if want := int64(o.most + 1e-9); l.Most(now) != want {
				t.Fatalf("seed %d: it is %d, want %d", seed, l.Most(now), want)
			}
		}
	}
}
