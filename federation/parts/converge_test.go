package parts

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/llmgov/llmgov/internal/test/testkit"
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

// TestSlots_Tail: what runs in a process that is heard of no more counts for as long as it may run
// on; then it is free.
func TestSlots_Tail(t *testing.T) {
	a := &Account{}
	c := claim(Slots, 0, 0, 6)
	c.Tail = 4000
	wants(t, tell(a, 1000, "a", 1, c), Part{}) // others may have parts that they have not told yet
	wants(t, tell(a, 3500, "a", 2, c), Part{})
	wants(t, tell(a, 6000, "a", 3, c), Part{})
	wants(t, tell(a, 6001, "a", 4, c), Part{Part: 6})
	c.Want = 50
	wants(t, tell(a, 16_001, "b", 1, c), Part{}) // so far no clock runs in between
	wants(t, tell(a, 18_501, "b", 2, c), Part{})
	wants(t, tell(a, 21_001, "b", 3, c), Part{})
	wants(t, tell(a, 21_002, "b", 4, c), Part{Part: 10})

	a = &Account{}
	other := claim(Slots, 0, 0, 1)
	other.Name = "y"
	c.Used = 3
	c.Part = 6
	c.Want = 6
	tell(a, 1000, "a", 1, c)
	for now := int64(3000); now <= 7000; now += 2000 { // the account is known all along
		tell(a, now, "z", now, other)
	}
	c.Used = 0
	c.Part = 0
	c.Want = 50
	wants(t, tell(a, 7500, "b", 1, c), Part{Part: 4, Others: 6})
	wants(t, tell(a, 7501, "b", 2, c), Part{Part: 10})
}

// TestSlots_Jump: where the store's clock jumps ahead by as much as it may while nobody tells anything, what
// runs counts, however short it would run on.
func TestSlots_Jump(t *testing.T) {
	a := &Account{}
	c := claim(Slots, 10, 10, 10)
	c.Tail = 100
	for seq := range int64(8) {
		tell(a, 1000+1000*seq, "a", 1+seq, c)
	}
	wants(t, tell(a, 8900, "b", 1, claim(Slots, 0, 0, 50)), Part{Others: 10})
	wants(t, tell(a, 8900+2500, "b", 2, claim(Slots, 0, 0, 50)), Part{Others: 10})
	wants(t, tell(a, 8000+5001, "b", 3, claim(Slots, 0, 0, 50)), Part{Part: 10})
}

// TestSlots_Least: of limits that differ the least holds, of those who are heard of.
func TestSlots_Least(t *testing.T) {
	a := &Account{}
	least := claim(Slots, 0, 0, 1)
	least.Limit = 5
	wants(t, tell(a, 1000, "a", 1, claim(Slots, 0, 0, 50)), Part{Part: 10})
	wants(t, tell(a, 1100, "b", 1, least), Part{})
	wants(t, tell(a, 1200, "a", 2, claim(Slots, 4, 10, 50)), Part{Part: 4})
	wants(t, tell(a, 1300, "a", 3, claim(Slots, 4, 4, 50)), Part{Part: 4})
	wants(t, tell(a, 3601, "a", 4, claim(Slots, 4, 4, 50)), Part{Part: 10})
}

