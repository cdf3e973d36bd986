package governor

import (
	"time"

	"github.com/llmgov/llmgov/escrow/budget"
	"github.com/llmgov/llmgov/federation/parts"
)

// A pool's budget is divided over processes in two ways at once. Each process has a part of the
// whole, so that all together use no more than there is; and a part of what each member may use by
// its share. A member that may use all that is left needs no part of the second kind: near the end of
// a budget one process might hold the last of the one, and another the last of the other. Shares are
// computed from what all processes used: a claim says what a member used here, the answer what it used elsewhere.

// lentAccount is what a pool's budget knows of its parts, in the books' units. The pool's lock
// guards it.
type lentAccount struct {
	*lent
	all     lentPart
	members map[budget.MemberID]*lentPart // whose calls come here
	short   bool                          // the last call that asked lacked a part
}

// lentPart is one part: of a budget, or of what one member may use of it.
type lentPart struct {
	part, told, last int64     // what may be used here; what was used here as of the last claim; and what the last call asked for
	lacks            bool      // a call lacked room in it since the last claims
	at               time.Time // when the last call asked
}

// whole reports whether this process may use all that is known to be left, because nobody says how
// much and the pool is not configured to close.
func (l *lentAccount) whole() bool {
	return l.until.IsZero() && l.alone && l.onLoss() != LossClosed
}

// drop gives up all parts.
func (l *lentAccount) drop() {
	l.all.part = 0
	clear(l.members)
}

// askLent holds c of a split of which this process has parts, or refuses if a part is too small.
func (a *account) askLent(now time.Time, member budget.MemberID, c int64) (budget.Hold, budget.Answer) {
	l := a.lent
	l.short = false
	if l.whole() {
		return a.split.Hold(now, member, c)
	}
	if l.until.IsZero() {
		l.drop()
	}
	m := l.members[member]
	if m == nil {
		m = &lentPart{}
		l.members[member] = m
	}
	m.at = now
	m.last = c
	l.all.last = c
	room := a.split.Room(now, member)
	all := l.all.part - a.split.Here()
	own := m.part - a.split.HereBy(now, member)
	left := a.limit() - a.split.Counted()
	switch {
	case c > own && own < room && room < left: // a member that may use all that is left needs no part of its own
		l.short = true
		m.lacks = true
	case c > all && all < left:
		l.short = true
		l.all.lacks = true
	default:
		return a.split.Hold(now, member, c)
	}
	return budget.Hold{}, budget.Answer{Remaining: max(0, min(all, own, room))}
}

// askForMoreLocked notes that the part of a pool's budget is too small, and lists the pool so that
// the store is asked for more at once.
func (a *account) askForMoreLocked() {
	if l := a.lent.lent; !l.lacks {
		l.lacks = true
		l.all.listPool(l.handle.p)
	}
}

// claim is the claim on a part, of which here was used in this process, limit may be used in all of
// them, and more is wanted in advance in any case.
func (m *lentPart) claim(a *account, name string, here, limit, more int64) parts.Claim {
	need := int64(0)
	if m.lacks {
		need = here + max(1, m.last)
	}
	want := max(here, min(limit, max(here+max(more, 4*m.last, 2*(here-m.told)), need)))
	m.told = here
	m.lacks = false
	return a.lentClaim(name, here, limit, want, min(need, limit))
}

func (a *account) lentClaim(name string, here, limit, want, need int64) parts.Claim {
	return parts.Claim{
		Name: name, Kind: parts.Period, Limit: limit * a.scale, Ends: a.ends.UnixMilli(),
		Used: here * a.scale, Want: want * a.scale, Need: need * a.scale,
	}
}
