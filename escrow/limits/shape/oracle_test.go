package shape

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// use is an amount that was used at a time. booked is what it was booked at, and slot where.
type use struct {
	at             time.Time
	amount, booked int64
	slot           int64
	settled        bool
}

// counted is how much counts of all uses: the naive account, which remembers every one of them.
func counted(r Rule, now time.Time, uses []use) float64 {
	switch {
	case r.Kind.Bucket():
		return inBucket(r, now, uses)
	case r.Kind == Fixed:
		start := now.UnixMilli() / r.Per.Milliseconds() * r.Per.Milliseconds()
		return sum(uses, time.UnixMilli(start).Add(-1))
	}
	return sum(uses, now.Add(-r.Per))
}

// sum adds up what was used after a time.
func sum(uses []use, since time.Time) (n float64) {
	for _, u := range uses {
		if u.at.After(since) {
			n += float64(u.amount)
		}
	}
	return n
}

// inBucket is how much is in a bucket, by the definition: the most by which what came in since any time exceeds what has
// flowed out since then.
func inBucket(r Rule, now time.Time, uses []use) (most float64) {
	rate := float64(r.Amount) / float64(r.Per)
	all := 0.0
	for _, u := range slices.Backward(uses) {
		all += float64(u.amount)
		most = max(most, all-rate*float64(now.Sub(u.at)))
	}
	return most
}

// A refund of a booking that a bucket has forgotten, because so many came since, does nothing.
func TestBucket_ForgetsOldBookings(t *testing.T) {
	r := Rule{Kind: TokenBucket, Amount: 1000, Per: time.Minute}
	a := New(begin, r)
	now := begin
	a.Book(30)
	first := a.Slot()
	for range inflows {
		now = now.Add(r.Per / 30)
		a.Advance(now)
		a.Book(33)
	}
	before := a.Used()
	a.Correct(first, -30)
	if a.Used() != before || before < 33 {
		t.Errorf("%d were counted, and %d after the refund", before, a.Used())
	}
	a.Correct(a.Slot(), -33)
	if a.Used() != before-33 {
		t.Errorf("%d are counted after the refund of 33 of %d", a.Used(), before)
	}
}

// A bucket drains for ever, and what was in it is forgotten, also after so long that its count of grains began anew many times.
func TestBucket_LongRun(t *testing.T) {
	r := Rule{Kind: TokenBucket, Amount: 1_000_000_000, Per: time.Minute}
	for _, pause := range []time.Duration{time.Minute, 30 * time.Hour, 1000 * time.Hour} {
		for pauses := range 20 {
			a := New(begin, r)
			now := begin
			a.Book(r.Amount / 2)
			for range pauses {
				now = now.Add(pause)
				a.Advance(now)
			}
			before := a.Used()
			a.Book(1000)
			if a.Used() != before+1000 {
				t.Fatalf("after %d times %v %d are counted of 1000", pauses, pause, a.Used()-before)
			}
			a.Advance(now.Add(r.Per + time.Second))
			if a.Used() != 0 {
				t.Fatalf("after %d times %v and a minute %d are counted still", pauses, pause, a.Used())
			}
		}
	}
}

// A bucket of which a part may be used drains at that rate, however often it is said.
func TestBucket_SameLimitOften(t *testing.T) {
	r := Rule{Kind: TokenBucket, Amount: 1, Per: 24 * time.Hour, Burst: 31}
	once := newBucket(begin, r)
	often := newBucket(begin, r)
	once.SetLimit(10)
	for now := begin; now.Sub(begin) < time.Hour; now = now.Add(r.Per / time.Duration(grain)) {
		often.Advance(now)
		often.SetLimit(10)
		once.Advance(now)
	}
	if often.clock() != once.clock() {
		t.Errorf("%d grains could flow out, not %d", often.clock(), once.clock())
	}
}

// However much calls take beyond what they booked, it counts as no less, and ends at some time.
func TestAccount_LargeDebt(t *testing.T) {
	for _, r := range []Rule{
		{Kind: TokenBucket, Amount: escrow.MaxLimit, Per: time.Second},
		{Kind: GCRA, Amount: 1, Per: MaxPer},
		{Kind: Rolling, Amount: escrow.MaxLimit, Per: time.Second},
		{Kind: Fixed, Amount: 1, Per: MaxPer},
	} {
		a := New(begin, r)
		for range 30 {
			before := a.Used()
			a.Book(1)
			a.Correct(a.Slot(), 1000*escrow.MaxLimit)
			if a.Used() < before || a.Room() > 0 {
				t.Fatalf("%+v: %d are counted, before %d; room is %d", r, a.Used(), before, a.Room())
			}
		}
		if at := a.FullAt(); !at.After(begin) || at.After(begin.Add(2*MaxPer)) {
			t.Errorf("%+v: all is free at %v", r, at)
		}
	}
}

