package parts

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/llmgov/llmgov/internal/testkit"
)

// walk is a way at random through a world in which the account is lost at times, and some processes with it.
type walk struct {
	*small
	rng  *rand.Rand
	path []string
	born int
}

func newWalk(g *playground, rng *rand.Rand) *walk {
	return &walk{small: g.begin(), rng: rng, born: int(g.procs)}
}

func (w *walk) say(format string, args ...any) { w.path = append(w.path, fmt.Sprintf(format, args...)) }

// step lets something happen, and reports whether more than the limit is used then.
func (w *walk) step() bool {
	i := w.rng.IntN(len(w.procs))
	p := &w.procs[i]
	switch w.rng.IntN(8) {
	case 0:
		w.pass(w.rng.Int64N(800))
	case 1, 2:
		w.beats(i)
	case 3, 4, 5:
		if len(w.mail) > 0 {
			w.arrives(w.rng.IntN(len(w.mail)))
		}
	case 6:
		for most := w.rng.Int64N(w.g.limit + 1); most > 0 && w.counts(p.used) < p.h.Part(w.clock(), "x"); most-- {
			p.used = append(p.used, w.now)
			if w.g.kind != Slots {
				w.used = append(w.used, w.now)
			}
			w.say("%s uses one", p.h.instance)
		}
	case 7:
		if w.g.kind == Slots && len(p.used) > 0 {
			p.used = p.used[1:]
			p.excused = max(p.excused-1, 0)
			w.say("%s ends one", p.h.instance)
		}
	}
	return w.over()
}

func (w *walk) pass(ms int64) {
	w.now += ms
	w.say("%d ms pass", ms)
	if a := &w.account; a.Lost && len(a.Tellers) == 0 && w.now > a.Born+ttl+window {
		w.free = true // nobody has told for a minute
	}
	for i := range w.procs {
		if p := &w.procs[i]; !w.clock().Before(p.h.Until()) {
			p.excused = len(p.used)
		}
	}
}

func (w *walk) beats(i int) {
	p := &w.procs[i]
	used := w.counts(p.used)
	want := used + w.rng.Int64N(w.g.limit+1)>>w.rng.IntN(4)
	claims := []Claim{{Name: "x", Kind: w.g.kind, Limit: w.g.limit, Ends: 1e9, Used: used, Want: min(want, max(w.g.limit, used)), Tail: w.g.tail}}
	b := p.beat(w.clock(), claims)
	w.mail = append(w.mail, note{of: i, beat: b})
	w.say("%s uses %d and wants %d", p.h.instance, used, claims[0].Want)
}

func (w *walk) arrives(k int) {
	m := w.mail[k]
	if m.beat != nil && m.beat.Known == 0 && w.losses > 0 && !w.account.Lost && len(w.account.Tellers) == 0 {
		return // a new account grants to those who know of none, until somebody tells that it is not the first
	}
	if w.rng.IntN(12) > 0 {
		w.mail = slices.Delete(w.mail, k, k+1)
	}
	if w.rng.IntN(12) > 0 {
		w.deliver(m)
		w.say("arrives of %s: %v %v", w.procs[m.of].h.instance, m.beat, m.reply)
	}
}

// round lets each process beat and hear the answer.
func (w *walk) round() {
	for i := range w.procs {
		w.beats(i)
		for range 2 {
			if k := slices.IndexFunc(w.mail, func(m note) bool { return m.of == i && (m.beat == nil || m.beat.Seq == w.procs[i].h.seq) }); k >= 0 {
				w.arrives(k)
			}
		}
	}
}

// loss forgets the account. Some processes die with it, but not all who know of it.
func (w *walk) loss() {
	w.lose()
	w.say("all is forgotten; %v know", w.witness)
	left := len(w.witness)
	for i := range w.procs {
		p := &w.procs[i]
		if knows := w.witness[p.h.instance]; w.rng.IntN(2) == 0 && (!knows || left > 1) {
			if knows {
				left--
				delete(w.witness, p.h.instance)
			}
			w.say("%s dies", p.h.instance)
			w.born++
			*p = tiny{h: *NewHolder("o", fmt.Sprint(w.born), 1)}
			w.mail = slices.DeleteFunc(w.mail, func(m note) bool { return m.of == i })
		}
	}
	w.free = w.free || w.newcomer()
}

// TestLost: after a loss of the account no more than the limit is used, as long as one of those is left whom
// it regarded.
func TestLost(t *testing.T) {
	restored := map[string]int{}
	worlds := testkit.Rounds(4**worlds, 10**worlds)
	for _, g := range []playground{
		{name: "slots", kind: Slots, tail: 2 * ttl},
		{name: "tenant's slots", kind: Slots},
		{name: "rolling", kind: Rolling},
		{name: "period", kind: Period},
	} {
		g.beats = 1000
		g.losses = 3
		for seed := range uint64(worlds) {
			rng := rand.New(rand.NewPCG(seed, 17))
			g.limit = 1 + rng.Int64N(12)<<rng.IntN(4)
			g.procs = 2 + rng.Int64N(2)
			w := newWalk(&g, rng)
			for range 1 + rng.IntN(3) {
				for range rng.IntN(60) {
					if w.step() {
						t.Fatalf("%s, seed %d: more than the limit of %d is used after:\n%s", g.name, seed, g.limit, strings.Join(w.path, "\n"))
					}
				}
				w.loss()
			}
			for n := range 80 {
				if n%10 == 3 {
					w.round()
				}
				if n%30 == 15 {
					w.pass([]int64{ttl + 1, window}[n/30%2])
				}
				if w.step() {
					t.Fatalf("%s, seed %d: more than the limit of %d is used after:\n%s", g.name, seed, g.limit, strings.Join(w.path, "\n"))
				}
			}
			if len(w.account.Tellers) > 0 && !w.account.Lost && !w.free {
				restored[g.name]++
			}
		}
	}
	t.Logf("so many accounts were restored, of %d each: %v", worlds, restored)
}
