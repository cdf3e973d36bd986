package adaptive

import (
	"strings"
	"testing"
	"time"
)

// gateways are fleets that tell each other notes.
type gateways struct {
	now  time.Time
	list []*Fleet
}

func (w *gateways) join() *Fleet {
	f := NewFleet(Config{Law: Gradient, Min: 4, Max: 256})
	w.list = append(w.list, f)
	w.now = w.now.Add(time.Millisecond)
	f.Tell(w.now)
	return f
}

// beat has each of some gateways tell its note, and then hear those of the others.
func (w *gateways) beat(all ...*Fleet) {
	w.now = w.now.Add(500 * time.Millisecond)
	texts := map[*Fleet]string{}
	for _, f := range all {
		texts[f], _ = f.Tell(w.now)
	}
	for _, f := range all {
		var notes []Note
		for _, o := range all {
			if o != f {
				notes = append(notes, Note{10 * time.Millisecond, texts[o]})
			}
		}
		f.Hear(w.now, notes, 0)
	}
}

// TestFleet_Leads: the one that has been there longest judges; without it the next one does, from the same limit, once
// it has been silent for long enough; and back again.
func TestFleet_Leads(t *testing.T) {
	w := &gateways{now: start}
	a := w.join()
	b := w.join()
	expect := func(what string, leader *Fleet, limit int64) {
		t.Helper()
		for i, f := range w.list {
			if f.leads != (f == leader) || f.Limit() != limit {
				t.Errorf("%s: gateway %d leads %v at %d, want %d", what, i, f.leads, f.Limit(), limit)
			}
		}
	}
	w.beat(a)
	a.limiter.follow(w.now, 48)
	w.beat(a, b)
	w.beat(a, b)
	expect("b joins", a, 48)
	a.limiter.follow(w.now, 60)
	if _, told := b.Tell(w.now); told != 48 {
		t.Errorf("b tells %d before it has heard", told)
	}
	w.beat(a, b)
	expect("a raises", a, 60)

	w.beat(b)
	if b.leads {
		t.Error("b leads at once when a is not heard of")
	}
	for range 6 {
		w.beat(b)
	}
	if !b.leads || b.Limit() != 60 {
		t.Errorf("b leads %v at %d when a is gone", b.leads, b.Limit())
	}
	b.limiter.follow(w.now, 20)
	a.Alone()
	if _, told := a.Tell(w.now); told != 0 {
		t.Errorf("a, which has heard of nobody, tells a limit of %d", told)
	}
	w.beat(a, b)
	w.beat(a, b)
	w.beat(a, b)
	expect("a is back", a, 20)

	c := w.join()
	if _, told := c.Tell(w.now); told != 0 {
		t.Errorf("c, which has heard of nobody, tells a limit of %d", told)
	}
	w.beat(a, b, c)
	w.beat(a, b, c)
	expect("c joins", a, 20)
}

// TestFleet_Samples: the leader takes in each sample of another gateway once, at the time at which it came; those that
// came before all go by the limit say nothing.
func TestFleet_Samples(t *testing.T) {
	w := &gateways{now: start}
	a := w.join()
	b := w.join()
	w.beat(a, b)
	w.beat(a, b)
	w.beat(a, b)
	observe := func(n int) {
		for range n {
			w.now = w.now.Add(50 * time.Millisecond)
			b.Observe(w.now, Sample{Kind: Kind{"m", true, 10}, Began: w.now.Add(-40 * time.Millisecond), Running: 2, Latency: 30 * time.Millisecond})
		}
	}
	observe(3)
	w.beat(a, b)
	observe(1)
	w.beat(a, b)
	w.beat(a) // it is not heard of for a moment
	w.beat(a, b)
	if got := a.limiter.round.all; got != 4 {
		t.Errorf("of 4 samples of another gateway %d are taken in", got)
	}
	observe(2)
	a.limiter.follow(w.now.Add(time.Millisecond), 8)
	w.beat(a, b)
	w.beat(a, b)
	if got := a.limiter.round.all; got != 0 {
		t.Errorf("%d samples are taken in of before the limit changed", got)
	}
}

