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
