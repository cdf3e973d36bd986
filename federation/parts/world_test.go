package parts

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

// world is some processes, an account, and what is on its way between them. Its time is in
// milliseconds, and is the store's.
type world struct {
	rng     *rand.Rand
	now     int64
	account Account
	limits  map[Kind]int64
	calm    bool // nothing is lost or late, and nobody stops
	procs   []*process
	born    int
	mail    []letter
	used    []use            // of all processes that ever were, Rolling
	spent   map[string]int64 // by period

	only    Kind  // if it is not empty, others are not wanted
	tail    int64 // of claims on slots
	expect  int64 // of those, too
	lasts   int64 // of all claims
	ahead   int64 // of the store's clock
	forgets bool  // the store does at times, and its clock jumps ahead
	dead    []*process
}

type use struct{ at, n int64 }

// letter is a beat or an answer on its way.
type letter struct {
	at    int64
	from  *process
	beat  *Beat
	reply *Reply
}

// process admits whatever fits into its parts.
type process struct {
	h       *Holder
	base    time.Time // what its clock shows at 0
	wall    int64     // by how much its clock is wrong
	rate    int64     // by how many millionths it runs fast
	asleep  int64     // until
	hungry  map[Kind]bool
	size    map[Kind]int64 // of the call that waits
	used    []use
	spent   map[string]int64
	running []call
	beats   int
}

// call runs until a time, and is excused if its process was cut off since.
type call struct {
	ends    int64
	excused bool
}

const month = 150_000 // milliseconds, of this world

func newWorld(seed uint64, procs int) *world {
	w := &world{rng: rand.New(rand.NewPCG(seed, 1)), now: 1_000_000, spent: map[string]int64{}}
	w.limits = map[Kind]int64{Rolling: 1 + w.rng.Int64N(100), Slots: 1 + w.rng.Int64N(12), Period: 1 + w.rng.Int64N(400)}
	for range procs {
		w.start()
	}
	return w
}

// start begins a process.
func (w *world) start() *process {
	w.born++
	p := &process{
		h:    NewHolder("o", fmt.Sprint("i", w.born), uint64(w.born)),
		base: time.Unix(w.rng.Int64N(1e9), 0), wall: w.rng.Int64N(10_001) - 5000, rate: w.rng.Int64N(1001) - 500,
		hungry: map[Kind]bool{}, size: map[Kind]int64{}, spent: map[string]int64{},
	}
	w.procs = append(w.procs, p)
	return p
}

// clock is what a process' monotonic clock shows.
func (w *world) clock(p *process) time.Time {
	return p.base.Add(time.Duration(w.now*(1_000_000+p.rate)) * time.Microsecond / 1000)
}

// period is the one that it is by a process' clock, and when that ends.
func (w *world) period(p *process) (name string, ends int64) {
	n := (w.now + p.wall) / month
	return fmt.Sprint("period ", n), (n + 1) * month
}

// step lets a moment pass.
func (w *world) step() {
	w.now += 50
	for i := 0; i < len(w.procs); i++ {
		p := w.procs[i]
		if !w.calm {
			switch w.rng.IntN(4000) {
			case 0:
				w.dead = append(w.dead, p)
				w.procs = slices.Delete(w.procs, i, i+1)
				w.start()
				continue
			case 3:
				if p.asleep < w.now {
					p.running = slices.DeleteFunc(p.running, func(c call) bool { return w.tail > 0 && c.ends <= w.now })
					if w.tail > 0 && len(p.running) > 0 {
						break // it waits for them
					}
					claims, _, _ := w.claims(p)
					w.send(letter{from: p, beat: p.h.Leave(w.clock(p), claims)})
					w.procs = slices.Delete(w.procs, i, i+1)
					w.start()
					continue
				}
			case 1, 2:
				p.asleep = w.now + w.rng.Int64N(10_000)
			}
		}
		if p.asleep < w.now {
			w.live(p)
		}
	}
	w.deliver()
	if w.forgets && w.lull() {
		switch w.rng.IntN(8000) {
		case 0:
			w.account = Account{}
		case 1:
			w.ahead += w.rng.Int64N(20_000)
		}
	}
}

// lull is whether all processes are heard of, and no answer is on its way: what runs where nobody
// hears of it a store that forgets will not know.
func (w *world) lull() bool {
	for _, p := range w.dead {
		for _, c := range p.running {
			if c.ends > w.now {
				return false
			}
		}
	}
	for _, p := range w.procs {
		if p.asleep >= w.now-2500 || !w.clock(p).Before(p.h.Until()) && len(p.running) > 0 {
			return false
		}
	}
	return true
}

// live is what a process does in a moment.
func (w *world) live(p *process) {
	now := w.clock(p)
	p.used = slices.DeleteFunc(p.used, func(u use) bool { return u.at+window <= w.now })
	p.running = slices.DeleteFunc(p.running, func(c call) bool { return c.ends <= w.now })
	if !now.Before(p.h.Until()) {
		for i := range p.running {
			p.running[i].excused = true
		}
	}
	for _, kind := range []Kind{Rolling, Slots, Period} {
		if !w.calm && w.rng.IntN(300) == 0 {
			p.hungry[kind] = !p.hungry[kind]
		}
		if w.only == "" || w.only == kind {
			w.admit(p, kind)
		}
	}
	claims, busy, lacking := w.claims(p)
	if p.h.Due(now, busy, lacking) && (!p.h.Lasts() || w.rng.IntN(100) == 0) {
		p.beats++
		w.send(letter{from: p, beat: p.h.Beat(now, busy, claims)})
	}
}

