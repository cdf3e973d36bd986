package penalty

import (
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

// TestLimit_Patience: however often a number of calls has failed, sixteen times as many successes are enough to try it again. A limit that comes to
// all that anybody may run is forgotten.
func TestLimit_Patience(t *testing.T) {
	for failures, want := range map[int]int{1: 1, 2: 2, 4: 8, 5: 16, 9: 16} {
		var l Limit
		now := t0
		for range failures {
			now = now.Add(2 * time.Second)
			l.Failed(now, now.Add(-time.Second), 1)
		}
		successes := 0
		for l.Most(now) == 1 {
			l.Succeeded(now, 1, 2)
			successes++
		}
		if successes != want || l.Most(now) != 0 {
			t.Errorf("after %d failures %d successes raise the limit to %d, want %d and none", failures, successes, l.Most(now), want)
		}
	}
}
