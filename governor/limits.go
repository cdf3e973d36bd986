package governor

import (
	"context"
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
}

// tenant is the running state of one tenant: its own limits, and the calls that
// wait for them.
type tenant struct {
	cfg    Tenant
	leaves []escrow.LeafID // by pool; -1 where the tenant has no access
	bound  int             // of the line

	mu      sync.Mutex
	ledgers [ownAxes]*escrow.Ledger // nil = no such limit
	running int64
	line    []*inLine // calls over an own limit, in order of arrival; the first is served first
	ahead   ownCost   // sum over line
	due     ownCost   // sum over what is held, for predictions
	ratio   float64   // what calls take of the tokens they declare, as a moving average
	meanRun time.Duration
}

type inLine struct {
	waiter
	cost ownCost
}

func newTenant(now time.Time, cfg Tenant) *tenant {
	t := &tenant{cfg: cfg, ratio: 1}
	for k, limit := range [ownAxes]int64{cfg.RPM, cfg.TPM, cfg.ITPM, cfg.OTPM} {
		if limit > 0 {
			t.ledgers[k] = escrow.NewLedger(now, limit, ownSlots)
		}
	}
	return t
}

// enter holds a call's cost of the tenant's own limits. Over a limit the call
// waits here, in order of arrival and beside the pool's queue, where it blocks
// nobody else. It returns the time at which the hold began.
func (g *Governor) enter(ctx context.Context, t *tenant, now time.Time, c ownCost, maxWait time.Duration) (ownHold, time.Time, *Rejection) {
	t.mu.Lock()
	t.advanceLocked(now)
	for k, l := range t.ledgers {
		if l != nil {
			c[k] = min(c[k], l.Limit())
		}
	}
	if _, fits := t.fitsLocked(c); fits && len(t.line) == 0 {
		h := t.bookLocked(c)
		t.mu.Unlock()
		return h, now, nil
	}
	if rej := t.refuseLocked(now, c, maxWait); rej != nil {
		t.mu.Unlock()
		return ownHold{}, now, rej
	}
	w := &inLine{waiter: *newWaiter(), cost: c}
	t.line = append(t.line, w)
	t.addAheadLocked(c, 1)
	t.mu.Unlock()
	return g.standInLine(ctx, t, w, now, now.Add(maxWait))
}

// standInLine waits until w is first and fits.
func (g *Governor) standInLine(ctx context.Context, t *tenant, w *inLine, since, deadline time.Time) (ownHold, time.Time, *Rejection) {
	why := woken
	for {
		now := g.clock.Now()
		t.mu.Lock()
		t.advanceLocked(now)
		if _, fits := t.fitsLocked(w.cost); fits && t.line[0] == w && why != gone && why != draining {
			h := t.bookLocked(w.cost)
			t.leaveLocked(w)
			t.mu.Unlock()
			return h, now, nil
		}
		if why == gone || why == draining || !now.Before(deadline) {
			t.leaveLocked(w)
			rej := t.rejectionLocked(now, w.cost)
			t.mu.Unlock()
			rej.Waited = now.Sub(since)
			rej.because(why)
			return ownHold{}, now, rej
		}
		next := t.lookAgainLocked(w, deadline)
		t.mu.Unlock()
		why = g.park(ctx, &w.waiter, next)
	}
}

// because replaces the reason of a refusal when the wait was broken off.
func (r *Rejection) because(why cause) {
	switch why {
	case gone:
		r.Reason = ReasonCancelled
	case draining:
		r.Reason, r.RetryAfter = ReasonDraining, drainRetry
	}
}

