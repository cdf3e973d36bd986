package governor

import (
	"math/bits"
	"slices"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/limits"
)

// maxUpstreams is how many upstreams an escrow.Mask has bits for.
const maxUpstreams = 64

// Upstream is one of a pool's upstreams with its own limits, of which 0 is no limit. Calls go to those of the lowest Order
// that have room for them, there by Weight.
type Upstream struct {
	Name          string
	Weight, Order int64

	TPM, RPM, Concurrency int64
}

// Limits are the upstream's own.
func (u *Upstream) Limits() Limits {
	return Limits{TPM: u.TPM, RPM: u.RPM, Concurrency: u.Concurrency}
}

// poolUpstreams are a pool's upstreams, as its escrow asks for them. The pool's lock guards them; own limits have
// locks of their own, because whoever shares them with other processes reads them.
type poolUpstreams struct {
	list  []*upstream
	gone  []*upstream    // left the list lately; their books are kept for their return
	calls []upstreamCall // by the slot of their escrow handles
	// holds says that the provider counts tokens later than at admission. A running call then counts all the time, and
	// for a minute after its end, which is never less than the provider counts.
	holds bool
}

// upstream is one of them. It lives on from table to table by its name.
type upstream struct {
	Upstream
	own    *ownLimits
	turn   float64   // calls that began here, by weight: of those of one order the least goes first
	closed time.Time // until when nothing goes there
	left   time.Time // when it left the list; zero while it is in it
	// tokens and ended are the sums of all calls that ended there.
	tokens, ended int64
}

// upstreamCall is a running call.
type upstreamCall struct {
	at    *upstream
	hold  limits.Hold
	began time.Time
}

var _ escrow.Upstreams = (*poolUpstreams)(nil)

// configureUpstreamsLocked puts the upstreams of a configuration in force. Call limitLocked afterwards.
func (p *poolView) configureUpstreamsLocked(now time.Time) {
	old := p.upstreams
	p.upstreams = nil
	if len(p.cfg.Upstreams) > 0 {
		p.upstreams = &poolUpstreams{holds: p.cfg.Accounting != escrow.AdmitMax}
	}
	if old == nil && p.upstreams == nil {
		return
	}
	for _, cfg := range p.cfg.Upstreams {
		u := old.named(cfg.Name)
		if u == nil {
			u = &upstream{own: newOwnLimits("upstream "+cfg.Name, p.name, p.notices)}
			u.own.freed = p.freed
		}
		u.Upstream = cfg
		u.left = time.Time{}
		p.upstreams.list = append(p.upstreams.list, u)
	}
	moved := func(via escrow.Mask) escrow.Mask { return p.upstreams.since(old, via) }
	if p.upstreams == nil {
		p.escrow.SetUpstreams(nil, moved)
		return
	}
	if old != nil {
		p.upstreams.calls = old.calls
		p.upstreams.keep(now, old)
	}
	p.escrow.SetUpstreams(p.upstreams, moved)
}

// limitUpstreamsLocked puts in force the limits of upstreams that the cuts leave.
func (p *pool) limitUpstreamsLocked(now time.Time) {
	if p.upstreams == nil {
		return
	}
	for _, u := range p.upstreams.list {
		tpm := u.TPM
		rpm := u.RPM
		u.closed = time.Time{}
		for _, c := range p.cuts {
			switch {
			case c.Upstream != u.Name:
			case c.TPM > 0 || c.RPM > 0:
				tpm = lowered(tpm, c.TPM)
				rpm = lowered(rpm, c.RPM)
			case c.Until.After(u.closed):
				u.closed = c.Until
			}
		}
		u.own.configure(now, Limits{TPM: p.rules.usable(tpm), RPM: p.rules.usable(rpm), Concurrency: u.Concurrency}, 0, calledBy{granted: true})
	}
}

// named is the upstream with a name, also one that is gone; nil if there is none.
func (s *poolUpstreams) named(name string) *upstream {
	if s == nil {
		return nil
	}
	for _, u := range slices.Concat(s.list, s.gone) {
		if u.Name == name {
			return u
		}
	}
	return nil
}

// keep keeps the upstreams that have left the list before, while their usage may count.
func (s *poolUpstreams) keep(now time.Time, old *poolUpstreams) {
	for _, u := range slices.Concat(old.list, old.gone) {
		if slices.Contains(s.list, u) {
			continue
		}
		if u.left.IsZero() {
			u.left = now
		}
		if now.Sub(u.left) <= 2*escrow.Window || !u.own.idle(now) {
			s.gone = append(s.gone, u)
		}
	}
}

// since is where the upstreams stand that a call was offered for under the list before. If none is left it may use all.
func (s *poolUpstreams) since(old *poolUpstreams, via escrow.Mask) (now escrow.Mask) {
	if s == nil {
		return 0
	}
	if old != nil {
		for i, u := range s.list {
			if at := slices.Index(old.list, u); at >= 0 && via&escrow.Mask(0).With(at) != 0 {
				now = now.With(i)
			}
		}
	}
	return s.mask(uint64(now))
}

// mask is the set of upstreams of a request.
func (s *poolUpstreams) mask(via uint64) escrow.Mask {
	if s == nil {
		return 0
	}
	all := escrow.Mask(1)<<len(s.list) - 1
	if some := escrow.Mask(via) & all; some != 0 {
		return some
	}
	return all
}

// each calls a function with those of a mask, by their index.
func (s *poolUpstreams) each(among escrow.Mask, do func(i int, u *upstream)) {
	for left := among; left != 0; left &= left - 1 {
		if i := bits.TrailingZeros64(uint64(left)); i < len(s.list) {
			do(i, s.list[i])
		}
	}
}
