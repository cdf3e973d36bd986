package parts

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

// hears is a process that tells of slots, and hears the answers.
type hears struct {
	a                 *Account
	name              string
	seq, known, heard int64
	slots             Claim
}

func (p *hears) tells(now int64) int64 {
	p.seq++
	r := p.a.Beat(now, &Beat{Owner: "o", Instance: p.name, Seq: p.seq, Epoch: p.known, Known: p.known, Heard: p.heard, Claims: []Claim{p.slots}})
	p.known = r.Epoch
	p.heard = r.Now
	return r.Parts[0].Part
}

// has checks how many slots the process has when it tells.
func (p *hears) has(t *testing.T, now, want int64) {
	t.Helper()
	if got := p.tells(now); got != want {
		t.Errorf("at %d %s has %d slots, want %d", now, p.name, got, want)
	}
}

// expecting are processes of an account, each of which wants some slots.
func expecting(a *Account, expect int64, names ...string) (list []*hears) {
	for _, name := range names {
		slots := claim(Slots, 0, 0, 3)
		slots.Tail = 4000
		slots.Expect = expect
		list = append(list, &hears{a: a, name: name, slots: slots})
	}
	return list
}

// TestComplete: a new account grants slots once as many processes as there are have told while all of them ran, and not before.
func TestComplete(t *testing.T) {
	list := expecting(&Account{}, 2, "a", "b")
	a, b := list[0], list[1]
	for _, x := range []struct {
		who  *hears
		now  int64
		want int64
	}{
		{a, 1000, 0},
		{a, 1100, 0}, // b may have calls that run
		{b, 1200, 0}, // a may have begun some since
		{b, 1300, 0}, // a may have gone by then
		{a, 1400, 0}, // and this may have been sent before b came
		{a, 1500, 3},
		{b, 1600, 3},
	} {
		x.who.has(t, x.now, x.want)
	}
}

// TestComplete_Unknown: if the number of processes is unknown, all of them are given the time to tell.
func TestComplete_Unknown(t *testing.T) {
	a := expecting(&Account{}, 0, "a")[0]
	for now := int64(1000); now <= 6000; now += 500 {
		a.has(t, now, 0)
	}
	a.has(t, 6001, 3)
}

// TestComplete_Earlier: a process of which it is unknown when it came does not count.
func TestComplete_Earlier(t *testing.T) {
	account := &Account{Now: 1000, Began: 900, Born: 900, Epoch: 900, Members: []Member{
		{Instance: "old", Seen: 1000, Heard: 1000, Holds: []Hold{{Name: "other", Kind: Slots, Seen: 1000, High: 1, Want: 1}}},
	}}
	a := expecting(account, 1, "a")[0]
	a.has(t, 1100, 0)
	a.has(t, 1200, 3)
}

// TestComplete_Away: an account that nobody could reach for a while waits for all, however many there are: one that is gone may
// have calls that run on.
func TestComplete_Away(t *testing.T) {
	a := expecting(&Account{}, 1, "a")[0]
	a.tells(1000)
	a.has(t, 1100, 3)
	for _, now := range []int64{101_000, 102_000, 104_000, 106_000} {
		a.has(t, now, 0)
	}
	a.has(t, 106_001, 3)
}

// TestDeclare: an account that was declared new grants slots at once, whenever the first process comes; and once that one has come, as any other.
func TestDeclare(t *testing.T) {
	account := &Account{}
	if !account.Declare(1000, "first") {
		t.Fatal("it was refused")
	}
	if got := account.Forget(); got != 24*60*60*1000 {
		t.Errorf("it may be dropped in %d ms", got)
	}
	a := expecting(account, 0, "a")[0]
	account.On("first")
	if got := a.tells(900_000); got != 3 {
		t.Errorf("the first process has %d slots", got)
	}
	if got := account.Forget(); got > 10_000 {
		t.Errorf("then it may be dropped in %d ms", got)
	}
	a.has(t, 1_000_000, 0)
}

// TestDeclare_Restored: an account that another server has may be as it was before others were given slots, so all are given the time to tell.
func TestDeclare_Restored(t *testing.T) {
	for _, server := range []string{"", "second"} {
		account := &Account{}
		account.Declare(1000, "first")
		account.On(server)
		a := expecting(account, 1, "who tells "+server)[0]
		for _, now := range []int64{2000, 4000, 6000, 7000} {
			a.has(t, now, 0)
			account.On("first") // which says no more
		}
		a.has(t, 7001, 3)
	}
}

// TestDeclare_Lost: a process that knew another account has its say, whatever was declared.
func TestDeclare_Lost(t *testing.T) {
	account := &Account{}
	account.Declare(1000, "first")
	account.On("first")
	a := expecting(account, 0, "a")[0]
	a.known = 5
	a.has(t, 2000, 0)
}

// TestDeclare_InUse: no account is declared new while a process is heard of, or slots may be in use.
func TestDeclare_InUse(t *testing.T) {
	account := &Account{}
	idle := claim(Slots, 0, 0, 0)
	tell(account, 1000, "a", 1, idle)
	if account.Declare(3500, "first") {
		t.Error("it was declared new beside a process that is heard of")
	}
	if !account.Declare(3501, "first") {
		t.Error("it was refused when nobody was heard of")
	}
	used := claim(Slots, 1, 1, 1)
	used.Tail = 9000
	tell(account, 4000, "b", 1, used)
	if account.Declare(15_500, "first") {
		t.Error("it was declared new while a call may run")
	}
	if !account.Declare(15_501, "first") {
		t.Error("it was refused when that call was over")
	}
}

// TestDecode_FirstRelease: an account that the first release wrote goes on, and what others have used counts.
func TestDecode_FirstRelease(t *testing.T) {
	text := testkit.Must(os.ReadFile("testdata/first.account"))(t)
	a := testkit.Must(Decode(text))(t)
	r := a.Beat(1_700_000_000_500, &Beat{Owner: "acme", Instance: "a", Seq: 2, Claims: []Claim{
		{Name: "minute", Kind: Rolling, Limit: 100, Used: 10, Part: 20, Want: 20},
		{Name: "month", Kind: Period, Limit: 1000, Ends: 1_800_000_000_000, Used: 30, Part: 40, Want: 40},
		{Name: "slots", Kind: Slots, Limit: 8, Used: 2, Part: 2, Want: 3, Tail: 4000},
	}})
	if len(r.Parts) != 3 {
		t.Fatalf("the answer is %+v", r)
	}
	for i, want := range []int64{10, 30, 2} {
		if got := r.Parts[i].Others; got != want {
			t.Errorf("others have used %d of limit %d, want %d", got, i, want)
		}
	}
}

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
