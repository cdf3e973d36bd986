package adaptive

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Whatever is told, in whatever order: the limit stays within its bounds, memory too, the same
// is answered to who tells the same, and where all streams, and all whole answers, take as long as each other
// nothing lowers it, but a drained round by a fifth.
func TestAnything(t *testing.T) {
	type told struct {
		after  time.Duration
		verb   int
		sample Sample
		ran    time.Duration
		cfg    Config
	}
	rapid.Check(t, func(t *rapid.T) {
		steady := rapid.Bool().Draw(t, "steady")
		kinds := rapid.SampledFrom([]int{1, 3, 2 * mostKinds}).Draw(t, "kinds")
		list := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) told {
			kind := rapid.IntRange(0, kinds-1).Draw(t, "kind")
			latency := time.Duration(kind%2+1) * 300 * time.Millisecond
			if !steady {
				latency = time.Duration(rapid.Int64Range(-1, 20_000).Draw(t, "latency")) * time.Millisecond
			}
			least := rapid.Int64Range(1, 50).Draw(t, "min")
			return told{
				after: time.Duration(rapid.SampledFrom([]int{0, 1, 50, 90_000}).Draw(t, "ms")) * time.Millisecond,
				verb:  rapid.IntRange(0, 60).Draw(t, "verb"),
				sample: Sample{
					Kind:    Kind{fmt.Sprint(kind), kind%2 == 0, int64(kind)},
					Running: rapid.Int64Range(1, 300).Draw(t, "running"), Full: rapid.Bool().Draw(t, "full"), Latency: latency,
				},
				ran: time.Duration(rapid.Int64Range(-1, 100_000).Draw(t, "ran")) * time.Millisecond,
				cfg: Config{Law: rapid.SampledFrom(laws).Draw(t, "law"), Min: least, Max: least + rapid.Int64Range(0, 300).Draw(t, "more")},
			}
		}), 50, 2000).Draw(t, "told")
		tell := func() (limits []int64) {
			l := New(list[0].cfg)
			now := start
			for _, x := range list {
				now = now.Add(x.after)
				before := l.limit
				switch {
				case x.verb == 0 && !steady:
					l.Configure(x.cfg)
				case x.verb == 1 && !steady:
					l.Overloaded(now, now.Add(-x.ran))
				case x.verb < 10:
					l.Ended(x.ran)
				default:
					x.sample.Began = now.Add(-x.sample.Latency)
					l.Observe(now, x.sample)
				}
				limit := l.Limit()
				if limit < l.cfg.Min || limit > l.cfg.Max {
					t.Fatalf("the limit is %d, of %d…%d", limit, l.cfg.Min, l.cfg.Max)
				}
				if len(l.bases) > mostKinds {
					t.Fatalf("%d kinds are remembered", len(l.bases))
				}
				if steady && l.limit < before && !(before*drained-l.limit < 1e-9) {
					t.Fatalf("all take as long as ever, and the limit falls from %.1f to %.1f", before, l.limit)
				}
				limits = append(limits, limit)
			}
			return limits
		}
		if a, b := tell(), tell(); !slices.Equal(a, b) {
			t.Fatalf("told the same it answers otherwise")
		}
	})
}

// What the upstream refuses counts once for all calls that were sent under one limit.
func TestOverloadedCountsOnce(t *testing.T) {
	l := New(Config{Law: Gradient, Min: 1, Max: 100})
	l.set(50)
	now := start
	for range 30 {
		l.Overloaded(now.Add(time.Second), now)
	}
	if l.Limit() != 40 {
		t.Errorf("after 30 refusals of calls that were sent at once the limit of 50 is %d, want 40", l.Limit())
	}
	for i, want := range []int64{40, 40, 32} {
		if l.Overloaded(now.Add(3*time.Second), now.Add(2*time.Second)); l.Limit() != want {
			t.Errorf("after %d that were sent later it is %d, want %d", i+1, l.Limit(), want)
		}
	}
}

