package escrow

import (
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

// twin is a calendar that keeps what each slot has in a map, and looks at every
// window of all there is.
type twin struct {
	limit int64
	cur   int64
	slots map[int64]int64
}

// first is what of a pace falls into the rest of the current slot.
func (w *twin) first(now time.Time, remaining, pace int64) int64 {
	const slot = int64(Window / calendarSlots)
	if pace == 0 { // all at once
		return remaining
	}
	left := (w.cur+1)*slot - int64(now.Sub(t0))
	return min(remaining, (pace*left+slot-1)/slot)
}

func (w *twin) lay(now time.Time, remaining, pace int64) (cells map[int64]int64) {
	cells = map[int64]int64{w.cur: w.first(now, remaining, pace)}
	pace = max(1, pace)
	remaining -= cells[w.cur]
	slot := w.cur + 1
	for ; remaining >= pace && slot < w.cur+horizon; slot++ {
		cells[slot] = pace
		remaining -= pace
	}
	if remaining < pace {
		cells[slot] = remaining
	}
	for slot, x := range cells {
		w.slots[slot] += x
	}
	return cells
}

func (w *twin) lift(cells map[int64]int64) {
	for slot, x := range cells {
		if slot > w.cur {
			w.slots[slot] -= x
			delete(cells, slot)
		}
	}
}

// replace counts so much as produced in place of what the past cells have.
func (w *twin) replace(cells map[int64]int64, produced int64) {
	d := produced
	for slot, x := range cells {
		if slot <= w.cur {
			d -= x
		}
	}
	if d >= 0 {
		w.slots[w.cur] += d
		return
	}
	for slot := w.cur; d < 0 && slot > w.cur-counted; slot-- {
		back := min(-d, cells[slot])
		w.slots[slot] -= back
		d += back
	}
}

// counted is how many slots a window has.
const counted = calendarSlots + 1

func (w *twin) window(end int64) (sum int64) {
	for slot := end - counted + 1; slot <= end; slot++ {
		sum += w.slots[slot]
	}
	return sum
}

// fits looks at every window that ends from now on, as far as anything is planned.
func (w *twin) fits(now time.Time, atOnce, remaining, pace int64) bool {
	trial := twin{w.limit, w.cur, map[int64]int64{}}
	for slot, x := range w.slots {
		trial.slots[slot] = x
	}
	trial.slots[w.cur] += atOnce
	first := w.first(now, remaining, pace)
	pace = max(1, pace)
	for slot, own := w.cur, first; remaining > 0 && slot < w.cur+2*horizon; slot++ {
		trial.slots[slot] += own
		remaining -= own
		own = min(pace, remaining)
	}
	sum := trial.window(w.cur - 1)
	for end := w.cur; end < w.cur+2*horizon; end++ {
		sum += trial.slots[end] - trial.slots[end-counted]
		if sum > w.limit {
			return false
		}
	}
	return true
}

// The calendar agrees with its twin, slot by slot, whatever is laid, lifted,
// replaced and let pass; and what fits it accepts breaks no window, however late.
//
// Catches: a window short by a slot; a plan without its rest; a horizon that is not kept; what
// is more not booked, what is less taken from one slot only; a plan not booked in its
// first slot; a rate that survives a pause; inputs that fits does not count.
func TestCalendarAgainstItsTwin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := func(label string, lo, hi int64) int64 { return rapid.Int64Range(lo, hi).Draw(t, label) }
		c := newCalendar(t0, rapid.SampledFrom([]int64{1, 2, 5, 100}).Draw(t, "limit"))
		w := &twin{limit: c.ledger.limit, slots: map[int64]int64{}}
		if int64(len(c.ledger.slots)) != counted {
			t.Fatalf("a window has %d slots", len(c.ledger.slots))
		}
		now := t0
		type stream struct {
			p     plan
			cells map[int64]int64
		}
		var live []stream
		for range n("steps", 1, 40) {
			switch n("verb", 0, 4) {
			case 0:
				d := rapid.SampledFrom([]int64{1, 2, 3, 50, 241, 242, 243, 959, 960, 961, 962, 2500}).Draw(t, "slots")
				now = now.Add(time.Duration(d)*Window/calendarSlots - time.Duration(n("ms", 0, 249))*time.Millisecond)
				c.advance(now)
				w.cur = int64(now.Sub(t0) / (Window / calendarSlots))
			case 1, 2:
				once := n("once", 0, 2000)
				rest := n("rest", 0, 4000)
				pace := n("pace", 0, 1500)
				switch n("kind", 0, 5) {
				case 0: // far beyond the horizon
					rest = n("rest", 500, 1500)
					pace = 1
				case 1: // about the limit of 100, for more than a minute
					once = n("once", 0, 100)
					rest = n("rest", 95_000, 110_000)
					pace = n("pace", 410, 420)
				}
				if got, want := c.fits(now, once, rest, pace), w.fits(now, once, rest, pace); got != want {
					t.Fatalf("fits(%d, %d, %d) is %v, the twin says %v", once, rest, pace, got, want)
				} else if !got && n("anyway", 0, 9) > 0 {
					continue
				}
				c.ledger.Book(once)
				w.slots[w.cur] += once
				live = append(live, stream{c.lay(now, rest, pace), w.lay(now, rest, pace)})
			case 3, 4:
				if len(live) == 0 {
					continue
				}
				k := n("which", 0, int64(len(live))-1)
				s := &live[k]
				past := int64(0)
				for slot, x := range s.cells {
					if slot <= w.cur {
						past += x
					}
				}
				produced := n("produced", 0, past*3/2)
				c.replace(s.p, produced)
				w.replace(s.cells, produced)
				c.lift(s.p)
				w.lift(s.cells)
				rest := n("rest", 0, 4000)
				pace := n("pace", 0, 1500)
				s.p, s.cells = c.lay(now, rest, pace), w.lay(now, rest, pace)
			}
			if got, want := c.ledger.booked, w.window(w.cur); got != want {
				t.Fatalf("%d grains count, the twin has %d", got, want)
			}
			ahead := int64(0)
			for slot, x := range w.slots {
				if slot > w.cur {
					ahead += x
				}
			}
			if c.ahead != ahead {
				t.Fatalf("%d grains are planned, the twin has %d", c.ahead, ahead)
			}
			testkit.OK(t, c.ledger.check(Tokens))
		}
	})
}