// TestSlots_Weights: who is known to want more gets it by weight, who has all he wants has that,
// and what is for what may come is nobody's while somebody waits.
func TestSlots_Weights(t *testing.T) {
	for _, x := range []struct {
		what  string
		avail int64
		holds []Hold
		gets  []int64
	}{
		{"all hungry", 50, []Hold{{Want: 100, Weight: 3}, {Want: 100, Weight: 1}, {Want: 100, Weight: 1}}, []int64{30, 10, 10}},
		{"one has all it wants", 50, []Hold{{Want: 100, CalmUse: 6, Calm: 3, Weight: 1}, {Want: 100, Weight: 1}}, []int64{28, 22}},
		{"who was calm wants too much", 50, []Hold{{Want: 50, CalmUse: 50, Calm: 1}, {Want: 20, Weight: 1}}, []int64{30, 20}},
		{"spare is for all", 50, []Hold{{Want: 40, Spare: 30, Weight: 1}, {Want: 30, Spare: 20, Weight: 1}}, []int64{25, 25}},
		{"spare for a few is nobody's", 4, []Hold{{Want: 1, Spare: 1}, {Want: 3, Spare: 2}, {Want: 1, Spare: 1}, {Want: 1, Spare: 1}}, []int64{0, 1, 0, 0}},
		{"spare for each", 4, []Hold{{Want: 1, Spare: 1}, {Want: 2, Spare: 2}, {Want: 2, Spare: 2}}, []int64{1, 1, 2}},
		{"spare is nobody's", 50, []Hold{{Want: 40, Spare: 30, Weight: 1}, {Want: 60, Weight: 1}}, []int64{10, 40}},
		{"nobody waits for ever", 4, []Hold{{Want: 50, Weight: 100}, {Want: 50, Need: 1, Since: 1, Weight: 1}}, []int64{3, 1}},
		{"but for who can", 4, []Hold{{Want: 50, Need: 5, Used: 4, Since: 1, Weight: 100}, {Want: 50, Need: 2, Used: 1, Weight: 100}}, []int64{2, 2}},
	} {
		var live []*Hold
		for i := range x.holds {
			x.holds[i].Kind = Slots
			live = append(live, &x.holds[i])
		}
		var gets []int64
		for _, h := range live {
			gets = append(gets, target(h, live, x.avail))
		}
		if fmt.Sprint(gets) != fmt.Sprint(x.gets) {
			t.Errorf("%s: got %v, want %v", x.what, gets, x.gets)
		}
	}
}

// TestSlots_Safety: what runs is within the limit, also where it runs on in processes that are cut
// off, late, paused or dead, in a store that forgets all or whose clock jumps ahead.
func TestSlots_Safety(t *testing.T) {
	full := 0
	worlds := testkit.Rounds(*worlds/2, *worlds)
	for seed := range uint64(2 * worlds) {
		w := newWorld(seed, 2+int(seed%4))
		w.limits[Slots] += 2
		w.only = Slots
		w.tail = 8200
		w.forgets = seed%2 == 0
		if seed%3 == 0 {
			w.expect = int64(len(w.procs))
		}
		most := 0
		for range 5000 {
			w.step()
			n := 0
			for _, p := range append(w.procs, w.dead...) {
				for _, c := range p.running {
					if c.ends > w.now {
						n++
					}
				}
			}
			most = max(most, n)
			if int64(n) > w.limits[Slots] {
				t.Fatalf("seed %d, after %d s: %d run, of %d", seed, (w.now-1_000_000)/1000, n, w.limits[Slots])
			}
		}
		if int64(most) == w.limits[Slots] {
			full++
		}
	}
	if t.Logf("in %d of %d worlds all run", full, 2*worlds); full < worlds {
		t.Errorf("only in %d of %d worlds all run", full, 2*worlds)
	}
}

// TestNotes: each process hears the last note of all others that are heard of, and how old it is.
func TestNotes(t *testing.T) {
	a := &Account{}
	beat := func(now int64, instance string, seq int64, note string) []Note {
		c := claim(Slots, 0, 0, 1)
		c.Note = note
		return tell(a, now, instance, seq, c)[0].Notes
	}
	for _, step := range []struct {
		now      int64
		instance string
		seq      int64
		note     string
		heard    []Note
	}{
		{1000, "a", 1, "one", nil},
		{1400, "b", 1, "", []Note{{400, "one"}}},
		{1500, "a", 2, "two", nil}, // b has none
		{1600, "c", 1, "three", []Note{{100, "two"}}},
		{1700, "b", 2, "four", []Note{{200, "two"}, {100, "three"}}},
		{4050, "c", 2, "five", []Note{{2350, "four"}}}, // a is silent
	} {
		if got := beat(step.now, step.instance, step.seq, step.note); !reflect.DeepEqual(got, step.heard) {
			t.Errorf("at %d %s hears %v, want %v", step.now, step.instance, got, step.heard)
		}
	}
}