// Another configuration keeps what was found, within its bounds.
func TestConfigureKeepsWhatWasFound(t *testing.T) {
	l := New(Config{Law: Gradient, Min: 4, Max: 256})
	l.set(60)
	for _, c := range []struct {
		cfg  Config
		want int64
	}{
		{Config{AIMD, 4, 256}, 60}, {Config{AIMD, 4, 50}, 50}, {Config{Gradient, 4, 256}, 50}, {Config{Gradient, 70, 256}, 70},
	} {
		if l.Configure(c.cfg); l.Limit() != c.want {
			t.Errorf("under %+v the limit is %d, want %d", c.cfg, l.Limit(), c.want)
		}
	}
}

// Which of many kinds is forgotten does not hang on the order of a map.
func TestForgetsTheSame(t *testing.T) {
	remembered := func() []string {
		bs := bases{}
		for i := range 2 * mostKinds {
			bs.of(start, Kind{Model: fmt.Sprint(i)})
		}
		var names []string
		for k := range bs {
			names = append(names, k.model)
		}
		return slices.Sorted(slices.Values(names))
	}
	if a, b := remembered(), remembered(); len(a) != mostKinds || !slices.Equal(a, b) {
		t.Errorf("of the same kinds %d and %d are remembered, and not the same", len(a), len(b))
	}
}

// Calls that see a slot where others see none, as interactive ones do beside a reserve, leave a drained
// round to come to its end. Where it was given up for them, the limit was drained 105 times.
func TestDrainsToTheEnd(t *testing.T) {
	l := New(Config{Law: Gradient, Min: 4, Max: 100})
	l.set(50)
	now := start
	drained := 0
	for i := range 12 * 60 * 10 {
		now = now.Add(100 * time.Millisecond)
		before := l.draining
		l.Ended(2 * time.Second)
		l.Observe(now, Sample{Kind: Kind{Model: "m", Stream: true}, Began: now.Add(-50 * time.Millisecond), Running: l.Limit() - 4, Full: i%10 > 0, Latency: 50 * time.Millisecond})
		if l.draining && !before {
			drained++
		}
	}
	if drained < 1 || drained > 3 || l.Limit() < 90 {
		t.Errorf("in 12 minutes it was drained %d times, want 1 to 3, and the limit is %d, want 90 or more", drained, l.Limit())
	}
}

// TestProbing: how a limit is tried costs callers little. One token in twenty comes at most half as much
// later than at a limit that is the knee, and nearly as much is done.
func TestProbing(t *testing.T) {
	const knee = 48
	s := chat(160)
	best := flooded(Fixed, knee, s)
	best.run(8 * time.Minute).reset()
	best.run(30 * time.Minute)
	w := flooded(Gradient, knee, s)
	w.run(8 * time.Minute).reset()
	w.run(30 * time.Minute)
	t.Logf("limit %.1f, %.2f a second of %.2f, first token p95 %.2f s of %.2f", w.meanLimit(), w.goodput(), best.goodput(), w.firstToken(.95).Seconds(), best.firstToken(.95).Seconds())
	if w.goodput() < 0.97*best.goodput() || w.firstToken(.95) > best.firstToken(.95)*3/2 {
		t.Errorf("%.2f calls a second are done, and one first token in twenty comes after %v; at the knee %.2f, and %v", w.goodput(), w.firstToken(.95), best.goodput(), best.firstToken(.95))
	}
}

// TestFollowsTheKnee_Drained: the knee falls just as the limit is drained to see the upstream at rest. The queue
// of that moment is not taken for rest.
func TestFollowsTheKnee_Drained(t *testing.T) {
	s := chat(400)
	for seed := range uint64(6) {
		w := newWorld(seed, limiterOf(Gradient), 32, 1.5*32/s.mean().Seconds(), s)
		w.run(8 * time.Minute)
		for !w.limiter.draining {
			w.run(time.Second)
		}
		w.slots = 16
		w.run(10 * s.mean()).reset()
		w.run(10 * s.mean())
		if w.near(16) < 0.9 {
			t.Errorf("seed %d: ten lengths of a call after the knee fell to 16 the limit is %.1f (%d…%d)", seed, w.meanLimit(), w.least, w.most)
		}
	}
}