// Calls that take ten times what they were booked at use no more than the limit over time, whatever its shape.
func TestAccount_DebtIsPaid(t *testing.T) {
	for _, r := range []Rule{
		{Kind: Rolling, Amount: 100, Per: time.Minute},
		{Kind: Fixed, Amount: 100, Per: 7 * time.Second},
		{Kind: TokenBucket, Amount: 100, Per: time.Minute},
		{Kind: Rolling, Amount: 3, Per: time.Second},
	} {
		const windows = 200
		a := New(begin, r)
		used := int64(0)
		for at := begin; at.Before(begin.Add(windows * r.Per)); at = at.Add(r.Per / 9) {
			a.Advance(at)
			if n := a.Room(); n > 0 {
				a.Book(n)
				a.Correct(a.Slot(), 9*n)
				used += 10 * n
			}
		}
		if low, most := windows*r.Amount*9/10, (windows+11)*r.Amount; used < low || used > most {
			t.Errorf("%+v: %d is used in %d windows", r, used, windows)
		}
		end := a.FullAt()
		a.Advance(end.Add(r.Per / Slots))
		if a.Used() > 0 {
			t.Errorf("%+v: %d counts when all should be free", r, a.Used())
		}
	}
}

// A caller whose one call takes more than the limit is shut out for as long as that takes at the limit's rate, and not for a
// window more. An account of another process that is told of the debt counts it as long.
//
// Seen to fail with: debt that is booked as there is room.
func TestAccount_OneLongAnswer(t *testing.T) {
	for _, took := range []int64{100, 133, 150, 199, 270, 1117} {
		for _, r := range []Rule{{Kind: Rolling, Amount: 100, Per: time.Minute}, {Kind: TokenBucket, Amount: 100, Per: time.Minute}, {Kind: Fixed, Amount: 100, Per: time.Minute}} {
			now := begin.Truncate(r.Per)
			a := New(now, r)
			a.Book(60)
			a.Correct(a.Slot(), took-60)
			due := now.Add(r.Per * time.Duration(took) / 100)
			slack := 3 * r.Per / Slots
			if r.Kind == Fixed {
				due = now.Add((due.Sub(now) + r.Per - 1).Truncate(r.Per)) // the end of a window
			}
			free, known := a.FreeAt(100)
			if late := free.Sub(due); !known || late < 0 || late > slack {
				t.Errorf("%+v: after %d there is room for all at %v, want %v", r, took, free.Sub(now), due.Sub(now))
			}
			now = now.Add(r.Per / 3)
			a.Advance(now)
			b := New(now, r)
			for _, x := range a.Bookings() {
				if x.Owed {
					b.Owe(x.At, x.Amount)
				} else {
					b.BookAt(x.At, x.Amount)
				}
			}
			a.Advance(free)
			b.Advance(free.Add(r.Per / 20))
			if a.Room() < 100 || b.Room() < 100 {
				t.Errorf("%+v: after %d there is room for %d, in another process for %d", r, took, a.Room(), b.Room())
			}
		}
	}
}

// GCRA lets calls go one by one, at its pace exactly; a token bucket all that it saved up, and then at its rate.
func TestBucket_Pace(t *testing.T) {
	for _, x := range []struct {
		rule Rule
		want int // calls that go within four times Per
	}{
		{Rule{Kind: GCRA, Amount: 10, Per: 30 * time.Second}, 1 + 40},
		{Rule{Kind: TokenBucket, Amount: 10, Per: 30 * time.Second}, 10 + 40},
		{Rule{Kind: TokenBucket, Amount: 10, Per: 30 * time.Second, Burst: 25}, 25 + 40},
		{Rule{Kind: Fixed, Amount: 10, Per: 30 * time.Second}, 10 + 40},
		{Rule{Kind: Rolling, Amount: 10, Per: 30 * time.Second}, 40}, // the fifth ten come a slot later
	} {
		a := New(begin, x.rule)
		got := 0
		end := begin.Add(4*x.rule.Per + 10*time.Millisecond)
		for at := begin; !at.After(end); at, _ = a.FreeAt(1) {
			a.Advance(at)
			if a.Room() >= 1 {
				a.Book(1)
				got++
			}
		}
		if got != x.want {
			t.Errorf("%+v: %d calls in %v, want %d", x.rule, got, 4*x.rule.Per, x.want)
		}
	}
}

