package governor

import (
	"slices"
	"sync"
	"time"

	"github.com/llmgov/llmgov/escrow"
)

// The rolling axes of own limits, and how finely their minute is cut.
const (
	ownRequests = iota
	ownTokens
	ownInput
	ownOutput
	ownAxes

	ownSlots = 120

	// capAxis is the axis of a call that waits for a part of a budget.
	capAxis = ownAxes + 1
)

// ownAxisName names the rolling axes.
var ownAxisName = [ownAxes]string{axisRequests, axisTokens, axisInput, axisOutput}

// ownCost is what a call takes of own limits, by rolling axis.
type ownCost [ownAxes]int64

// quota is the running state of one set of own limits, a tenant's over all pools or in one of them:
// what counts against them, and which calls wait for them.
type quota struct {
	owner, pool string // whose limits, and in which pool; "" is over all

	mu          sync.Mutex
	ledgers     [ownAxes]*escrow.Ledger // nil = no such limit
	concurrency int64                   // 0 = no limit
	running     int64
	// limits are the whole limits, as configured, by axis. This process may use its ledgers' own limits
	// of these, and slots of concurrency: all of them, or its part.
	limits [ownAxes]int64
	slots  int64
	common *common // nil = nobody else counts against the limits
	line   line
	bound  int     // how many may wait in line
	due    ownCost // what all that is held is expected to give back
	ratio  float64 // tokens that calls take of those they declare, smoothed
	// meanRun is how long calls run, as a moving average; 0 before the first has ended.
	meanRun time.Duration
	caps    []*account // a tenant's budgets, where the quota is over all pools
}

// quotaHold is a call's cost as it stands in a quota: booked in a slot of each ledger or, while the
// call waits elsewhere, held.
type quotaHold struct {
	cost    ownCost
	due     ownCost // what of it is expected to be given back
	slot    [ownAxes]int64
	ledgers [ownAxes]*escrow.Ledger // that it stands in; a reload may have replaced them in the quota
	booked  bool
}

// newQuota makes a quota without limits. all is nil where it is not kept together with other
// processes.
func newQuota(owner, pool string, all *commons) *quota {
	q := &quota{owner: owner, pool: pool, ratio: 1}
	if all != nil {
		q.common = &common{all: all}
		q.common.handle.q = q
	}
	return q
}

// configure changes the limits while calls run and wait. What was used counts on; a new limit
// begins with nothing used.
func (q *quota) configure(now time.Time, l Limits, bound int, by calledBy) {
	q.mu.Lock()
	if q.common != nil {
		q.common.calledBy = by
	}
	q.limits = [ownAxes]int64{l.RPM, l.TPM, l.ITPM, l.OTPM}
	for k, limit := range q.limits {
		switch {
		case limit == 0:
			q.ledgers[k] = nil
		case q.ledgers[k] == nil:
			q.ledgers[k] = escrow.NewLedger(now, limit, ownSlots)
		}
	}
	q.concurrency = l.Concurrency
	q.bound = bound
	q.limitLocked()
	for _, w := range q.line.calls {
		q.line.resize(w, q.clipLocked(w.asked))
	}
	q.line.wakeNext() // the first in line may fit now
	q.mu.Unlock()
}

func (q *quota) advanceLocked(now time.Time) {
	for _, l := range q.ledgers {
		if l != nil {
			l.Advance(now)
		}
	}
	if q.common != nil {
		q.expireLocked(now)
	}
}

// clipLocked cuts a cost to the limits. A call that exceeds one goes when nothing else uses the
// limit, and what it really takes beyond it is debt.
func (q *quota) clipLocked(c ownCost) ownCost {
	for k, l := range q.ledgers {
		if l != nil {
			c[k] = min(c[k], q.limits[k])
		}
	}
	return c
}