// stream is a call in truth: what it produced, by its age.
type stream struct {
	h                 Handle
	leaf              int
	since, next       time.Time
	input, out, speed int64
	actual            int64 // what it really produces
	counted           int64
}

func (s *stream) made(now time.Time) int64 {
	return min(s.actual, int64(now.Sub(s.since))*s.speed/int64(time.Second))
}

// provider counts true tokens by the instant they are produced, for the last minute
// exactly.
type provider struct {
	at    []int64 // by step of 10 ms, a ring of a minute
	step  int
	sum   int64
	total int64
}

func newProvider() *provider { return &provider{at: make([]int64, 6000)} }

func (p *provider) tick() {
	p.step++
	i := p.step % len(p.at)
	p.sum -= p.at[i]
	p.at[i] = 0
}

func (p *provider) count(x int64) {
	p.at[p.step%len(p.at)] += x
	p.sum += x
	p.total += x
}

// streams runs random streams against a tree of leaves for some minutes; excess
// says what a stream really produces of a length. It reports the fullest minute
// over the limit, and the part of the limit used after two minutes.
func streams(t *testing.T, seed uint64, cfg Config, length, input, speed int64, minutes int, steady bool, excess func(r *rand.Rand, k int, out int64) int64) (worst, used float64) {
	r := rand.New(rand.NewPCG(seed, 9))
	cfg.Accounting = Production
	cfg.MaxQueue = 1000
	p := New(t0, cfg)
	org := p.Add(Root, Node{Weight: 1, Floor: cfg.TPM / 20})
	leaves := []NodeID{p.Add(Root, Node{Weight: 3}), p.Add(org, Node{Weight: 1}), p.Add(org, Node{Weight: 2})}
	truth := newProvider()
	var live []*stream
	waits := map[Handle]*stream{}
	waiting := make([]int, len(leaves))
	busy := []bool{true, true, true}
	warm := int64(0)
	for k := range minutes * 6000 {
		now := t0.Add(time.Duration(k) * 10 * time.Millisecond)
		truth.tick()
		if k == 2*6000 {
			warm = truth.total
		}
		still := live[:0]
		for _, s := range live {
			m := s.made(now)
			truth.count(m - s.counted)
			s.counted = m
			if m >= s.actual {
				p.Settle(now, s.h, Cost{s.input + s.actual, 1})
				continue
			}
			if !now.Before(s.next) {
				s.next = s.next.Add(250 * time.Millisecond)
				p.Progress(now, s.h, Progress{Taken: s.input + m, Expect: s.input + max(m, s.out), Speed: s.speed})
			}
			still = append(still, s)
		}
		live = still
		begin := func(h Handle, s *stream) {
			s.h = h
			s.since = now
			s.next = now.Add(250 * time.Millisecond)
			truth.count(s.input)
			live = append(live, s)
		}
		pump := func() {
			for _, h := range p.Pump(now, nil) {
				s := waits[h]
				delete(waits, h)
				waiting[s.leaf]--
				begin(h, s)
			}
		}
		pump()
		for l, leaf := range leaves {
			if !steady && k%700 == 0 {
				busy[l] = r.IntN(2) == 0
			}
			for n := 0; busy[l] && waiting[l] < 2 && n < 500; n++ {
				s := &stream{leaf: l, input: r.Int64N(input + 1), out: 1 + r.Int64N(length), speed: 1 + r.Int64N(speed)}
				s.actual = s.out
				if excess != nil {
					s.actual = excess(r, k, s.out)
				}
				c := Call{
					Leaf: leaf, Most: Cost{s.input + s.out, 1}, Input: s.input, Speed: s.speed, MaxWait: time.Hour,
					Claim: Claim{Key: r.Uint64N(5), Retry: Retry(r.IntN(3))},
				}
				if r.IntN(4) == 0 {
					c.MaxWait = 0
				}
				h, ans := p.Offer(now, c)
				switch ans.Verdict {
				case Admitted:
					begin(h, s)
				case Queued:
					waits[h] = s
					waiting[l]++
				}
				pump()
			}
		}
		worst = max(worst, float64(truth.sum)/float64(cfg.TPM))
		if k%500 == 0 {
			testkit.OK(t, p.Check())
		}
	}
	return worst, float64(truth.total-warm) / float64(cfg.TPM) / float64(minutes-2)
}