// settled is a limiter that knows that calls take a second to their first token, and four in all.
func settled(limit float64) (*Limiter, time.Time) {
	l := New(Config{Law: Gradient, Min: 4, Max: 256})
	now := start
	for range 10 * memory {
		now = now.Add(100 * time.Millisecond)
		l.Ended(4 * time.Second)
		l.Observe(now, calls(now, 4, time.Second))
	}
	l.settle()
	l.set(limit)
	l.turn(now, true)
	return l, now.Add(time.Minute)
}

func calls(now time.Time, running int64, latency time.Duration) Sample {
	return Sample{Kind: Kind{"m", true, 10}, Began: now.Add(-latency), Running: running, Latency: latency, Full: true}
}

// TestRound_EndsAtHalf: where too many wait plainly, half a round is enough to lower the limit; otherwise it takes all of it.
func TestRound_EndsAtHalf(t *testing.T) {
	for _, c := range []struct {
		name    string
		latency func(i int) time.Duration
		after   int // calls
	}{
		{"all wait for 200 ms", func(int) time.Duration { return 1200 * time.Millisecond }, 12},
		{"some wait for a second", func(i int) time.Duration { return time.Second + time.Duration(i%4/3)*time.Second }, 24},
	} {
		l, now := settled(48)
		n := 0
		for ; l.Limit() == 48 && n < 100; n++ {
			now = now.Add(100 * time.Millisecond)
			l.Observe(now, calls(now, 48, c.latency(n)))
		}
		if n != c.after {
			t.Errorf("%s: the limit is %d after %d calls, want less than 48 after %d", c.name, l.Limit(), n, c.after)
		}
	}
}

// TestFall_QueueStays: calls that waited before the limit fell make those after it wait as long, which is no slower server yet.
func TestFall_QueueStays(t *testing.T) {
	for _, c := range []struct {
		name   string
		rounds []seen
		vain   bool
	}{
		{"one round later", []seen{{48, 2}, {24, 2}}, false},
		{"and another", []seen{{48, 2}, {24, 2}, {14, 2}}, true},
		{"the queue is gone by then", []seen{{48, 2}, {24, 2}, {14, 0.2}}, false},
		{"most wait in the second round", []seen{{48, 1}, {24, 2}, {13, 2}}, false},
	} {
		var f fall
		vain := false
		for _, s := range c.rounds {
			vain = f.inVain(s, false)
		}
		if vain != c.vain {
			t.Errorf("%s: that it fell in vain is %v", c.name, vain)
		}
	}
}

func TestLoad_RoomIn(t *testing.T) {
	inf := math.Inf(1)
	for _, c := range []struct {
		name     string
		load     Load
		inFlight int64
		want     float64
	}{
		{"nothing waits", Load{Running: 30}, 30, inf},
		{"a call that has just come", Load{Running: 128, Waiting: 2}, 130, inf},
		{"some wait", Load{Running: 30, Waiting: 10}, 40, 30},
		{"others use the server, too", Load{Running: 60, Waiting: 20}, 40, 30},
		{"all wait", Load{Waiting: 10}, 10, 0},
		{"memory is half full", Load{Running: 30, Full: 0.5}, 30, 60},
		{"memory is too full", Load{Running: 30, Full: 1.25}, 30, 24},
		{"both", Load{Running: 30, Waiting: 10, Full: 1.25}, 40, 30},
		{"it tells how many it runs", Load{Running: 30, MaxRunning: 32}, 30, 32},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.load.roomIn(c.inFlight); got != c.want {
				t.Errorf("there is room for %v, want %v", got, c.want)
			}
		})
	}
}

