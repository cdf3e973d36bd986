package budget

import (
	"math/big"
	"time"
)

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