func draw(t *rapid.T) Rule {
	r := Rule{
		Kind:   Kind(rapid.IntRange(0, int(GCRA)).Draw(t, "kind")),
		Amount: rapid.SampledFrom([]int64{1, 3, 10, 100, 60_000, 2_000_000}).Draw(t, "amount"),
		Per:    rapid.SampledFrom([]time.Duration{time.Second, 7 * time.Second, 30 * time.Second, time.Minute, 5 * time.Hour}).Draw(t, "per"),
	}
	if r.Kind.Bucket() {
		r.Burst = rapid.SampledFrom([]int64{0, 1, r.Amount / 3, r.Amount * 3}).Draw(t, "burst")
	}
	testkit.OK(t, r.Validate())
	return r
}

var begin = time.UnixMilli(1_000_000_000_000)

// machine drives an account, and remembers all that it did.
type machine struct {
	*rapid.T
	r      Rule
	a      Account
	now    time.Time
	uses   []use
	held   int64
	inDebt bool // a refund of it may come too late
	owed   bool // there has been debt that drains
}

// Every account counts what the naive one does, and no more than a slot's worth beyond it.
func TestAccount_CountsLikeTheOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &machine{T: t, r: draw(t), now: begin}
		m.a = New(m.now, m.r)
		for range rapid.IntRange(0, 3).Draw(t, "of an earlier process") {
			m.remember()
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			steps := []func(){m.pass, m.pass, m.book, m.book, m.settle, m.hold, m.fits}
			steps[rapid.IntRange(0, len(steps)-1).Draw(t, "step")]()
			m.check()
		}
	})
}

// remember books what was used in the past, in any order.
func (m *machine) remember() {
	ago := time.Duration(rapid.Float64Range(0, 1.5).Draw(m.T, "ago") * float64(m.r.Window()))
	n := rapid.Int64Range(1, m.r.Capacity()).Draw(m.T, "amount")
	m.a.BookAt(m.now.Add(-ago), n)
	m.uses = append(m.uses, use{at: m.now.Add(-ago), amount: n, settled: true})
	slices.SortFunc(m.uses, func(a, b use) int { return a.at.Compare(b.at) })
	m.inDebt = true // it may be more than the limit
}

func (m *machine) pass() {
	part := rapid.SampledFrom([]float64{0.0001, 0.003, 0.01, 0.1, 0.7, 1.5}).Draw(m.T, "part of the window")
	m.now = m.now.Add(time.Duration(part * float64(m.r.Window())))
	m.a.Advance(m.now)
}

// book books what fits.
func (m *machine) book() {
	room := m.a.Room()
	if room <= 0 {
		return
	}
	n := rapid.Int64Range(1, room).Draw(m.T, "amount")
	m.a.Book(n)
	m.uses = append(m.uses, use{at: m.now, amount: n, booked: n, slot: m.a.Slot()})
}

// settle ends a call, which took more or less than it was booked at.
func (m *machine) settle() {
	if len(m.uses) == 0 {
		return
	}
	u := &m.uses[rapid.IntRange(0, len(m.uses)-1).Draw(m.T, "call")]
	if u.settled {
		return
	}
	u.settled = true
	actual := rapid.Int64Range(0, 4*u.booked).Draw(m.T, "actual")
	m.a.Correct(u.slot, actual-u.booked)
	if actual <= u.booked {
		u.amount = actual
		return
	}
	m.inDebt = true
	m.uses = append(m.uses, use{at: m.now, amount: actual - u.booked, settled: true})
}

func (m *machine) hold() {
	m.a.Drop(m.held)
	m.held = rapid.Int64Range(0, m.r.Capacity()).Draw(m.T, "held")
	m.a.Hold(m.held)
	m.inDebt = m.inDebt || m.a.Room() < 0
}