// TestFleet_Lacked: a call that ran when another one found no slot counts as held by the limit.
func TestFleet_Lacked(t *testing.T) {
	f := NewFleet(Config{Law: Gradient, Min: 4, Max: 256})
	f.Lacked(start)
	for _, began := range []time.Duration{-time.Second, time.Second} {
		f.Observe(start.Add(2*time.Second), Sample{Kind: Kind{"m", true, 10}, Began: start.Add(began), Running: 2, Latency: time.Second})
	}
	if got := f.limiter.round.full; got != 1 {
		t.Errorf("of two samples, one of which began before a call found no slot, %d count as full", got)
	}
}

// TestFleet_Notes: what cannot be read is left out.
func TestFleet_Notes(t *testing.T) {
	f := NewFleet(Config{Law: Gradient, Min: 4, Max: 256})
	f.Tell(start)
	f.Hear(start, []Note{{0, ""}, {0, "{}"}, {0, "null"}, {time.Hour, `{"id":"x","since":-1,"leads":true,"limit":100000,"samples":[{"l":-1},{}]}`}}, 0)
	if f.Limit() != 256 {
		t.Errorf("a limit of 100,000 is taken over as %d", f.Limit())
	}
}

// TestFleet_ElderKnowsNothing: a gateway that has been there longest but hears nobody, because answers do not reach it, keeps no
// other from judging.
func TestFleet_ElderKnowsNothing(t *testing.T) {
	w := &gateways{now: start}
	a := w.join()
	b := w.join()
	c := w.join()
	w.beat(a, b, c)
	w.beat(a, b, c)
	a.Alone()
	for range 12 {
		w.now = w.now.Add(500 * time.Millisecond)
		fromA, _ := a.Tell(w.now)
		fromB, _ := b.Tell(w.now)
		fromC, _ := c.Tell(w.now)
		b.Hear(w.now, []Note{{0, fromA}, {0, fromC}}, 0)
		c.Hear(w.now, []Note{{0, fromA}, {0, fromB}}, 0)
	}
	if !b.leads || c.leads {
		t.Errorf("while the eldest hears nobody b leads %v, c %v", b.leads, c.leads)
	}
	w.beat(a, b, c)
	w.beat(a, b, c)
	w.beat(a, b, c)
	if !a.leads || b.leads || c.leads {
		t.Errorf("when it is back a leads %v, b %v, c %v", a.leads, b.leads, c.leads)
	}
}

// TestFleet_OtherBounds: while gateways have other bounds, as policies are rolled out, the leader goes on learning.
func TestFleet_OtherBounds(t *testing.T) {
	w := &gateways{now: start}
	a := w.join()
	b := w.join()
	w.beat(a, b)
	a.limiter.follow(w.now, 48)
	b.Configure(Config{Law: Gradient, Min: 4, Max: 32})
	w.beat(a, b)
	w.beat(a, b)
	for range 6 {
		began := w.now.Add(time.Millisecond)
		w.beat(a, b)
		a.Overloaded(w.now, began)
	}
	if a.Limit() >= 48 || b.Limit() > 32 {
		t.Errorf("the upstream refuses, and the limits are %d and %d", a.Limit(), b.Limit())
	}
}

// TestFleet_AbsurdTimes: samples of a time to come, or of long ago, are left out.
func TestFleet_AbsurdTimes(t *testing.T) {
	f := NewFleet(Config{Law: Gradient, Min: 4, Max: 256})
	f.Tell(start)
	f.Hear(start, nil, 0)
	f.Hear(start, []Note{{0, `{"id":"x","since":99999999999999,"limit":4,"samples":[
		{"q":1,"a":-1000000000000000,"b":-1000000000000000},{"q":2,"a":-1000000000000000,"b":-1000000000000000},
		{"q":3,"a":-1000000000000000,"b":-1000000000000000},{"q":4,"a":-1000000000000000,"b":-1000000000000000}]}`}}, 0)
	now := start
	for range 3 {
		now = now.Add(time.Second)
		f.Observe(now, Sample{Kind: Kind{"m", true, 10}, Began: now.Add(-100 * time.Millisecond), Running: 2, Latency: 100 * time.Millisecond})
	}
	if f.limiter.round.all != 3 {
		t.Errorf("of 3 samples %d count, after some of a time to come", f.limiter.round.all)
	}
}