// Streams of known length and speed, of random trees of leaves that come and go,
// after any burst: no minute has more than the limit, from the first instant on.
//
// Catches: a window short by a slot; a plan without its rest, or not booked in its first slot;
// what is more than planned not booked; Progress that does not replace, or lift, the
// plan.
func TestI1_ProductionNeverAboveTheLimit(t *testing.T) {
	for seed := range uint64(testkit.Rounds(6, 30)) {
		tpm := []int64{60_000, 600_000, 6000}[seed%3]
		cfg := Config{TPM: tpm, Burst: []time.Duration{0, 10, 30, 60}[seed%4] * time.Second, TicketWait: 5 * time.Second}
		worst, used := streams(t, seed, cfg, 1+tpm/100, tpm/100, 300, 5, seed%2 == 0, nil)
		if worst > 1 {
			t.Errorf("I1: seed %d: %.4f of %d tokens in a minute", seed, worst, tpm)
		}
		if seed%2 == 0 && used < 0.95 {
			t.Errorf("I2: seed %d: %.4f of %d tokens used", seed, used, tpm)
		}
	}
}

// An idle pool's whole minute goes at once, to streams that produce it within a
// second, at the end of a slot; what comes a minute later is not above the limit.
//
// Catches: a window short by a slot; a plan without its rest, or not booked in its first slot.
func TestI1_ProductionBurstAtTheEndOfASlot(t *testing.T) {
	for _, off := range []time.Duration{0, 120, 240, 249} {
		const tpm = 60_000
		p := New(t0, Config{TPM: tpm, Burst: Window, Accounting: Production, MaxQueue: 10})
		leaf := p.Add(Root, Node{Weight: 1})
		now := t0.Add(5*time.Minute + off*time.Millisecond)
		truth := newProvider()
		var live []*stream
		worst := int64(0)
		for k := range 9000 {
			truth.tick()
			still := live[:0]
			for _, s := range live {
				m := s.made(now)
				truth.count(m - s.counted)
				s.counted = m
				if m == s.out {
					p.Settle(now, s.h, Cost{s.input + m, 1})
					continue
				}
				if !now.Before(s.next) {
					s.next = s.next.Add(250 * time.Millisecond)
					p.Progress(now, s.h, Progress{Taken: s.input + m, Expect: s.input + s.out, Speed: s.speed})
				}
				still = append(still, s)
			}
			live = still
			for {
				s := &stream{out: 300, speed: 300}
				if k > 5000 {
					s = &stream{input: 99, out: 1, speed: 1000}
				}
				s.actual = s.out
				h, ans := p.Offer(now, Call{Leaf: leaf, Most: Cost{s.input + s.out, 1}, Input: s.input, Speed: s.speed})
				if ans.Verdict != Admitted {
					break
				}
				s.h = h
				s.since = now
				s.next = now.Add(250 * time.Millisecond)
				truth.count(s.input)
				live = append(live, s)
			}
			worst = max(worst, truth.sum)
			now = now.Add(10 * time.Millisecond)
		}
		if worst > tpm {
			t.Errorf("I1: %v into a slot: %d tokens of %d in a minute", off*time.Millisecond, worst, tpm)
		}
	}
}

