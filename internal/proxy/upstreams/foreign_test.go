package upstreams

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/llmgov/llmgov/escrow/limits"
)

// provider is an upstream with a limit a minute, which counts in one of three ways.
type provider struct {
	way     string
	limit   int64
	rounded bool // its resets are whole seconds
	at      time.Time
	spent   []spent // that counts, if it is no bucket
	sum     float64
}

type spent struct {
	at time.Time
	n  int64
}

// used is what counts now, and when it will be nothing.
func (p *provider) used(now time.Time) (used int64, reset time.Duration) {
	ends := now.Truncate(time.Minute).Add(time.Minute)
	switch p.way {
	case "bucket":
		p.sum = max(0, p.sum-now.Sub(p.at).Seconds()*float64(p.limit)/60)
		p.at = now
		return int64(math.Ceil(p.sum)), time.Duration(p.sum / float64(p.limit) * float64(time.Minute))
	case "rolling":
		ends = now
		if n := len(p.spent); n > 0 {
			ends = p.spent[n-1].at.Add(time.Minute)
		}
	}
	for len(p.spent) > 0 && (p.way == "rolling" && now.Sub(p.spent[0].at) >= time.Minute || p.way == "fixed" && p.spent[0].at.Before(now.Truncate(time.Minute))) {
		p.sum -= float64(p.spent[0].n)
		p.spent = p.spent[1:]
	}
	return int64(p.sum), max(0, ends.Sub(now))
}

func (p *provider) call(now time.Time, n int64) (ok bool, l Left) {
	used, _ := p.used(now)
	if ok = used+n <= p.limit; ok {
		p.sum += float64(n)
		p.spent = append(p.spent, spent{now, n})
	}
	used, reset := p.used(now)
	if p.rounded {
		reset = (reset + time.Second - 1).Truncate(time.Second)
	}
	return ok, Left{Limit: p.limit, Left: p.limit - used, Window: time.Minute, Reset: reset}
}

// consumer calls with the same account for some time.
type consumer struct {
	part     float64 // of the limit that they ask for
	from, to time.Duration
}

// shared is what came of ten minutes at an upstream that others use as well.
type shared struct {
	calls, refused     float64
	took, theirs, seen float64 // parts of the limit, and what was seen of theirs while they called
	falsely            int64   // that was seen before
}

// share runs llmgov beside others. It asks for a part of the limit.
func share(way string, o consumer, own float64, heeds bool) (r shared) {
	const limit, tick, minutes = 600_000, 50 * time.Millisecond, 10
	rnd := rand.New(rand.NewPCG(1, 2))
	p := provider{way: way, limit: limit, rounded: own < 1, at: t0}
	var f foreign
	var mine []spent
	used, backlog := int64(0), 0.0
	looks := 0.0
	var paused time.Time
	for d := time.Duration(0); d < minutes*time.Minute; d += tick {
		now := t0.Add(d)
		on := d >= o.from && d < o.to
		if n := 1000 + rnd.Int64N(1000); on && rnd.Float64() < o.part*limit*tick.Minutes()/1500 {
			if ok, _ := p.call(now, n); ok {
				r.theirs += float64(n) / limit / minutes
			}
		}
		for len(mine) > 0 && now.Sub(mine[0].at) >= time.Minute {
			used -= mine[0].n
			mine = mine[1:]
		}
		backlog += own * limit * tick.Minutes()
		n := 500 + rnd.Int64N(1000)
		room := int64(limit)
		if heeds {
			room -= f.count(now)
		}
		if backlog < 500 || used+n > room || now.Before(paused) {
			continue
		}
		r.calls++
		ok, l := p.call(now, n)
		if ok {
			r.took += float64(n) / limit / minutes
			backlog -= float64(n)
			used += n
			mine = append(mine, spent{now, n})
		} else {
			r.refused++
			paused = now.Add(500 * time.Millisecond)
		}
		if now.Sub(f.at) >= lookEvery {
			f.look(now, l, used, 0, !ok)
		}
		switch {
		case d > o.from+2*time.Minute && on:
			r.seen += float64(f.count(now)) / limit
			looks++
		case d < o.from:
			r.falsely = max(r.falsely, f.count(now))
		}
	}
	r.seen /= max(1, looks)
	return r
}

