package budget

import (
	"fmt"
	"math/big"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var t0 = time.Date(2026, 3, 10, 9, 0, 0, 0, time.UTC)

type flight struct {
	member *twinMember
	hold   Hold
	period time.Time
	amount int64
}

// Any sequence of verbs keeps T1 and what Check can see, and every answer is
// the naive twin's, down to the µs of RetryAt.
//
// Seen failing with: the limit not checked; idle not recorded in lift; decay
// counted from before the first word; decay at half speed; nobody remembered, or
// forgotten after a silent period; the position by the old weight; reserved
// rounded down; RetryAt at the end, or rounded the other way; a threshold late
// in unspent; ties in the tree; sums not renewed in merge; a refund given, or an
// excess dropped, after its period; time that runs backwards; and of members
// that are removed: their use forgotten, shared again, or not given back.
func TestT1_AnySequenceAgreesWithTheNaiveTwin(t *testing.T) { rapid.Check(t, checkAgainstTwin) }

func checkAgainstTwin(t *rapid.T) {
	cfg := Config{
		Limit:   rapid.SampledFrom([]int64{0, 7, 100, 30_000, 20_000_000, MaxLimit}).Draw(t, "limit"),
		Period:  rapid.SampledFrom([]Period{Hour, Day, Week, Month}).Draw(t, "period"),
		NoDecay: rapid.Bool().Draw(t, "nodecay"),
	}
	weight := rapid.SampledFrom([]int64{1, 333, 1000, 4000, MaxWeight})
	s := NewSplit(cfg)
	w := &twin{cfg: cfg}
	now := t0
	n := rapid.IntRange(1, 9).Draw(t, "members")
	ids := make([]MemberID, n)
	for i := range n {
		w.members = append(w.members, &twinMember{})
		x := weight.Draw(t, "weight")
		ids[i] = s.Add(now, fmt.Sprint(i), x)
		w.add(now, w.members[i], x)
	}
	member := rapid.IntRange(0, n-1)
	part := rapid.IntRange(0, 1100)
	var flights []flight
	honest := true // no call took more than it held
	t.Repeat(map[string]func(*rapid.T){
		"hold": func(t *rapid.T) {
			i := member.Draw(t, "member")
			c := cfg.Limit/1000*int64(part.Draw(t, "thousandths"))/int64(n) + rapid.Int64Range(0, 9).Draw(t, "and")
			h, got := s.Hold(now, ids[i], c)
			if diff := cmp.Diff(w.hold(now, w.members[i], c), got); diff != "" {
				t.Fatalf("member %d asks for %d: twin -, split +\n%s", i, c, diff)
			}
			if got.OK {
				flights = append(flights, flight{w.members[i], h, w.start, c})
			}
		},
		"settle": func(t *rapid.T) {
			if len(flights) == 0 {
				t.Skip("nothing runs")
			}
			k := rapid.IntRange(0, len(flights)-1).Draw(t, "flight")
			f := flights[k]
			flights = append(flights[:k], flights[k+1:]...)
			actual := min(MaxLimit, f.amount/1000*int64(part.Draw(t, "took")))
			honest = honest && actual <= f.amount
			s.Settle(now, f.hold, actual)
			w.settle(now, f.member, f.amount, f.period, actual)
		},
		"time": func(t *rapid.T) {
			day := 24 * time.Hour
			now = now.Add(rapid.SampledFrom([]time.Duration{
				-time.Hour, time.Microsecond, time.Second, 11 * time.Minute, time.Hour, 7 * time.Hour, day, 9 * day,
			}).Draw(t, "step") * time.Duration(rapid.IntRange(1, 3).Draw(t, "times")))
		},
		"weigh": func(t *rapid.T) {
			i := member.Draw(t, "member")
			x := weight.Draw(t, "weight")
			if !w.members[i].gone {
				s.SetWeight(now, ids[i], x)
				w.setWeight(now, w.members[i], x)
			}
		},
		"come or go": func(t *rapid.T) {
			i := member.Draw(t, "member")
			x := weight.Draw(t, "weight")
			if w.members[i].gone {
				ids[i] = s.Add(now, fmt.Sprint(i), x)
				w.advance(now)
				if !w.members[i].added {
					w.members[i] = &twinMember{} // removed in an earlier period: somebody new
				}
				w.add(now, w.members[i], x)
				return
			}
			s.Remove(now, ids[i])
			w.advance(now)
			w.members[i].gone = true
		},
		"": func(t *rapid.T) {
			if err := s.Check(); err != nil {
				t.Fatal(err)
			}
			w.advance(now)
			used := s.Used(now)
			if used != w.total() {
				t.Fatalf("%d is used, the twin says %d", used, w.total())
			}
			if honest && used > cfg.Limit {
				t.Fatalf("T1: %d is used of %d", used, cfg.Limit)
			}
			for i := range ids {
				if !w.members[i].gone && s.UsedBy(now, ids[i]) != w.members[i].used {
					t.Fatalf("member %d used %d, the twin says %d", i, s.UsedBy(now, ids[i]), w.members[i].used)
				}
			}
		},
	})
}

// twin is the dumb second Split: no tree, no sums, no rounds. It looks at every
// member for every answer, and finds the time to retry by trying.
type twin struct {
	cfg             Config
	now, start, end time.Time
	from            time.Time
	members         []*twinMember
	others          int64 // used by who was removed in an earlier period
}

type twinMember struct {
	weight         int64
	present, asked bool
	gone, added    bool
	used, idle     int64
	pos            int64 // as of its last act
}

func (w *twin) advance(now time.Time) {
	if now.After(w.now) {
		w.now = now
	}
	if w.now.Before(w.end) {
		return
	}
	first := w.end.IsZero()
	w.start, w.end = w.cfg.Period.Bounds(w.now, w.cfg.Zone)
	w.from = w.start
	if first {
		w.from = w.now.Truncate(time.Microsecond)
	}
	w.others = 0
	any := false
	for _, m := range w.members {
		any = any || m.asked && !m.gone
	}
	for _, m := range w.members {
		if any {
			m.present = m.asked
		}
		m.asked = false
		m.used = 0
		m.idle = 0
		if m.gone {
			// its slot is given away
			m.present = false
			m.added = false
		}
	}
}

func (w *twin) span() int64 { return w.end.Sub(w.from).Microseconds() }

func (w *twin) clock() int64 {
	if w.cfg.NoDecay {
		return 0
	}
	return w.now.Sub(w.from).Microseconds()
}

func (w *twin) total() int64 {
	sum := w.others
	for _, m := range w.members {
		sum += m.used
	}
	return sum
}

func (w *twin) base() int64 {
	base := w.cfg.Limit - w.others
	for _, m := range w.members {
		if m.gone {
			base -= m.used
		}
	}
	return max(0, base)
}

func (w *twin) weights() int64 {
	sum := int64(0)
	for _, m := range w.members {
		if m.present && !m.gone {
			sum += m.weight
		}
	}
	return sum
}

func product(xs ...int64) *big.Int {
	p := big.NewInt(1)
	for _, x := range xs {
		p.Mul(p, big.NewInt(x))
	}
	return p
}

// position of m from its books: what it let pass and what its use is worth.
func (w *twin) position(m *twinMember) (spent, pos int64) {
	spent = w.span()
	if share := product(w.base(), m.weight); product(m.used, w.weights()).Cmp(share) < 0 {
		q := product(m.used, w.weights(), w.span())
		spent = q.Div(q, share).Int64()
	}
	return spent, min(w.span(), m.idle+spent)
}

func (w *twin) touch(m *twinMember) {
	m.present = true
	m.asked = true
	if spent, _ := w.position(m); m.idle+spent < w.clock() {
		m.idle = w.clock() - spent
	}
	_, m.pos = w.position(m)
}

// reserved for all but m at time t, rounded up.
func (w *twin) reserved(m *twinMember, t int64) int64 {
	sum := new(big.Int)
	for _, o := range w.members {
		if o == m || o.gone || !o.present {
			continue
		}
		pos := t
		if o.asked {
			pos = max(t, o.pos)
		}
		sum.Add(sum, product(w.base(), o.weight, w.span()-pos))
	}
	all := product(w.weights(), w.span())
	sum.Add(sum, all).Sub(sum, big.NewInt(1))
	return sum.Div(sum, all).Int64()
}

func (w *twin) hold(now time.Time, m *twinMember, c int64) Answer {
	w.advance(now)
	if m.gone {
		return Answer{}
	}
	w.touch(m)
	own := product(w.base(), m.weight, w.span()-m.pos)
	own.Div(own, product(w.weights(), w.span()))
	free := w.cfg.Limit - w.total()
	room := max(0, min(free, max(own.Int64(), free-w.reserved(m, w.clock()))))
	ans := Answer{Ceiling: m.used + room, Remaining: room}
	if c > room {
		ans.RetryAt = w.retryAt(m, c, free)
		return ans
	}
	m.used += c
	_, m.pos = w.position(m)
	ans.OK = true
	ans.Remaining = room - c
	return ans
}

func (w *twin) retryAt(m *twinMember, c, free int64) time.Time {
	if c > w.cfg.Limit {
		return time.Time{}
	}
	if c > free || w.cfg.NoDecay {
		return w.end
	}
	// refused at lo, admitted at hi
	lo := w.clock()
	hi := w.span()
	for hi-lo > 1 {
		if mid := lo + (hi-lo)/2; c <= free-w.reserved(m, mid) {
			hi = mid
		} else {
			lo = mid
		}
	}
	return w.from.Add(time.Duration(hi) * time.Microsecond)
}

func (w *twin) settle(now time.Time, m *twinMember, held int64, period time.Time, actual int64) {
	w.advance(now)
	d := actual - held
	if !period.Equal(w.start) {
		d = max(0, d)
	}
	switch {
	case d == 0:
	case !m.added:
		w.others += d
	case m.gone:
		m.used += d
		m.asked = true
	default:
		w.touch(m)
		m.used += d
		_, m.pos = w.position(m)
	}
}

func (w *twin) add(now time.Time, m *twinMember, weight int64) {
	w.advance(now)
	m.weight = weight
	m.gone = false
	m.added = true
	m.present = true
	if m.asked {
		_, m.pos = w.position(m)
	}
}

func (w *twin) setWeight(now time.Time, m *twinMember, weight int64) {
	w.advance(now)
	m.weight = weight
	if m.asked {
		_, m.pos = w.position(m)
	}
}

// crowd is a Split with members that are all there from the start.
type crowd struct {
	*Split
	now     time.Time
	ids     []MemberID
	weights []int64
	limit   int64
}

func newCrowd(t *rapid.T, noDecay bool) *crowd {
	w := &crowd{
		limit:   rapid.SampledFrom([]int64{1, 10, 999, 30_000, 5_000_000}).Draw(t, "limit"),
		weights: rapid.SliceOfN(rapid.Int64Range(1, 9000), 2, 7).Draw(t, "weights"),
	}
	w.now = time.Date(2026, 3, 10, 0, 0, 0, 0, time.UTC)
	w.Split = NewSplit(Config{Limit: w.limit, Period: rapid.SampledFrom([]Period{Hour, Day, Month}).Draw(t, "period"), NoDecay: noDecay})
	for i, weight := range w.weights {
		w.ids = append(w.ids, w.Add(w.now, fmt.Sprint(i), weight))
	}
	return w
}

// pass lets the given thousandths of the window that began with the crowd pass.
func (w *crowd) pass(thousandths int) {
	at := w.from.Add(w.ResetAt(w.now).Sub(w.from) / 1000 * time.Duration(thousandths))
	if at.After(w.now) {
		w.now = at
	}
}

// live has members ask, and calls end, some at a time, up to the given one.
func (w *crowd) live(t *rapid.T, until int) {
	var holds []Hold
	const steps = 40
	for k := range steps {
		w.pass(until * (k / 8) / (steps/8 - 1))
		i := rapid.IntRange(0, len(w.ids)-1).Draw(t, "member")
		if len(holds) > 0 && rapid.IntRange(0, 3).Draw(t, "settles") == 0 {
			h := holds[0]
			holds = holds[1:]
			w.Settle(w.now, h, rapid.Int64Range(0, h.Amount()).Draw(t, "actual"))
			continue
		}
		// As much as there is, or a part of it.
		_, ans := w.Split.Hold(w.now, w.ids[i], 0)
		c := ans.Remaining / rapid.SampledFrom([]int64{1, 1, 1, 2, 4}).Draw(t, "part")
		if h, ans := w.Split.Hold(w.now, w.ids[i], c); ans.OK {
			holds = append(holds, h)
		} else {
			t.Fatalf("member %d was told that %d remain and refused %d", i, ans.Remaining, c)
		}
	}
	w.pass(until)
}

// promised is T2's bound, rounded down: the part of a share that is still
// ahead, less what its member has used.
func (w *crowd) promised(i int) int64 {
	sum := int64(0)
	for _, x := range w.weights {
		sum += x
	}
	num := product(w.limit, w.weights[i], w.asked.span-w.clock())
	num.Div(num, product(sum, w.asked.span))
	return max(0, num.Int64()-w.UsedBy(w.now, w.ids[i]))
}

// T2: whatever the others have done, a member can take what is left of its
// share after the part of the window that has passed; and so can all of them,
// one after the other, at the same instant.
//
// Seen failing with: positions that remember use only (the earlier reserve: who
// comes back first collects from who comes back second); reserved without the
// quiet members; claims without weights; merge without sums; admission of all
// that is free.
func TestT2_EveryMemberKeepsTheShareAhead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newCrowd(t, rapid.Bool().Draw(t, "nodecay"))
		w.live(t, rapid.IntRange(0, 999).Draw(t, "until"))
		for _, i := range rapid.Permutation(indices(w.ids)).Draw(t, "order") {
			c := w.promised(i)
			if _, ans := w.Split.Hold(w.now, w.ids[i], c); !ans.OK {
				t.Fatalf("T2: member %d was refused %d: %d used of %d, ceiling %d", i, c, w.Used(w.now), w.limit, ans.Ceiling)
			}
		}
	})
}

