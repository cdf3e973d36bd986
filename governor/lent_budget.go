package governor

import (
	"time"

	"github.com/llmgov/llmgov/escrow/budget"
	"github.com/llmgov/llmgov/federation/parts"
)

// Of a pool's budget a process has a part, as of a tenant's, so that all of them together use no
// more than there is; and of what each member may use of it, by its share and by what is reserved for
// nobody, another part; but for who may use all that is left: near the end of a budget one process
// would have the last of the one, and another that of the other. Shares are reckoned by what all processes used: a claim tells what a member
// used here, and is answered by what it did elsewhere.

// lentAccount is what a pool's budget knows of its parts, in the books' units. The pool's lock
// guards it.
type lentAccount struct {
	*lent
	all     lentPart
	members map[budget.MemberID]*lentPart // of whom calls come
	short   bool                          // the last call that asked lacked a part
}

// lentPart is one part: of a budget, or of what a member may use of it.
type lentPart struct {
	part, told, last int64     // what may be used, what was told to be, and what the last call took
	lacks            bool      // a call did since the last claims
	at               time.Time // of the last call
}

// whole reports whether nobody says how much may be used, and all that is known to be left may be.
func (l *lentAccount) whole() bool {
	return l.until.IsZero() && l.alone && l.onLoss() != LossClosed
}

// drop lets go of all parts.
func (l *lentAccount) drop() {
	l.all.part = 0
	clear(l.members)
}

// askLent asks a split of which the process has parts.
func (a *account) askLent(now time.Time, member budget.MemberID, c int64) (budget.Hold, budget.Answer) {
	l := a.lent
	if l.short = false; l.whole() {
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
	m.at, m.last, l.all.last = now, c, c
	room := a.split.Room(now, member)
	all, own := l.all.part-a.split.Here(), m.part-a.split.HereBy(now, member)
	left := a.limit() - a.split.Counted()
	switch {
	case c > own && own < room && room < left: // who may use all that is left needs no part but of that
		l.short, m.lacks = true, true
	case c > all && all < left:
		l.short, l.all.lacks = true, true
	default:
		return a.split.Hold(now, member, c)
	}
	return budget.Hold{}, budget.Answer{Remaining: max(0, min(all, own, room))}
}

// lackLocked says that the process has too small a part of a pool's budget.
func (a *account) lackLocked() {
	if l := a.lent.lent; !l.lacks {
		l.lacks = true
		l.all.listPool(l.handle.p)
	}
}

// claim is that on a part, where so much was used here, may be in all processes, and is wanted
// beyond that in any case.
func (m *lentPart) claim(a *account, name string, here, limit, more int64) parts.Claim {
	need := int64(0)
	if m.lacks {
		need = here + max(1, m.last)
	}
	want := max(here, min(limit, max(here+max(more, 4*m.last, 2*(here-m.told)), need)))
	m.told, m.lacks = here, false
	return a.lentClaim(name, here, limit, want, min(need, limit))
}

func (a *account) lentClaim(name string, here, limit, want, need int64) parts.Claim {
	return parts.Claim{
		Name: name, Kind: parts.Period, Limit: limit * a.scale, Ends: a.ends.UnixMilli(),
		Used: here * a.scale, Want: want * a.scale, Need: need * a.scale,
	}
}