// fits tries whether there is room when the account says.
func (m *machine) fits() {
	n := rapid.Int64Range(1, m.r.Capacity()).Draw(m.T, "wanted")
	at, known := m.a.FreeAt(n)
	switch {
	case m.a.Room() >= n:
		if !known || at.After(m.now) {
			m.Fatalf("%+v: %d fits, but only at %v", m.r, n, at.Sub(begin))
		}
	case known != (m.held+n <= m.r.Capacity()):
		m.Fatalf("%+v: %d of it held, known when %d fits: %t", m.r, m.held, n, known)
	case known && !at.After(m.now):
		m.Fatalf("%+v: %d does not fit at %v, but should since %v", m.r, n, m.now, at)
	case known:
		m.now = at
		m.a.Advance(at)
		if m.a.Room() < n {
			m.Fatalf("%+v: room for %d, and not for %d as it said", m.r, m.a.Room(), n)
		}
	}
}

func (m *machine) check() {
	got := float64(m.a.Used() - m.held)
	want := counted(m.r, m.now, m.uses)
	if p, ok := m.a.(*paid); ok && m.r.Kind == Rolling {
		if m.owed = m.owed || p.owed > 0; m.owed {
			own := slices.DeleteFunc(slices.Clone(m.uses), func(u use) bool { return !u.at.After(begin) }) // what is remembered makes no debt
			want = inBucket(m.r, m.now, own)
		}
	}
	if got < want-1e-3 {
		m.Fatalf("%+v: %v is counted at %v, less than %v", m.r, got, m.now.Sub(begin), want)
	}
	if m.inDebt {
		return // of debt a refund may come too late
	}
	most := want
	switch {
	case m.r.Kind.Bucket():
		most = math.Ceil(want + float64(m.r.Capacity())/perBucket + 2*float64(m.r.Amount)/float64(grain) + 0.01) // two ticks for rounding
	case m.r.Kind == Rolling:
		most = sum(m.uses, m.now.Add(-m.r.Per-2*m.r.Per/Slots))
	}
	if got > most+1e-3 {
		m.Fatalf("%+v: %v is counted at %v, more than %v", m.r, got, m.now.Sub(begin), most)
	}
}

// process is one of those that share a limit.
type process struct {
	a    Account
	part int64
	gone time.Time // since when it is gone
}

// Whatever parts several processes have of a limit, as long as they are no more than there is together, no more is used than one
// account for all of them would let go; also if some of them are gone, and their parts given to others a Window later.
func TestAccount_PartsAreNoMoreThanOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := draw(t)
		now := begin
		var all []*process
		var uses []use
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0:
				now = now.Add(time.Duration(rapid.SampledFrom([]float64{0.001, 0.02, 0.3, 1.2}).Draw(t, "pass") * float64(r.Window())))
				all = slices.DeleteFunc(all, func(p *process) bool { return !p.gone.IsZero() && now.After(p.gone.Add(r.Window())) })
			case 1:
				all = divide(t, r, now, all)
			case 2, 3, 4:
				if p := pick(t, all); p != nil && p.gone.IsZero() && p.a.Room() > 0 {
					n := p.a.Room()
					if rapid.Bool().Draw(t, "part of it") {
						n = rapid.Int64Range(1, n).Draw(t, "amount")
					}
					p.a.Book(n)
					uses = append(uses, use{at: now, amount: n})
				}
			case 5:
				if p := pick(t, all); p != nil && rapid.Bool().Draw(t, "goes") && p.gone.IsZero() {
					p.gone = now
				}
			}
			for _, p := range all {
				if p.gone.IsZero() {
					p.a.Advance(now)
				}
			}
			if used := counted(r, now, uses); used > float64(r.Capacity())+1e-3 {
				t.Fatalf("%+v: %v is used at %v by %d processes", r, used, now.Sub(begin), len(all))
			}
		}
	})
}

func pick(t *rapid.T, all []*process) *process {
	if len(all) == 0 {
		return nil
	}
	return all[rapid.IntRange(0, len(all)-1).Draw(t, "process")]
}

// divide changes a part, or adds a process. Nobody gets what others have or have used.
func divide(t *rapid.T, r Rule, now time.Time, all []*process) []*process {
	p := pick(t, all)
	if p == nil || len(all) < 4 && rapid.Bool().Draw(t, "comes") {
		p = &process{a: New(now, r)}
		p.a.SetLimit(0)
		all = append(all, p)
	}
	if !p.gone.IsZero() {
		return all
	}
	free := r.Capacity()
	for _, o := range all {
		if o == p {
			continue
		}
		free -= max(o.part, o.a.Used())
	}
	p.part = rapid.Int64Range(0, max(0, free)).Draw(t, "part")
	p.a.SetLimit(p.part)
	return all
}

