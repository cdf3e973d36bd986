package parts

import (
	"fmt"
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