// Others' use is what is seen of it, whatever way the upstream counts in; without others it is nothing, whatever llmgov does.
func TestForeign(t *testing.T) {
	for _, way := range []string{"rolling", "bucket", "fixed"} {
		for _, part := range []float64{0, .2, .4, .6} {
			for _, own := range []float64{.6, 1.3} {
				o := consumer{part, 2 * time.Minute, 8 * time.Minute}
				if part == 0 {
					o.from = time.Hour
				}
				without := share(way, o, own, false)
				with := share(way, o, own, true)
				name := fmt.Sprintf("%s, others %.0f %%, own %.0f %%", way, 100*part, 100*own)
				t.Logf("%s: %+v, heeded %+v", name, without, with)
				if with.falsely > 0 || part == 0 && with != without {
					t.Errorf("%s: %+v, without heed %+v", name, with, without)
				}
				if with.refused > .1*without.refused+1 || own > 1 && 1-with.took-with.theirs > .015 {
					t.Errorf("%s: %.0f refused, and without heed %.0f; %.3f are used", name, with.refused, without.refused, with.took+with.theirs)
				}
				if seen := with.theirs * 10 / 6; own > 1 && math.Abs(with.seen-seen) > .075 {
					t.Errorf("%s: %.3f were used, and %.3f seen", name, seen, with.seen)
				}
			}
		}
	}
}