// TestBucket_Lowered: a bucket that becomes smaller is no more than full, so that it takes calls again as soon as its new rate says. What
// it owed beyond its size is owed still, and another process's part is not taken for debt.
func TestBucket_Lowered(t *testing.T) {
	now := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
	large := Rule{Kind: TokenBucket, Amount: 60_000, Per: time.Minute, Burst: 300_000}
	small := Rule{Kind: TokenBucket, Amount: 600, Per: time.Minute}
	for what, c := range map[string]struct {
		booked, usable int64 // of the large one
		used           int64 // of the small one
		waits          time.Duration
	}{
		"less than the small one holds": {100, 300_000, 100, 0},
		"more":                          {200_000, 300_000, 600, time.Second},
		"full":                          {300_000, 300_000, 600, time.Second},
		"in debt":                       {300_050, 300_000, 650, 6 * time.Second},
		"half of it used elsewhere":     {150_000, 150_000, 300, time.Second * 2},
		"nothing usable here":           {1_000, 0, 1_000, 0},
	} {
		a := New(now, large)
		a.SetLimit(c.usable)
		a.Book(c.booked)
		a.Reshape(small)
		a.SetLimit(c.usable / 500)
		a.Advance(now.Add(time.Millisecond))
		if used := a.Used(); used != c.used {
			t.Errorf("%s: %d are used, want %d", what, used, c.used)
		}
		if c.usable == 0 {
			continue
		}
		at, known := a.FreeAt(10)
		if late := at.Sub(now) - c.waits; !known || late < -10*time.Millisecond || late > 100*time.Millisecond {
			t.Errorf("%s: there is room for 10 after %v, want %v", what, at.Sub(now), c.waits)
		}
	}
}

// TestBucket_LoweredRefund: calls in flight that give something back after that give it back of what they were booked at: as much as the
// smaller bucket holds is left of the others. What comes later counts whole, and a larger bucket keeps what is in it.
func TestBucket_LoweredRefund(t *testing.T) {
	now := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
	rule := func(burst int64) Rule { return Rule{Kind: TokenBucket, Amount: 60, Per: time.Minute, Burst: burst} }
	a := New(now, rule(1000))
	a.Book(400)
	slot := a.Slot()
	a.Book(500)
	a.Reshape(rule(100))
	a.Correct(slot, -400)
	if used := a.Used(); used != 100 {
		t.Errorf("after a refund %d are used, want 100: 500 of 900 were, and it holds no more", used)
	}
	a.Book(30)
	used := a.Used()
	if used != 130 {
		t.Errorf("after another booking %d are used, want 130", used)
	}
	a.Reshape(rule(1000))
	if got := a.Used(); got != used {
		t.Errorf("in a larger bucket %d are used, of %d before", got, used)
	}
}

// TestBookings: an account that is told what another one has booked counts as much at any time after, and nothing for longer than a twentieth of the
// window more.
func TestBookings(t *testing.T) {
	const per = time.Hour
	for _, kind := range []Kind{Rolling, Fixed, TokenBucket} {
		for seed := range uint64(30) {
			rng := rand.New(rand.NewPCG(seed, 8))
			now := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
			rule := Rule{Kind: kind, Amount: 1000, Per: per}
			before := New(now, rule)
			for range 100 {
				now = now.Add(time.Duration(rng.Int64N(int64(2 * time.Minute))))
				before.Advance(now)
				before.Book(min(before.Room(), rng.Int64N(60)))
			}
			list := before.Bookings()
			if len(list) > Slots/together+1 {
				t.Errorf("%v: %d bookings", kind, len(list))
			}
			now = now.Add(time.Duration(rng.Int64N(int64(time.Minute))))
			after := New(now, rule)
			for _, b := range list {
				after.BookAt(b.At, b.Amount)
			}
			for range 60 {
				before.Advance(now)
				after.Advance(now)
				if after.Used() < before.Used() {
					t.Fatalf("%v, seed %d: %d are used, want %d at least", kind, seed, after.Used(), before.Used())
				}
				now = now.Add(time.Minute)
			}
			now = now.Add(per / 20)
			after.Advance(now)
			if after.Used() > 0 && kind != TokenBucket {
				t.Errorf("%v, seed %d: %d are used when nothing counts any more", kind, seed, after.Used())
			}
		}
	}
}
