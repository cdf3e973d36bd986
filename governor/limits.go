package governor

import (
	"slices"
	"sync"
	"time"

	"github.com/llmgov/llmgov/escrow"
)

// The rolling axes of a tenant's own limits, and how finely their minute is cut.
const (
	ownRequests = iota
	ownTokens
	ownInput
	ownOutput
	ownAxes

	ownSlots = 120
)

var ownAxisName = [ownAxes]string{axisRequests, axisTokens, axisInput, axisOutput}

// ownCost is what a call takes of a tenant's own limits.
type ownCost [ownAxes]int64

// ownHold is a call's cost as it stands in the tenant's ledgers: booked in a
// slot each, or held while the call waits for the pool.
type ownHold struct {
	cost   ownCost
	due    ownCost // what of it is expected back
	slot   [ownAxes]int64
	booked bool
	tab    *tab // nil without budgets and journal
}

// tenant is the running state of one tenant: its own limits, and the calls that
// wait for them.
type tenant struct {
	cfg    Tenant
	index  int
	leaves []escrow.NodeID // by pool; -1 where the tenant has no access
	bound  int             // of the line

	mu      sync.Mutex
	ledgers [ownAxes]*escrow.Ledger // nil = no such limit
	running int64
	line    []*inLine // calls over an own limit, in order of arrival; the first is served first
	ahead   ownCost   // sum over line
	due     ownCost   // sum over what is held, for predictions
	ratio   float64   // what calls take of the tokens they declare, as a moving average
	meanRun time.Duration
	caps    []*account // the tenant's budgets
	tabs    []*tab     // to be used again
}

type inLine struct {
	waiter
	cost ownCost
}

func newTenant(now time.Time, cfg Tenant, index int) *tenant {
	t := &tenant{cfg: cfg, index: index, ratio: 1}
	for k, limit := range [ownAxes]int64{cfg.RPM, cfg.TPM, cfg.ITPM, cfg.OTPM} {
		if limit > 0 {
			t.ledgers[k] = escrow.NewLedger(now, limit, ownSlots)
		}
	}
	return t
}

func (t *tenant) advanceLocked(now time.Time) {
	for _, l := range t.ledgers {
		if l != nil {
			l.Advance(now)
		}
	}
}

// fitsLocked reports whether c fits every own limit, else the first it lacks:
// an index of ledgers, or ownAxes for concurrency.
func (t *tenant) fitsLocked(c ownCost) (axis int, ok bool) {
	for k, l := range t.ledgers {
		if l != nil && l.Room() < c[k] {
			return k, false
		}
	}
	if t.cfg.Concurrency > 0 && t.running >= t.cfg.Concurrency {
		return ownAxes, false
	}
	return ownAxes, true
}

// lackingLocked is the axis that keeps c waiting: its own, or that of the call
// which is first in line.
func (t *tenant) lackingLocked(c ownCost) int {
	axis, fits := t.fitsLocked(c)
	if fits && len(t.line) > 0 {
		axis, fits = t.fitsLocked(t.line[0].cost)
	}
	if fits && t.cfg.Concurrency == 0 {
		// Who is first has been woken and not yet run. It lacks nothing any more, but
		// some limit of the tenant's has made the line.
		axis = slices.IndexFunc(t.ledgers[:], func(l *escrow.Ledger) bool { return l != nil })
	}
	return axis
}

func (t *tenant) bookLocked(c ownCost) ownHold {
	h := ownHold{cost: c, booked: true}
	for k, l := range t.ledgers {
		if l != nil {
			l.Book(c[k])
			h.slot[k] = l.Slot()
		}
		if k == ownTokens || k == ownOutput {
			h.due[k] = int64(float64(c[k]) * max(0, 1-t.ratio))
			t.due[k] += h.due[k]
		}
	}
	t.running++
	return h
}

// suspend turns a booking into a hold, which counts at every instant, while its
// call waits for the pool.
func (t *tenant) suspend(now time.Time, h ownHold) ownHold {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.advanceLocked(now)
	for k, l := range t.ledgers {
		if l != nil {
			l.Correct(h.slot[k], -h.cost[k])
			l.Hold(h.cost[k])
		}
	}
	h.booked = false
	return h
}

// resume books a hold as of now, when its call starts.
func (t *tenant) resume(now time.Time, h ownHold) ownHold {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.advanceLocked(now)
	for k, l := range t.ledgers {
		if l != nil {
			l.Drop(h.cost[k])
			l.Book(h.cost[k])
			h.slot[k] = l.Slot()
		}
	}
	h.booked = true
	if first := t.firstLocked(); first != nil {
		first.wake() // it can now know when this leaves
	}
	return h
}

// leave ends a call's hold with what it really took, of limits and of budgets, and
// wakes who is first in line. A call that never ran, for which ran is 0, teaches
// nothing.
func (t *tenant) leave(now time.Time, h ownHold, actual ownCost, spent Spend, ran time.Duration) {
	t.mu.Lock()
	t.advanceLocked(now)
	for k, l := range t.ledgers {
		t.due[k] -= h.due[k]
		switch {
		case l == nil:
		case h.booked:
			l.Correct(h.slot[k], actual[k]-h.cost[k])
		default:
			l.Drop(h.cost[k])
			l.Book(actual[k])
		}
	}
	t.running--
	if h.tab != nil {
		t.closeLocked(now, h.tab, spent)
	}
	if ran > 0 {
		t.learnLocked(h.cost, actual, ran)
	}
	first := t.firstLocked()
	t.mu.Unlock()
	if first != nil {
		first.wake()
	}
}

// learnLocked takes in how a call went, for predictions.
func (t *tenant) learnLocked(held, actual ownCost, ran time.Duration) {
	if t.meanRun == 0 {
		t.meanRun = ran
	}
	t.meanRun += (ran - t.meanRun) / 8
	if held[ownTokens] > 0 {
		t.ratio += (min(1, float64(actual[ownTokens])/float64(held[ownTokens])) - t.ratio) / 16
	}
}
