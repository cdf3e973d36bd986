package parts

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// calm is a world in which nothing is lost, and who is hungry stays so.
func calm(procs int, limit int64, kinds ...Kind) *world {
	w := newWorld(7, procs)
	w.calm = true
	for kind := range w.limits {
		w.limits[kind] = limit
	}
	for _, p := range w.procs {
		p.rate = 0
		p.wall = 0
		for _, kind := range kinds {
			p.hungry[kind] = true
		}
	}
	return w
}

// until lets time pass until a condition holds, and returns how many beats that took of the one
// that told most.
func (w *world) until(t *testing.T, seconds int64, holds func() bool) int {
	t.Helper()
	before := map[*process]int{}
	for _, p := range w.procs {
		before[p] = p.beats
	}
	for began := w.now; !holds(); w.step() {
		if w.now > began+1000*seconds {
			t.Fatalf("waited %d s in vain; %s", seconds, w.parts())
		}
	}
	most := 0
	for _, p := range w.procs {
		most = max(most, p.beats-before[p])
	}
	return most
}

func (w *world) parts() (s string) {
	for _, p := range w.procs {
		for _, kind := range []Kind{Rolling, Slots, Period} {
			s += fmt.Sprintf(" %s %d of %d used", kind, w.count(p, kind), p.h.Part(w.clock(p), w.name(p, kind)))
		}
		s += ";"
	}
	return s
}

// TestAlone: who is alone has all there is after a few beats.
func TestAlone(t *testing.T) {
	for _, kind := range []Kind{Rolling, Slots, Period} {
		w := calm(1, 40, kind)
		p := w.procs[0]
		if n := w.until(t, 2, func() bool { return p.h.Part(w.clock(p), w.name(p, kind)) == 40 }); n > 3 {
			t.Errorf("%s: it took %d beats", kind, n)
		}
	}
}

// TestEven: where all are hungry, all get the same. One that had everything gives it up
// as what it uses ends; so here it has not used it.
func TestEven(t *testing.T) {
	for procs := 2; procs <= 5; procs++ {
		for _, kind := range []Kind{Rolling, Slots, Period} {
			w := calm(procs, 40)
			claims := func(p *process, want int64) []Claim {
				_, ends := w.period(p)
				return []Claim{{Name: "x", Kind: kind, Limit: 40, Ends: ends, Want: want, Part: p.h.Part(w.clock(p), "x")}}
			}
			beat := func(p *process, want int64) int64 {
				w.now += 100
				r := w.account.Beat(w.now, p.h.Beat(w.clock(p), true, claims(p, want)))
				p.h.Answered(w.clock(p), &r)
				return r.Parts[0].Part
			}
			beat(w.procs[0], 100)
			for round := 0; ; round++ {
				even := true
				for _, p := range w.procs {
					part := beat(p, 100)
					even = even && (part == int64(40/procs) || part == int64((39+procs)/procs))
				}
				if even {
					break
				}
				if round == 10 {
					t.Fatalf("%d processes, %s: after %d beats %s", procs, kind, round, w.parts())
				}
			}
		}
	}
}

// TestLarge: a call that is larger than an even share is served while all others stay hungry for
// small ones; and after it the next one.
func TestLarge(t *testing.T) {
	w := calm(4, 40, Rolling)
	w.until(t, 20, func() bool { return w.procs[1].beats > 3 })
	large := w.procs[0]
	for range 4 {
		w.step()
		large.size[Rolling] = 25
		began := w.now
		w.until(t, 130, func() bool { return slices.Contains(large.used, use{w.now, 25}) })
		t.Logf("after %d s; %s", (w.now-began)/1000, w.parts())
	}
}

// TestTurns: of so few slots that not all have one, all get their turn.
func TestTurns(t *testing.T) {
	w := calm(4, 1, Slots)
	for range 3 {
		for _, p := range w.procs {
			w.until(t, 120, func() bool { return len(p.running) > 0 })
		}
	}
}

// TestKept: however an account came to be, it need not be kept for longer than its beats said.
func TestKept(t *testing.T) {
	rng := rand.New(rand.NewPCG(17, 4))
	for range 200 {
		var a Account
		now := int64(1_700_000_000_000)
		expires := int64(0)
		for seq := range int64(40) {
			now += rng.Int64N(20_000)
			b := keptBeat(rng, now, seq)
			lasts, ends := b.Kept()
			expires = max(expires, now+lasts, ends)
			a.Beat(now, b)
			if until := a.Now + a.Forget(); until > expires {
				t.Fatalf("after %+v something counts for %d ms longer than the row is kept", b, until-expires)
			}
		}
	}
}

// keptBeat is the beat of one of three processes, which may leave, or know of an account before.
func keptBeat(rng *rand.Rand, now, seq int64) *Beat {
	b := &Beat{Instance: []string{"a", "b", "c"}[rng.IntN(3)], Seq: seq + 1, Left: rng.IntN(10) == 0}
	b.Epoch = rng.Int64N(2) * 1_700_000_000_000
	b.Known = rng.Int64N(3)
	for _, kind := range []Kind{Rolling, Period, Slots} {
		if rng.IntN(4) == 0 {
			continue
		}
		c := Claim{Name: string(kind), Kind: kind, Limit: 100, Used: rng.Int64N(50), Want: rng.Int64N(100), Part: rng.Int64N(60)}
		c.Sum = rng.Int64N(100)
		c.Most = rng.Int64N(100)
		if kind == Period {
			c.Ends = now + rng.Int64N(1_000_000) - 100_000
		} else {
			c.Tail = rng.Int64N(2) * rng.Int64N(200_000)
		}
		b.Claims = append(b.Claims, c)
	}
	return b
}
