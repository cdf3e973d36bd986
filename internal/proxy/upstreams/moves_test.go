package upstreams

import (
	"cmp"
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// moved is what came of a limit that moves while callers always want more.
type moved struct {
	calls, refused float64
	off            float64 // the largest part by which the limit was off, from some time after the provider's changed
	least          int64   // that the limit was
}

// move runs gateways before a provider whose limit nobody knows, and which changes each twelve minutes. One of them is refused most of what is refused.
func move(way string, gateways int, r Range, from time.Duration, hidden ...int64) (m moved) {
	const tick, phase = 50 * time.Millisecond, 12 * time.Minute
	rnd := rand.New(rand.NewPCG(3, 4))
	p := provider{way: way, limit: hidden[0], at: t0}
	m.least = math.MaxInt64
	sets := make([]*Set, gateways)
	refused := make([]bool, gateways)
	for i := range sets {
		sets[i] = New([]Spec{{Name: "up", Weight: 1}}, nil)
		sets[i].Ranges[Tokens] = r
	}
	var mine []spent
	used := int64(0)
	var paused time.Time
	limit := r.Least
	for d := time.Duration(0); d < time.Duration(len(hidden))*phase; d += tick {
		now := t0.Add(d)
		p.limit = hidden[d/phase]
		for len(mine) > 0 && now.Sub(mine[0].at) >= time.Minute {
			used -= mine[0].n
			mine = mine[1:]
		}
		if d%time.Second == 0 {
			limit = math.MaxInt64
			for i, s := range sets {
				s.Look(now, Told{Tokens: used}, refused[i])
				refused[i] = false
				_, left := s.Limits(now, Told{Tokens: r.Least})
				limit = min(limit, left[Tokens])
			}
			m.least = min(m.least, limit)
			if d%phase >= from {
				m.off = max(m.off, math.Abs(float64(limit)/float64(p.limit)-1))
			}
		}
		for n := 500 + rnd.Int64N(1000); used+n <= limit && !now.Before(paused) && rnd.Float64() < .9; n = 500 + rnd.Int64N(1000) {
			m.calls++
			if ok, _ := p.call(now, n); ok {
				used += n
				mine = append(mine, spent{now, n})
				continue
			}
			m.refused++
			refused[0] = refused[0] || rnd.Float64() < .8
			refused[gateways-1] = refused[gateways-1] || !refused[0]
			paused = now.Add(500 * time.Millisecond)
		}
	}
	return m
}

// A limit that moves by what the provider refuses is within a twentieth of the provider's from a minute on, however that counts, while it refuses
// at most one of a thousand calls (with a bucket from three minutes on within a sixth, and four); it is never below its least, and gateways that are refused nothing do not raise it.
func TestMoves(t *testing.T) {
	r := Range{Least: 200_000, Most: 2_000_000, Throttles: true}
	for _, way := range []string{"rolling", "fixed", "bucket"} {
		for _, gateways := range []int{1, 3} {
			from, most, refused := time.Minute, .05, .001
			if way == "bucket" { // which serves a minute more at first, and what it has saved later
				from, most, refused = 3*time.Minute, .16, .004
			}
			m := move(way, gateways, r, from, 600_000)
			t.Logf("%s, %d gateways: %+v", way, gateways, m)
			if m.off > most || m.refused > refused*m.calls || m.least < r.Least {
				t.Errorf("%s, %d gateways: %+v", way, gateways, m)
			}
		}
	}
	first := New([]Spec{{Name: "up", Weight: 1}}, nil)
	first.Ranges[Tokens] = r
	first.Shared = true
	for after, want := range []int64{r.Most, r.Most, r.Most, r.Least, r.Least} { // seconds
		if found, left := first.Limits(t0.Add(time.Duration(after)*time.Second), Told{Tokens: r.Least}); found[Tokens] != want || left[Tokens] != want {
			t.Errorf("%d s after a gateway began that hears from no other, the limit is %d, and %d are left, want %d", after, found[Tokens], left[Tokens], want)
		}
	}
	if m := move("rolling", 1, Range{Least: 500_000, Most: 2_000_000, Throttles: true}, 0, 400_000); m.least != 500_000 {
		t.Errorf("before a provider who has less than the least limit, it is %d", m.least)
	}
	if m := move("rolling", 1, r, 10*time.Minute, 600_000, 400_000, 1_200_000); m.off > .08 || m.refused > m.calls/200 {
		t.Errorf("before a provider whose limit changes: %+v", m)
	}
}

// What upstreams with HeedFollow declare is the limit, up to the most; a gateway that knows nothing of that goes by what is used, or, if
// others know, leaves it to them.
func TestFollow(t *testing.T) {
	configured := Told{Tokens: 100, Requests: 10}
	for name, c := range map[string]struct {
		heed     Heed
		shared   bool
		used     int64 // in the last minute
		called   bool  // lately
		declared int64
		want     int64
	}{
		"more":                      {heed: HeedFollow, called: true, declared: 300, want: 300},
		"more than the most":        {heed: HeedFollow, called: true, declared: 900, want: 500},
		"less":                      {heed: HeedFollow, called: true, declared: 60, want: 60},
		"nothing":                   {heed: HeedFollow, called: true, want: 100},
		"more, but it may not":      {heed: HeedLower, called: true, declared: 300, want: 100},
		"nothing, but more is used": {heed: HeedFollow, called: true, used: 250, want: 250},
		"nothing, to one without calls beside others": {heed: HeedFollow, shared: true, want: 500},
		"nothing, to one without calls alone":         {heed: HeedFollow, want: 100},
	} {
		s := New([]Spec{{Name: "up", Weight: 1, Heed: c.heed}}, nil)
		s.Ranges[Tokens] = Range{Least: 100, Most: 500}
		s.Shared = c.shared
		if c.called {
			s.Use(t0, Scope{Model: "m"})
		}
		s.Look(t0, Told{Tokens: c.used, Requests: -1}, false)
		for range agreeing {
			s.Members[0].Report(t0, Result{Outcome: Served, Told: Told{Tokens: c.declared}, Model: "m"})
		}
		got := configured[Tokens]
		for _, cut := range s.Cuts(t0, configured) {
			got -= cut.Less[Tokens]
			if cut.Less[Requests] != 0 || cut.Paced || !cut.Until.After(t0) {
				t.Errorf("%s: %+v", name, cut)
			}
		}
		if got != c.want {
			t.Errorf("%s: the limit is %d, want %d", name, got, c.want)
		}
	}
}

// With a ramp, use grows from a tenth of the limit by no more than so many times a minute, and has to grow again after quiet; the limit itself is reached.
// A gateway that comes to others goes on from what they use.
func TestRamp(t *testing.T) {
	s := New([]Spec{{Name: "up", Weight: 1}}, nil)
	s.Ranges[Requests] = Range{Least: 1000, Ramp: 2}
	var minutes []int64
	perSecond := [60]int64{}
	used := int64(0)
	for second := range 13 * 60 {
		now := t0.Add(time.Duration(second) * time.Second)
		used -= perSecond[second%60]
		perSecond[second%60] = 0
		s.Look(now, Told{Tokens: -1, Requests: used}, false)
		_, left := s.Limits(now, Told{Requests: 1000})
		if quiet := second/60 == 6 || second/60 == 7; !quiet {
			n := max(0, min(left[Requests]/60+1, left[Requests]-used))
			perSecond[second%60] = n
			used += n
		}
		if second%60 == 59 {
			minutes = append(minutes, used)
		}
	}
	for i, n := range minutes {
		quiet := i == 6 || i == 7
		if before := int64(100); i > 0 {
			before = max(before, minutes[i-1])
			if n > 2*before+60 {
				t.Errorf("use grows from %d to %d in a minute: %v", before, n, minutes)
			}
		}
		if quiet != (n == 0) {
			t.Errorf("in minute %d %d are used: %v", i, n, minutes)
		}
	}
	if minutes[5] < 950 || minutes[8] > 200 || minutes[12] < 950 {
		t.Errorf("use is %v by minutes", minutes)
	}
	late := New([]Spec{{Name: "up", Weight: 1}}, nil)
	late.Ranges[Requests] = s.Ranges[Requests]
	late.Look(t0, Told{Requests: 700}, false)
	if _, left := late.Limits(t0, Told{Requests: 1000}); left[Requests] != 700 {
		t.Errorf("one that comes to others who use 700 begins at %d", left[Requests])
	}
	if cuts := late.Cuts(t0, Told{Requests: 1000}); len(cuts) != 1 || !cuts[0].Paced || cuts[0].Less[Requests] != 300 {
		t.Errorf("cuts are %+v", cuts)
	}
}

// What was learned is there after a restart or two, as long as it would count without one, and if it is of the same account. What was found is left to
// others at first, beside whom it may be low.
func TestRecall(t *testing.T) {
	setOf := func(account string) *Set { return New([]Spec{{Name: "up", Weight: 1, Account: account}}, nil) }
	throttles := setOf("a")
	throttles.Ranges[Tokens] = Range{Least: 100_000, Most: 900_000, Throttles: true}
	used := int64(0)
	for second := range 120 {
		used = min(used+8_000, 500_000)
		throttles.Look(t0.Add(time.Duration(second)*time.Second), Told{Tokens: used, Requests: -1}, second == 100)
	}
	declares := setOf("a")
	for range agreeing {
		declares.Members[0].Report(t0, Result{Outcome: Served, Told: Told{Tokens: 60_000}, Model: "m", Began: t0})
	}
	limit := func(s *Set, at time.Time) int64 {
		left := int64(100_000)
		for _, c := range s.Cuts(at, Told{Tokens: 100_000}) {
			left -= c.Less[Tokens]
		}
		return left
	}
	found := limit(throttles, t0)
	for name, c := range map[string]struct {
		from    *Set
		account string
		r       Range
		after   time.Duration
		first   int64 // beside others of whom nothing is heard yet
		want    int64
	}{
		"found":                    {throttles, "a", throttles.Ranges[Tokens], time.Hour, 900_000, found},
		"found long ago":           {throttles, "a", throttles.Ranges[Tokens], 25 * time.Hour, 900_000, 100_000},
		"found to come":            {throttles, "a", throttles.Ranges[Tokens], -time.Hour, 900_000, 100_000},
		"found, with another key":  {throttles, "b", throttles.Ranges[Tokens], time.Hour, 900_000, found},
		"found, max is less":       {throttles, "a", Range{Least: 100_000, Most: 200_000, Throttles: true}, time.Hour, 200_000, 200_000},
		"found, moves no more":     {throttles, "a", Range{}, time.Hour, 100_000, 100_000},
		"declared":                 {declares, "a", Range{}, time.Minute, 60_000, 60_000},
		"declared long ago":        {declares, "a", Range{}, time.Hour, 100_000, 100_000},
		"declared to come":         {declares, "a", Range{}, -time.Minute, 100_000, 100_000},
		"declared for another key": {declares, "b", Range{}, time.Minute, 100_000, 100_000},
	} {
		now := t0.Add(c.after)
		restart := func(at time.Time, from *Set, shared bool) *Set {
			var l Lessons
			text, err := json.Marshal(from.Learned())
			if err = cmp.Or(err, json.Unmarshal(text, &l)); err != nil {
				t.Fatal(err)
			}
			s := setOf(c.account)
			s.Ranges[Tokens] = c.r
			s.Shared = shared
			s.Recall(at, l)
			return s
		}
		check := func(when string, s *Set, at time.Time, want int64) {
			if got := limit(s, at); max(got-want, want-got) > want/newsPart { // of what was told last
				t.Errorf("%s: %s the limit is %d, want %d", name, when, got, want)
			}
		}
		once := restart(t0.Add(min(c.after, 2*time.Hour)), c.from, false) // and nobody calls
		check("alone", restart(now, once, false), now, c.want)
		s := restart(now, once, true)
		check("at first", s, now, c.first)
		if news := s.Look(now, Told{Tokens: 0, Requests: -1}, false); !news && c.first != c.want {
			t.Errorf("%s: that the limit is not left to others any more is no news", name)
		}
		check("after a look", s, now, c.want)
		s = restart(now, once, true)
		check("at first", s, now, c.first)
		check("beside nobody", s, now.Add(unheard), c.want)
	}
	if found < 350_000 || found > 520_000 {
		t.Errorf("the limit that was found is %d", found)
	}
}
