package simulate

import (
	"time"

	"github.com/llmgov/llmgov/escrow"
)

// foil is an admission by another rule than the pool's, behind the same gate, so
// that the same callers can be seen under both. It keeps the calls that wait and
// looks at them again whenever anything changes, which is more than a gateway does
// that answers 429: there, who retries at the right moment is served.
type foil struct {
	rule
	weights []int64     // by leaf
	waiting []*foilCall // in order of arrival
	running map[escrow.Handle]*foilCall
	serial  uint32
	now     time.Duration
	out     []escrow.Handle // scratch of Pump
}

type foilCall struct {
	h    escrow.Handle
	leaf int
	most int64 // tokens that it declares
}

// rule is what foils differ in.
type rule interface {
	// serve starts those of the waiting calls that may go now.
	serve(f *foil)
	// ended is told what a call really took.
	ended(f *foil, c *foilCall, took int64)
	// next is when to look again although nothing was offered or has ended.
	next(f *foil) time.Duration
}

func newFoil(r rule) *foil { return &foil{rule: r, running: map[escrow.Handle]*foilCall{}} }

// each goes through the waiting calls in order of arrival and starts those that go
// says yes to.
func (f *foil) each(goes func(*foilCall) bool) {
	stay := f.waiting[:0]
	for _, c := range f.waiting {
		if goes(c) {
			f.running[c.h] = c
			f.out = append(f.out, c.h)
			continue
		}
		stay = append(stay, c)
	}
	clear(f.waiting[len(stay):])
	f.waiting = stay
}

// share is the part of an amount that is a leaf's by its weight.
func (f *foil) share(leaf int, of int64) float64 {
	all := int64(0)
	for _, w := range f.weights {
		all += w
	}
	return float64(of) * float64(f.weights[leaf]) / float64(all)
}

func (f *foil) Add(_ escrow.NodeID, n escrow.Node) escrow.NodeID {
	f.weights = append(f.weights, int64(n.Weight))
	return escrow.NodeID(len(f.weights))
}

func (f *foil) Offer(_ time.Time, c escrow.Call) (escrow.Handle, escrow.Answer) {
	f.serial++
	h := escrow.Handle{Slot: f.serial}
	f.waiting = append(f.waiting, &foilCall{h: h, leaf: int(c.Leaf) - 1, most: c.Most[escrow.Tokens]})
	return h, escrow.Answer{Verdict: escrow.Queued, Patience: c.MaxWait}
}

func (f *foil) Pump(now time.Time, out []escrow.Handle) []escrow.Handle {
	f.now = now.Sub(epoch)
	f.out = out
	f.serve(f)
	return f.out
}

func (f *foil) Next() (time.Time, bool) {
	if len(f.waiting) == 0 {
		return time.Time{}, false
	}
	return epoch.Add(f.next(f)), true
}

func (f *foil) Cancel(_ time.Time, h escrow.Handle) bool {
	for i, c := range f.waiting {
		if c.h == h {
			f.waiting = append(f.waiting[:i], f.waiting[i+1:]...)
			return true
		}
	}
	return false
}

func (f *foil) Refuse(now time.Time, h escrow.Handle, _ uint64) (escrow.Answer, bool) {
	return escrow.Answer{}, f.Cancel(now, h)
}

func (f *foil) Settle(now time.Time, h escrow.Handle, actual escrow.Cost) bool {
	c, ok := f.running[h]
	if ok {
		delete(f.running, h)
		f.now = now.Sub(epoch)
		f.ended(f, c, actual[escrow.Tokens])
	}
	return ok
}

func (f *foil) Progress(time.Time, escrow.Handle, escrow.Progress) {}
func (f *foil) Check() error                                       { return nil }