// T3: when members ask to the end of the period and calls are no larger than
// one, the limit is used but for less than one call.
//
// Seen failing with: no borrowing beyond a member's own share; the clock of decay
// at half speed.
func TestT3_BackloggedMembersUseTheWholeLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newCrowd(t, false)
		most := rapid.Int64Range(1+w.limit/100, 1+w.limit/15).Draw(t, "largest call")
		backlogged := rapid.IntRange(1, len(w.ids)).Draw(t, "backlogged") // the rest is quiet
		w.backlog(t, backlogged, most, []int{0, 1, 100, 300, 600, 900, 999})
		w.now = w.ResetAt(w.now).Add(-time.Microsecond)
		w.backlog(t, backlogged, most, []int{1000})
		if left := w.limit - w.Used(w.now); left > most {
			t.Fatalf("T3: %d are left of %d with calls of at most %d", left, w.limit, most)
		}
	})
}

// backlog has the first members ask at the given times, in turn, until each has
// been refused.
func (w *crowd) backlog(t *rapid.T, members int, most int64, times []int) {
	size := rapid.Int64Range(1, most)
	for _, at := range times {
		w.pass(min(at, 999))
		for _, i := range rapid.Permutation(indices(w.ids[:members])).Draw(t, "order") {
			for {
				if _, ans := w.Split.Hold(w.now, w.ids[i], size.Draw(t, "call")); !ans.OK {
					break
				}
			}
		}
	}
}