// Calls that answer whole, all at once and at any time within a slot, and are settled
// at once with what was expected: no minute is above the limit.
//
// Catches: what comes at once planned by halves, for this slot and the next.
func TestI1_ProductionAllAtOnce(t *testing.T) {
	const tpm = 60_000
	r := rand.New(rand.NewPCG(1, 2))
	p := New(t0, Config{TPM: tpm, Accounting: Production, MaxQueue: 10})
	leaf := p.Add(Root, Node{Weight: 1})
	truth := newProvider()
	worst := int64(0)
	now := t0
	for range 40_000 {
		truth.tick()
		cost := Cost{100 + r.Int64N(2900), 1}
		if h, ans := p.Offer(now, Call{Leaf: leaf, Most: cost, Input: 50}); ans.Verdict == Admitted {
			p.Settle(now, h, cost)
			truth.count(cost[Tokens])
		}
		worst = max(worst, truth.sum)
		now = now.Add(10 * time.Millisecond)
	}
	if worst > tpm {
		t.Errorf("I1: %d tokens of %d in a minute", worst, tpm)
	}
	if used := float64(truth.total) / tpm / now.Sub(t0).Minutes(); used < 0.95 {
		t.Errorf("I2: %.3f of the limit used", used)
	}
}

// Streams that produce three times what was expected: what is above the limit is
// bounded by what is in flight, nothing is admitted meanwhile, and once lengths are
// true again no minute is above the limit.
//
// Catches: a plan not booked in its first slot; fits that does not count what is planned.
func TestI1_ProductionExcessIsBounded(t *testing.T) {
	const tpm = 60_000
	p := New(t0, Config{TPM: tpm, Burst: Window, Accounting: Production, MaxQueue: 10})
	leaf := p.Add(Root, Node{Weight: 1})
	now := t0.Add(5 * time.Minute)
	truth := newProvider()
	var live []*stream
	worst := int64(0)
	inFlight := int64(0)
	admittedOver := 0
	for k := range 5 * 6000 {
		truth.tick()
		factor := int64(1)
		if k < 1000 {
			factor = 3
		}
		still := live[:0]
		for _, s := range live {
			m := s.made(now)
			truth.count(m - s.counted)
			s.counted = m
			if m == s.actual {
				p.Settle(now, s.h, Cost{m, 1})
				continue
			}
			if !now.Before(s.next) {
				s.next = s.next.Add(250 * time.Millisecond)
				p.Progress(now, s.h, Progress{Taken: m, Expect: max(s.out, m+m/2), Speed: s.speed})
			}
			still = append(still, s)
		}
		live = still
		for {
			s := &stream{out: 600, speed: 100, actual: 600 * factor}
			h, ans := p.Offer(now, Call{Leaf: leaf, Most: Cost{s.out, 1}, Speed: s.speed})
			if ans.Verdict != Admitted {
				break
			}
			if truth.sum > tpm {
				admittedOver++
			}
			inFlight += s.actual - s.out
			s.h = h
			s.since = now
			s.next = now.Add(250 * time.Millisecond)
			live = append(live, s)
		}
		worst = max(worst, truth.sum)
		if k > 2*6000+1000 && truth.sum > tpm {
			t.Fatalf("I1: %v after lengths are true again: %d tokens in a minute", time.Duration(k-1000)*10*time.Millisecond, truth.sum)
		}
		now = now.Add(10 * time.Millisecond)
	}
	if worst <= tpm || worst-tpm > inFlight {
		t.Errorf("I1: %d above the limit, with %d in flight beyond what was expected", worst-tpm, inFlight)
	}
	if admittedOver > 0 {
		t.Errorf("I1: %d calls were admitted while a minute was over its limit", admittedOver)
	}
}

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// naiveLedger keeps every booking and sums those of the last Window.
type naiveLedger struct {
	at     []time.Time
	amount []int64
	held   int64
}