// TestFleet_LongNames: notes are short, whatever names models have.
func TestFleet_LongNames(t *testing.T) {
	f := NewFleet(Config{Law: Gradient, Min: 4, Max: 256})
	for range mostTold {
		f.Observe(start, Sample{Kind: Kind{strings.Repeat("\x01", 1<<16), true, 10}, Began: start, Running: 1, Latency: time.Second})
	}
	if text, _ := f.Tell(start); len(text) > 1000 {
		t.Errorf("a note has %d bytes", len(text))
	}
}

// TestFleet_Resume: a limit of before a restart is in force at once, within the bounds.
func TestFleet_Resume(t *testing.T) {
	for _, c := range []struct{ limit, want int64 }{{48, 48}, {3, 4}, {500, 256}} {
		f := NewFleet(Config{Law: Gradient, Min: 4, Max: 256})
		if f.Resume(start, c.limit); f.Limit() != c.want {
			t.Errorf("a limit of %d is taken over as %d, want %d", c.limit, f.Limit(), c.want)
		}
	}
}

// TestFleet_AllResume: after a restart of all gateways the one that is back first goes on with its limit, and the others take that over.
func TestFleet_AllResume(t *testing.T) {
	w := &gateways{now: start}
	first := w.join()
	first.Resume(w.now, 48)
	w.beat(first)
	second := w.join()
	second.Resume(w.now, 40)
	for range 3 {
		w.beat(first, second)
	}
	if first.Limit() != 48 || second.Limit() != 48 {
		t.Errorf("the limits are %d and %d, want 48", first.Limit(), second.Limit())
	}
}

// TestFleet_ResumeAtAKnee: where the knee is as it was, the limit stays near it from the start; where it has fallen meanwhile,
// the queue that is there from the first calls on is not taken for the normal latency for long.
func TestFleet_ResumeAtAKnee(t *testing.T) {
	for _, c := range []struct {
		knee   int
		within float64 // lengths of a call
	}{{32, 0}, {24, 20}, {16, 30}} {
		s := chat(400)
		f := NewFleet(Config{Law: Gradient, Min: 4, Max: 256})
		f.Resume(start, 32)
		w := newWorld(1, f.limiter, c.knee, 1.5*float64(c.knee)/s.mean().Seconds(), s)
		w.run(time.Duration(c.within * float64(s.mean()))).reset()
		w.run(30 * s.mean())
		if w.near(c.knee) < 0.9 {
			t.Errorf("at a knee of %d a limit that was 32 is %.1f (%d…%d), and near for %.0f %% of the time", c.knee, w.meanLimit(), w.least, w.most, 100*w.near(c.knee))
		}
	}
}

// TestFleet_TakesReadings: the gateway that leads and reads nothing itself goes by what another one has read of the servers, each reading
// once, as long as that is fresh, and not by one that cannot be true.
func TestFleet_TakesReadings(t *testing.T) {
	at := time.Unix(1_000_000, 0)
	for _, c := range []struct {
		what string
		read reading
		want int64
	}{
		{"there is room for 40", reading{Seq: 1, InFlight: 80, Load: Load{Running: 80, Full: 2}}, 40},
		{"too old", reading{Seq: 1, Ago: 5_000_000, InFlight: 80, Load: Load{Running: 80, Full: 2}}, 0},
		{"of a time to come", reading{Seq: 1, Ago: -1, InFlight: 80, Load: Load{Running: 80, Full: 2}}, 0},
		{"of no call", reading{Seq: 1, Load: Load{Full: 2}}, 0},
		{"negative", reading{Seq: 1, InFlight: 80, Load: Load{Running: -80, Full: 2}}, 0},
	} {
		t.Run(c.what, func(t *testing.T) {
			f := NewFleet(Config{Law: Gradient, Min: 4, Max: 256})
			c.read.at = at.Add(-time.Duration(c.read.Ago) * time.Microsecond)
			o := &note{member: member{ID: "o"}, Read: &c.read}
			for range 5 {
				f.takeIn(at, []*note{o})
			}
			if got := f.Room(at); got != c.want {
				t.Errorf("there is room for %d, want %d", got, c.want)
			}
			if n := f.limiter.servers.lacking; n > 1 {
				t.Errorf("a reading counted %d times", n)
			}
		})
	}
}