// fitsLocked reports whether c fits every limit. If not, axis is the first that it lacks: an index
// of ledgers, ownAxes for calls at once, or capAxis for a part of a budget.
func (q *quota) fitsLocked(c ownCost) (axis int, ok bool) {
	for k, l := range q.ledgers {
		if l != nil && l.Room() < c[k] {
			return k, false
		}
	}
	if q.concurrency > 0 && q.running >= q.slots {
		return ownAxes, false
	}
	if slices.ContainsFunc(q.caps, (*account).wantsPart) {
		return capAxis, false
	}
	return ownAxes, true
}

// lackingLocked is the axis that keeps c waiting: one that c itself lacks, or one that the first
// call in line lacks.
func (q *quota) lackingLocked(c ownCost) int {
	axis, fits := q.fitsLocked(c)
	if first := q.line.first(); fits && first != nil {
		axis, fits = q.fitsLocked(first.cost)
	}
	if fits && q.concurrency == 0 {
		// The first in line has been woken but has not run yet. It lacks nothing any more, but
		// some limit made it wait; ownAxes if that limit is gone.
		axis = slices.IndexFunc(q.ledgers[:], func(l *escrow.Ledger) bool { return l != nil })
		if axis < 0 {
			axis = ownAxes
		}
	}
	return axis
}

func (q *quota) bookLocked(c ownCost) quotaHold {
	q.noteBookedLocked(c)
	return q.countLocked(c)
}

func (q *quota) countLocked(c ownCost) quotaHold {
	h := quotaHold{cost: c, ledgers: q.ledgers, booked: true}
	for k, l := range q.ledgers {
		if l != nil {
			l.Book(c[k])
			h.slot[k] = l.Slot()
		}
		if k == ownTokens || k == ownOutput {
			h.due[k] = int64(float64(c[k]) * max(0, 1-q.ratio))
			q.due[k] += h.due[k]
		}
	}
	q.running++
	return h
}

// suspend turns a booking into a hold, which counts at any time, while its call waits elsewhere.
func (q *quota) suspend(now time.Time, h *quotaHold) {
	if !h.booked {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.advanceLocked(now)
	for k, l := range h.ledgers {
		if l != nil {
			l.Correct(h.slot[k], -h.cost[k])
			l.Hold(h.cost[k])
		}
	}
	h.booked = false
}

// resume books a hold as of now, when its call starts.
func (q *quota) resume(now time.Time, h *quotaHold) {
	if h.booked {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.advanceLocked(now)
	for k, l := range h.ledgers {
		if l != nil {
			l.Drop(h.cost[k])
			l.Book(h.cost[k])
			h.slot[k] = l.Slot()
		}
	}
	h.booked = true
	q.line.wakeNext() // now it can be known when this leaves the minute
}

// leaveLocked replaces a call's hold by what it really took. ran is 0 for a call that never ran,
// from which nothing is learned.
func (q *quota) leaveLocked(now time.Time, h *quotaHold, actual ownCost, ran time.Duration) {
	q.advanceLocked(now)
	for k, l := range h.ledgers {
		q.due[k] -= h.due[k]
		switch {
		case l == nil:
		case h.booked:
			l.Correct(h.slot[k], actual[k]-h.cost[k])
		default:
			l.Drop(h.cost[k])
			l.Book(actual[k])
		}
	}
	q.running--
	if ran > 0 {
		q.learnLocked(h.cost, actual, ran)
	}
}

// learnLocked learns from a call, for predictions.
func (q *quota) learnLocked(held, actual ownCost, ran time.Duration) {
	if q.meanRun == 0 {
		q.meanRun = ran
	}
	q.meanRun += (ran - q.meanRun) / 8
	if held[ownTokens] > 0 {
		q.ratio += (min(1, float64(actual[ownTokens])/float64(held[ownTokens])) - q.ratio) / 16
	}
}

// idle reports whether no call runs or waits, and nothing that was used of a budget counts any
// more.
func (q *quota) idle(now time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.running == 0 && len(q.line.calls) == 0 && unused(now, q.caps)
}