func (n *naiveLedger) used(now time.Time) int64 {
	sum := n.held
	for i, t := range n.at {
		if now.Sub(t) < Window {
			sum += n.amount[i]
		}
	}
	return sum
}

// The ring counts everything that the exact log counts, and at most one slot
// more: it is safe at every instant and wastes no more than it must.
func TestI1_LedgerCoversEveryWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		slots := rapid.SampledFrom([]int{60, 120, 240, 600}).Draw(t, "slots")
		l := NewLedger(t0, 1_000_000, slots)
		var exact naiveLedger
		now := t0
		type booking struct {
			i    int
			slot int64
		}
		var live []booking
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(9*time.Second)).Draw(t, "dt")))
			l.Advance(now)
			switch rapid.IntRange(0, 3).Draw(t, "op") {
			case 0, 1:
				c := rapid.Int64Range(1, 5000).Draw(t, "c")
				live = append(live, booking{len(exact.at), l.Slot()})
				exact.at = append(exact.at, now)
				exact.amount = append(exact.amount, c)
				l.Book(c)
			case 2:
				if len(live) > 0 {
					b := live[rapid.IntRange(0, len(live)-1).Draw(t, "which")]
					d := rapid.Int64Range(0, exact.amount[b.i]).Draw(t, "refund")
					exact.amount[b.i] -= d
					l.Correct(b.slot, -d)
				}
			case 3:
				c := rapid.Int64Range(1, 100).Draw(t, "hold")
				exact.held += c
				l.Hold(c)
			}
			slot := Window / time.Duration(slots)
			if got, min := l.Used(), exact.used(now); got < min {
				t.Fatalf("ledger counts %d, the last minute holds %d", got, min)
			}
			if got, max := l.Used(), exact.used(now.Add(-slot)); got > max+sumSince(exact, now, slot) {
				t.Fatalf("ledger counts %d, more than one slot beyond the last minute (%d)", got, max)
			}
		}
	})
}

// sumSince is what was booked in the last d before now: exact.used of an
// earlier time does not know it yet, or knows it already.
func sumSince(n naiveLedger, now time.Time, d time.Duration) int64 {
	sum := int64(0)
	for i, t := range n.at {
		if now.Sub(t) <= d {
			sum += n.amount[i]
		}
	}
	return sum
}

func TestLedgerFreeAt(t *testing.T) {
	l := NewLedger(t0, 100, 60)
	l.Book(40)
	l.Advance(t0.Add(10 * time.Second))
	l.Book(60)

	for _, c := range []struct {
		cost  int64
		after time.Duration
	}{
		{0, 10 * time.Second},
		{1, 61 * time.Second},
		{40, 61 * time.Second},
		{41, 71 * time.Second},
		{100, 71 * time.Second},
	} {
		at, known := l.FreeAt(c.cost)
		if !known || at.Sub(t0) != c.after {
			t.Errorf("FreeAt(%d) = %v, %v; want %v", c.cost, at.Sub(t0), known, c.after)
		}
		l2 := *l
		l2.slots = append([]int64(nil), l.slots...)
		l2.Advance(at)
		if l2.Room() < c.cost {
			t.Errorf("FreeAt(%d): only %d free then", c.cost, l2.Room())
		}
	}
	if at := l.FullAt(); at.Sub(t0) != 71*time.Second {
		t.Errorf("FullAt = %v, want 71s", at.Sub(t0))
	}
	l.Hold(1)
	if _, known := l.FreeAt(100); known {
		t.Error("FreeAt promises a time while a hold of unknown length stands in the way")
	}
}

func TestLedgerTimeNeverRunsBack(t *testing.T) {
	l := NewLedger(t0, 100, 60)
	l.Advance(t0.Add(30 * time.Second))
	l.Book(10)
	l.Advance(t0)
	if l.Used() != 10 || l.Slot() != 30 {
		t.Fatalf("used %d in slot %d after a step back, want 10 in slot 30", l.Used(), l.Slot())
	}
}
