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

	// capAxis is what a call lacks that waits for the part of a budget.
	capAxis = ownAxes + 1
)

var ownAxisName = [ownAxes]string{axisRequests, axisTokens, axisInput, axisOutput}

// ownCost is what a call takes of own limits.
type ownCost [ownAxes]int64

// quota is the running state of one set of own limits, a tenant's over all pools or
// in one of them: what counts against them, and the calls that wait for them.
type quota struct {
	owner, pool string // whose, and in which pool; empty for all

	mu          sync.Mutex
	ledgers     [ownAxes]*escrow.Ledger // nil = no such limit
	concurrency int64                   // 0 = no limit
	running     int64
	// What of the limits may be had here: all, or a part. A ledger's own limit is that.
	limits  [ownAxes]int64
	slots   int64
	common  *common // nil = the process is alone
	line    line
	bound   int     // of the line
	due     ownCost // sum over what is held, for predictions
	ratio   float64 // what calls take of the tokens they declare, as a moving average
	meanRun time.Duration
	caps    []*account // budgets, of a tenant over all pools
}

// quotaHold is a call's cost as it stands in a quota: booked in a slot of each
// ledger, or held while the call waits elsewhere.
type quotaHold struct {
	cost    ownCost
	due     ownCost // what of it is expected back
	slot    [ownAxes]int64
	ledgers [ownAxes]*escrow.Ledger // that it is in: a reload may have put others in their place
	booked  bool
}

// newQuota makes a quota without limits. all is nil where it is not kept together with
// other processes.
func newQuota(owner, pool string, all *commons) *quota {
	q := &quota{owner: owner, pool: pool, ratio: 1}
	if all != nil {
		q.common = &common{all: all}
		q.common.handle.q = q
	}
	return q
}

// configure changes the limits while calls run and wait: what was used counts on. A
// limit that is new begins with nothing used.
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
	q.concurrency, q.bound = l.Concurrency, bound
	q.limitLocked()
	for _, w := range q.line.calls {
		q.line.resize(w, q.clipLocked(w.asked))
	}
	q.line.wakeNext() // it may fit now
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

// clipLocked cuts a cost to the limits: what is larger goes when they are free of
// use, and what it takes beyond them is debt.
func (q *quota) clipLocked(c ownCost) ownCost {
	for k, l := range q.ledgers {
		if l != nil {
			c[k] = min(c[k], q.limits[k])
		}
	}
	return c
}

// fitsLocked reports whether c fits every limit, else the first it lacks: an index
// of ledgers, ownAxes for concurrency, or capAxis for a budget's part.
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

// lackingLocked is the axis that keeps c waiting: its own, or that of the call
// which is first in line.
func (q *quota) lackingLocked(c ownCost) int {
	axis, fits := q.fitsLocked(c)
	if first := q.line.first(); fits && first != nil {
		axis, fits = q.fitsLocked(first.cost)
	}
	if fits && q.concurrency == 0 {
		// Who is first has been woken and not yet run. It lacks nothing any more, but
		// some limit has made the line; ownAxes if that is there no longer.
		if axis = slices.IndexFunc(q.ledgers[:], func(l *escrow.Ledger) bool { return l != nil }); axis < 0 {
			axis = ownAxes
		}
	}
	return axis
}

func (q *quota) bookLocked(c ownCost) quotaHold {
	q.tookLocked(c)
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

// suspend turns a booking into a hold, which counts at every instant, while its
// call waits elsewhere.
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
	q.line.wakeNext() // it can now know when this leaves
}

// leaveLocked ends a call's hold with what it really took. A call that never ran,
// for which ran is 0, teaches nothing.
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

// learnLocked takes in how a call went, for predictions.
func (q *quota) learnLocked(held, actual ownCost, ran time.Duration) {
	if q.meanRun == 0 {
		q.meanRun = ran
	}
	q.meanRun += (ran - q.meanRun) / 8
	if held[ownTokens] > 0 {
		q.ratio += (min(1, float64(actual[ownTokens])/float64(held[ownTokens])) - q.ratio) / 16
	}
}

// idle reports whether nothing runs under a tenant's limits, and nothing that it has
// used of a budget counts any more.
func (q *quota) idle(now time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.running == 0 && len(q.line.calls) == 0 && unused(now, q.caps)
}