// count is what counts of a process against a limit.
func (w *world) count(p *process, kind Kind) (n int64) {
	switch kind {
	case Rolling:
		for _, u := range p.used {
			n += u.n
		}
	case Slots:
		n = int64(len(p.running))
	case Period:
		name, _ := w.period(p)
		n = p.spent[name]
	}
	return n
}

func (w *world) name(p *process, kind Kind) string {
	if kind == Period {
		name, _ := w.period(p)
		return name
	}
	return string(kind)
}

// admit lets calls in, one after the other, for as long as they fit.
func (w *world) admit(p *process, kind Kind) {
	for p.hungry[kind] {
		if p.size[kind] == 0 {
			p.size[kind] = 1
			if kind != Slots {
				p.size[kind] += w.rng.Int64N(max(1, w.limits[kind]/8))
			}
		}
		n := p.size[kind]
		name := w.name(p, kind)
		if w.count(p, kind)+n > p.h.Part(w.clock(p), name) {
			return
		}
		p.size[kind] = 0
		switch kind {
		case Rolling:
			p.used, w.used = append(p.used, use{w.now, n}), append(w.used, use{w.now, n})
		case Slots:
			p.running = append(p.running, call{ends: w.now + 100 + w.rng.Int64N(8000)})
		case Period:
			p.spent[name] += n
			w.spent[name] += n
		}
	}
}

// claims are what a process tells.
func (w *world) claims(p *process) (claims []Claim, busy, lacking bool) {
	lasts := w.lasts * w.rng.Int64N(2)
	for _, kind := range []Kind{Rolling, Slots, Period} {
		if w.only != "" && w.only != kind {
			continue
		}
		c := Claim{Name: w.name(p, kind), Kind: kind, Limit: w.limits[kind], Used: w.count(p, kind)}
		c.Want = c.Used
		if kind == Period {
			_, c.Ends = w.period(p)
		}
		if p.hungry[kind] {
			c.Need = c.Used + p.size[kind]
			c.Want = c.Used + p.size[kind] + w.limits[kind]
			busy = true
			lacking = true
		}
		if kind == Slots && w.tail > 0 {
			c.Tail = w.tail
			c.Expect = w.expect
			c.Weight = 1 + w.rng.Int64N(5)
			c.Spare = w.rng.Int64N(3)
			c.Want += c.Spare
		}
		c.Lasts = lasts
		claims = append(claims, c)
	}
	return claims, busy || len(p.running) > 0, lacking
}

// send posts a letter, which may be lost, late, or there twice.
func (w *world) send(l letter) {
	for range 2 {
		x := l
		x.at = w.now + 1 + w.rng.Int64N(60)
		if !w.calm {
			switch w.rng.IntN(20) {
			case 0:
				return
			case 1:
				x.at += w.rng.Int64N(6000)
			}
		}
		w.mail = append(w.mail, x)
		if w.calm || w.rng.IntN(20) > 0 {
			return
		}
	}
}

func (w *world) deliver() {
	due := w.mail
	w.mail = nil
	for _, l := range due {
		switch {
		case l.at > w.now, l.reply != nil && l.from.asleep >= w.now:
			w.mail = append(w.mail, l)
		case l.reply != nil:
			l.from.h.Answered(w.clock(l.from), l.reply)
		default:
			r := w.account.Beat(w.now+w.ahead, l.beat)
			w.send(letter{from: l.from, reply: &r})
		}
	}
}

// over says what is used more of than there is.
func (w *world) over() string {
	w.used = slices.DeleteFunc(w.used, func(u use) bool { return u.at+window <= w.now })
	n := map[Kind]int64{}
	for _, u := range w.used {
		n[Rolling] += u.n
	}
	for _, p := range w.procs {
		for _, c := range p.running {
			if !c.excused && c.ends > w.now && w.clock(p).Before(p.h.Until()) {
				n[Slots]++
			}
		}
	}
	for _, spent := range w.spent {
		n[Period] = max(n[Period], spent)
	}
	for kind, x := range n {
		if x > w.limits[kind] {
			return fmt.Sprintf("%d of %d are used (%s)", x, w.limits[kind], kind)
		}
	}
	return ""
}

// TestSafety: whatever gets lost, late or stuck, and whoever dies, what all processes use stays
// within the limits. (It is not in vain: the greedy processes come to all there is.)
func TestSafety(t *testing.T) {
	full := map[Kind]int{}
	worlds := testkit.Rounds(*worlds/2, *worlds)
	for seed := range uint64(worlds) {
		w := newWorld(seed, 2+int(seed%4))
		w.lasts = []int64{0, 3000, 40_000, 0}[seed%4]
		most := map[Kind]bool{}
		for range 5000 {
			w.step()
			if over := w.over(); over != "" {
				t.Fatalf("seed %d, after %d s: %s", seed, (w.now-1_000_000)/1000, over)
			}
			n := int64(0)
			for _, u := range w.used {
				n += u.n
			}
			most[Rolling] = most[Rolling] || n*10 > w.limits[Rolling]*9
			for _, spent := range w.spent {
				most[Period] = most[Period] || spent*10 > w.limits[Period]*9
			}
			n = 0
			for _, p := range w.procs {
				n += int64(len(p.running))
			}
			most[Slots] = most[Slots] || n == w.limits[Slots]
		}
		for kind := range most {
			if most[kind] {
				full[kind]++
			}
		}
	}
	t.Logf("of %d worlds the limits were used up in: %v", worlds, full)
	for _, kind := range []Kind{Rolling, Slots, Period} {
		if full[kind] < worlds/2 {
			t.Errorf("%s was used up in only %d of %d worlds", kind, full[kind], worlds)
		}
	}
}