// lookAgainLocked is when w should look whether it fits: when it is first, as soon
// as the rolling limits can have room; else when it is woken.
func (t *tenant) lookAgainLocked(w *inLine, deadline time.Time) time.Time {
	if t.line[0] != w {
		return deadline
	}
	at := time.Time{}
	for k, l := range t.ledgers {
		if l == nil || l.Room() >= w.cost[k] {
			continue
		}
		free, known := l.FreeAt(w.cost[k])
		if !known { // a hold stands in the way, whose end wakes the line
			return deadline
		}
		if free.After(at) {
			at = free
		}
	}
	if at.IsZero() || at.After(deadline) { // a slot is lacking, whose end wakes the line
		return deadline
	}
	return at
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

// leave ends a call's hold with what it really took, and wakes who is first in
// line. A call that never ran, for which ran is 0, teaches nothing.
func (t *tenant) leave(now time.Time, h ownHold, actual ownCost, ran time.Duration) {
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

func (t *tenant) firstLocked() *inLine {
	if len(t.line) == 0 {
		return nil
	}
	return t.line[0]
}

// leaveLocked takes w out of the line. Whoever is first then may fit at once.
func (t *tenant) leaveLocked(w *inLine) {
	i := slices.Index(t.line, w)
	t.line = slices.Delete(t.line, i, i+1)
	t.addAheadLocked(w.cost, -1)
	if i == 0 && len(t.line) > 0 {
		t.line[0].wake()
	}
}

func (t *tenant) addAheadLocked(c ownCost, by int64) {
	for k := range c {
		t.ahead[k] += by * c[k]
	}
}

// refuseLocked decides whether a call that does not fit may stand in line.
func (t *tenant) refuseLocked(now time.Time, c ownCost, maxWait time.Duration) *Rejection {
	rej := t.rejectionLocked(now, c)
	if len(t.line) >= t.bound {
		rej.Reason, rej.Used = ReasonQueueFull, int64(len(t.line))
		return rej
	}
	// How long running calls will take is only a guess, so it refuses nobody who
	// is ready to wait.
	if maxWait <= 0 || t.rollingLocked(now, c) > maxWait {
		return rej
	}
	return nil
}

// rejectionLocked explains why c does not go now, and when it would.
func (t *tenant) rejectionLocked(now time.Time, c ownCost) *Rejection {
	axis := t.lackingLocked(c)
	rej := &Rejection{Own: true, Tenant: t.cfg.Name, RetryAfter: max(time.Millisecond, t.rollingLocked(now, c))}
	if axis == ownAxes {
		rej.RetryAfter = max(rej.RetryAfter, t.slotWaitLocked())
		rej.Reason, rej.Axis = ReasonConcurrency, axisConcurrency
		rej.Limit, rej.Used, rej.Asked = t.cfg.Concurrency, t.running, 1
		return rej
	}
	rej.Reason = ReasonTokens
	if axis == ownRequests {
		rej.Reason = ReasonRequests
	}
	l := t.ledgers[axis]
	rej.Axis, rej.Limit, rej.Used, rej.Asked = ownAxisName[axis], l.Limit(), l.Used(), c[axis]
	return rej
}

// rollingLocked is when the rolling limits will have room for c behind the line,
// if nobody else comes: when bookings leave, or when running calls are expected to
// give back what they do not take, if that comes sooner.
func (t *tenant) rollingLocked(now time.Time, c ownCost) time.Duration {
	wait := time.Duration(0)
	for k, l := range t.ledgers {
		if l == nil {
			continue
		}
		axis := t.behindLocked(now, l, t.ahead[k]+c[k])
		if due := t.due[k]; due > 0 && axis > t.meanRun {
			axis = min(axis, max(t.meanRun, t.behindLocked(now, l, t.ahead[k]+c[k]-due)))
		}
		wait = max(wait, axis)
	}
	return wait
}

// behindLocked is when the last of total fits a ledger.
func (t *tenant) behindLocked(now time.Time, l *escrow.Ledger, total int64) time.Duration {
	if total <= 0 {
		return 0
	}
	full := (total - 1) / l.Limit() // whole minutes that go before
	at, known := l.FreeAt(total - full*l.Limit())
	if !known {
		at = now.Add(escrow.Window)
	}
	return max(0, time.Duration(full)*escrow.Window+at.Sub(now))
}

// slotWaitLocked guesses when a slot frees, by how long calls ran so far.
func (t *tenant) slotWaitLocked() time.Duration {
	if t.cfg.Concurrency == 0 {
		return 0
	}
	mean := t.meanRun
	if mean <= 0 {
		mean = time.Second
	}
	return time.Duration(len(t.line)+1) * mean / time.Duration(t.cfg.Concurrency)
}