// T4: without decay, members that ask all along differ in use over weight by
// at most their largest calls, whoever asks first and most.
//
// Seen failing with: claims without weights; admission of all that is free;
// reserved without the quiet members; merge without sums.
func TestT4_BackloggedMembersAreFair(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newCrowd(t, true)
		most := rapid.Int64Range(1+w.limit/100, 1+w.limit/15).Draw(t, "largest call")
		n := rapid.IntRange(2, len(w.ids)).Draw(t, "backlogged")
		w.backlog(t, n, most, []int{0, 500})
		for i := range n {
			for j := range i {
				ui := w.UsedBy(w.now, w.ids[i])
				uj := w.UsedBy(w.now, w.ids[j])
				// |ui/wi - uj/wj| ≤ most (1/wi + 1/wj), times wi wj.
				diff := new(big.Int).Sub(product(ui, w.weights[j]), product(uj, w.weights[i]))
				if diff.Abs(diff).Cmp(product(most, w.weights[i]+w.weights[j])) > 0 {
					t.Fatalf("T4: %d used %d at weight %d, %d used %d at weight %d, largest call %d",
						i, ui, w.weights[i], j, uj, w.weights[j], most)
				}
			}
		}
	})
}

// RetryAt is exact: with nobody else about, the call is admitted then and not a
// microsecond before.
//
// Seen failing with: earliest rounded the other way; reserved rounded down; the
// clock of decay at half speed. (RetryAt always at the end of the period, the
// earlier rule, fails the twin and the step tests.)
func TestRetryAtIsTheEarliestTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newCrowd(t, false)
		w.live(t, rapid.IntRange(0, 999).Draw(t, "until"))
		i := rapid.IntRange(0, len(w.ids)-1).Draw(t, "member")
		c := rapid.Int64Range(1, w.limit).Draw(t, "call")
		_, ans := w.Split.Hold(w.now, w.ids[i], c)
		if ans.OK {
			t.Skip("admitted at once")
		}
		if !ans.RetryAt.After(w.now) || ans.RetryAt.After(w.ResetAt(w.now)) {
			t.Fatalf("RetryAt is %v, now is %v", ans.RetryAt, w.now)
		}
		if ans.RetryAt.Equal(w.ResetAt(w.now)) {
			return
		}
		if before := ans.RetryAt.Add(-time.Microsecond); before.After(w.now) {
			if _, early := w.Split.Hold(before, w.ids[i], c); early.OK {
				t.Fatalf("admitted before %v, at %v", ans.RetryAt, before)
			}
		}
		if _, then := w.Split.Hold(ans.RetryAt, w.ids[i], c); !then.OK {
			t.Fatalf("refused at its own RetryAt %v, next %v", ans.RetryAt, then.RetryAt)
		}
	})
}

func indices[T any](xs []T) []int {
	var is []int
	for i := range xs {
		is = append(is, i)
	}
	return is
}