// A look tells nothing if the limit is of more than a minute, or the call was served with nothing left; a refusal tells at once, and what
// was seen falls to nothing by the reset.
func TestForeign_Looks(t *testing.T) {
	look := func(f *foreign, after time.Duration, left int64, reset time.Duration, refused bool) int64 {
		now := t0.Add(after)
		f.look(now, Left{Limit: 100_000, Left: left, Window: time.Minute, Reset: reset}, 10_000, 0, refused)
		return f.use
	}
	for name, c := range map[string]struct {
		left    int64
		reset   time.Duration
		refused bool
		want    [4]int64 // after each of the same looks
	}{
		"three answers":  {50_000, time.Minute, false, [4]int64{0, 0, 40_000, 40_000}},
		"a refusal":      {500, time.Minute, true, [4]int64{89_500, 89_500, 89_500, 89_500}},
		"no reset":       {50_000, 0, false, [4]int64{0, 0, 40_000, 40_000}},
		"of a day":       {50_000, time.Hour, false, [4]int64{}},
		"nothing left":   {0, time.Minute, false, [4]int64{}},
		"little":         {86_000, time.Minute, false, [4]int64{}},
		"less than ours": {95_000, time.Minute, false, [4]int64{}},
	} {
		var f foreign
		var got [4]int64
		for i := range got {
			got[i] = look(&f, time.Duration(i)*time.Second, c.left, c.reset, c.refused)
		}
		if got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	var alone, f foreign
	look(&alone, 0, 500, time.Minute, true)
	if soon, later := alone.count(t0.Add(time.Second)), alone.count(t0.Add(foreignLastsMost/3)); soon == 0 || later != 0 {
		t.Errorf("of a refusal alone %d are kept free a second later, and %d after a third of a minute", soon, later)
	}
	for i := range agreeing {
		look(&f, time.Duration(i), 50_000, 20*time.Second, false)
	}
	for after, want := range map[time.Duration]int64{0: 41_000, 5 * time.Second: 30_750, 10 * time.Second: 20_500, 20 * time.Second: 0, time.Hour: 0} {
		if got := f.count(t0.Add(after + time.Millisecond)); got < want-1 || got > want {
			t.Errorf("after %v %d are kept free, want %d", after, got, want)
		}
	}
}

// What other gateways of the fleet use, which is known some seconds late, is no use by others, whatever way the upstream counts in. What is
// others' is seen beside it.
func TestForeign_Late(t *testing.T) {
	const limit, late = 30_000, 25 // looks
	for way, seen := range map[string]int64{"rolling": 10_000, "fixed": 10_000, "bucket": 0} {
		for others, want := range map[int64]int64{0: 0, 600: seen} { // tokens a second
			p := provider{way: way, limit: limit, at: t0}
			var f foreign
			var used []int64
			least, most := int64(limit), int64(0)
			for i := range 250 {
				now := t0.Add(time.Duration(i) * lookEvery)
				p.call(now, others/10)
				n := int64(300)
				if i > 40 {
					n = 10
				}
				_, l := p.call(now, n)
				used = append(used, n)
				if i > 0 {
					used[i] += used[i-1]
				}
				f.look(now, l, used[max(0, i-late)], limits.NewsTravel, false)
				most = max(most, f.use)
				if i > 200 {
					least = min(least, f.use)
				}
			}
			if others == 0 && most > 0 || least < want {
				t.Errorf("%s, others use %d a second: %d to %d are seen", way, others, least, most)
			}
		}
	}
}

// Of a model that was called by another name, too, or a while ago, nobody knows how much is left: it does not undo what others are seen to
// use. Between two news the cuts are the same, whenever they are asked for, and a fifth is kept whatever others use.
func TestForeign_Cuts(t *testing.T) {
	limit := Told{Tokens: 100_000}
	s := New([]Spec{{Name: "up", Weight: 1}}, nil)
	answer := func(after time.Duration, model string, left int64) {
		now := t0.Add(after)
		m := s.Members[0]
		m.Report(now, Result{Outcome: Served, Told: limit, Model: model, Began: now})
		if m.Due(now, model) {
			m.Look(now, model, &Remains{Tokens: {Limit: 100_000, Left: left, Window: time.Minute, Reset: 40 * time.Second}}, Told{Tokens: 10_000}, Told{Tokens: 10_000}, 0, false)
		}
	}
	cut := func(after time.Duration) (sum int64, ends []time.Time) {
		for _, c := range s.Cuts(t0.Add(after), limit) {
			sum += c.Less[Tokens]
			ends = append(ends, c.Until)
		}
		return sum, ends
	}
	for i := range time.Duration(5) {
		answer(i*time.Second, "m", 50_000)
	}
	first, ends := cut(5 * time.Second)
	later, same := cut(6 * time.Second)
	if first < 40_000 || later != first || !slices.Equal(ends, same) {
		t.Errorf("cut by %d until %v, and a second later by %d until %v", first, ends, later, same)
	}
	for i := range time.Duration(3) {
		answer(6*time.Second+i*time.Millisecond, "m-2024", 90_000)
	}
	if got, _ := cut(6 * time.Second); got != first {
		t.Errorf("cut by %d, and %d once another name was called", first, got)
	}
	for i := range time.Duration(5) {
		answer(20*time.Second+i*time.Second, "m", 500)
	}
	if got, _ := cut(25 * time.Second); got != 80_000 {
		t.Errorf("cut by %d of 100000 beside others who use nearly all", got)
	}
}

// What is shown is the use of the model of whose limit others use the largest part, beside that limit.
func TestForeign_Models(t *testing.T) {
	m := New([]Spec{{Name: "up", Weight: 1}}, nil).Members[0]
	for i := range time.Duration(8) {
		now := t0.Add(i * time.Second)
		for model, l := range map[string]Left{"small": {Limit: 100_000, Left: 50_000}, "large": {Limit: 1_000_000, Left: 800_000}} {
			l.Window = time.Minute
			l.Reset = 40 * time.Second
			m.Report(now, Result{Outcome: Served, Told: Told{Tokens: l.Limit}, Model: model, Began: now})
			m.Look(now, model, &Remains{Tokens: l}, Told{Tokens: 10_000}, Told{Tokens: 10_000}, 0, false)
		}
	}
	if s := m.State(t0.Add(7 * time.Second)); s.Foreign[Tokens] != 40_000 || s.ForeignOf[Tokens] != 100_000 || s.Declared[Tokens] != 1_000_000 {
		t.Errorf("others use %d of %d", s.Foreign[Tokens], s.ForeignOf[Tokens])
	}
}