// loaded has a limiter of some limit hear loads, one a second.
func loaded(l *Limiter, at time.Time, inFlight int64, loads ...Load) (now time.Time) {
	for _, load := range loads {
		at = at.Add(time.Second)
		l.Loaded(at, load, inFlight)
	}
	return at
}

func limiterAt(limit int64) *Limiter {
	l := New(Config{Law: Gradient, Min: 4, Max: 256})
	l.Begin(limit)
	return l
}

func TestLoaded_Falls(t *testing.T) {
	full := Load{Running: 30, Waiting: 10}
	free := Load{Running: 40}
	hopeless := Load{Running: 1, Waiting: 39}
	for _, c := range []struct {
		name     string
		inFlight int64
		loads    []Load
		want     int64
	}{
		{"lasting", 40, []Load{full, full, full}, 30},
		{"not lasting", 40, []Load{full, full, free, full, full}, 40},
		{"by the mildest", 40, []Load{full, {Running: 36, Waiting: 4}, full}, 36},
		{"by at most a half", 40, []Load{hopeless, hopeless, hopeless}, 20},
		{"not while more run than it allows", 48, []Load{full, full, full, full}, 40},
		{"few run here", 10, []Load{full, full, full}, 20},
		{"nothing runs here", 0, []Load{full, full, full}, 40},
		{"memory", 40, []Load{{Running: 40, Full: 1.05}, {Running: 40, Full: 1.06}, {Running: 40, Full: 1.07}}, 38},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := limiterAt(40)
			loaded(l, start, c.inFlight, c.loads...)
			if got := l.Limit(); got != c.want {
				t.Errorf("the limit of 40 is %d, want %d", got, c.want)
			}
		})
	}
}

// Room that was hardly too little once does not keep the limit where it is while far too little follows.
func TestLoaded_FallsByTheLatest(t *testing.T) {
	l := limiterAt(40)
	l.set(39.6)
	full := Load{Running: 30, Waiting: 10}
	loaded(l, start, 40, Load{Running: 40, Full: 1.001}, full, full, full, full, full)
	if got := l.Limit(); got != 30 {
		t.Errorf("the limit is %d, want 30", got)
	}
}

// The limit stays within its bounds, whatever servers say.
func TestLoaded_Bounds(t *testing.T) {
	l := limiterAt(5)
	at := start
	for range 20 {
		at = loaded(l, at, l.Limit(), Load{Waiting: 1 << 40, Full: 1e9})
	}
	if got := l.Limit(); got != 4 {
		t.Errorf("the limit is %d, not its least", got)
	}
}

// The limit grows as far as the servers have room, and on where these are heard of no more: who cannot be asked blocks nobody.
func TestLoaded_HoldsGrowth(t *testing.T) {
	l := limiterAt(40)
	l.rested = start
	at := loaded(l, start, 40, Load{Running: 40, Full: 0.8})
	for range 10 {
		l.rise(at)
	}
	if got := l.Limit(); got != 50 {
		t.Errorf("with room for 50 the limit grows to %d", got)
	}
	at = loaded(l, at, 50, Load{Running: 50, Full: 1.01})
	l.rise(at)
	if got := l.Limit(); got != 50 {
		t.Errorf("with no more room the limit grows to %d", got)
	}
	l.rise(at.Add(loadAge + time.Second))
	if got := l.Limit(); got <= 50 {
		t.Errorf("when the servers are heard of no more the limit is %d still", got)
	}
}

// Gateways that follow another one's limit go by that, whatever servers tell them: it reads the same ones.
func TestLoaded_FollowersGoByTheLeader(t *testing.T) {
	f := NewFleet(Config{Law: Gradient, Min: 4, Max: 256})
	f.follows = true
	f.limit = 40
	at := start
	for range 5 {
		at = at.Add(time.Second)
		f.Loaded(at, Load{Running: 30, Waiting: 10}, 40)
	}
	if got := f.Limit(); got != 40 {
		t.Errorf("the limit is %d, not the leader's", got)
	}
	if got := f.Room(at); got != 30 {
		t.Errorf("there is room for %d, want 30", got)
	}
}
