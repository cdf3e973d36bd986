package governor

import (
	"time"

	"github.com/llmgov/llmgov/escrow/budget"
	"github.com/llmgov/llmgov/escrow/limits"
	"github.com/llmgov/llmgov/governor/terms"
)

// How one call holds its expected cost in several budgets, all or none, and why it
// is refused if one has no room.

// holdShares holds the expected cost of a call in all the pool's budgets, or in none.
func (p *pool) holdShares(now time.Time, st *seat, b *holds) *Refusal {
	var rej *Refusal
	st = st.whole()
	member := func(i int) budget.MemberID { return st.members[i] }
	b.shares, rej = holdAll(now, p.shares, b.shares, member, b)
	if rej != nil {
		ofTenant(rej, st.tenant.name)
		if rej.Elsewhere && !p.slots.Granted() {
			p.lost(now, rej)
		}
	}
	return rej
}

// settleShares settles the holds of a call in the pool's budgets.
func (p *pool) settleShares(now time.Time, b *holds, s terms.Spend) {
	for _, h := range b.shares {
		h.settle(now, h, s)
	}
	b.shares = b.shares[:0]
}

// holdAll holds the expected cost of a call in all accounts, or in none, and appends the holds to out.
// Of several refusals it returns the worst. A Background budget that has no room holds nothing. A shadow holds as much as it can, and its refusal is
// only noted.
func holdAll(now time.Time, accounts []*account, out []held, member func(i int) budget.MemberID, b *holds) ([]held, *Refusal) {
	var worst *Refusal
	before := len(out)
	for i, a := range accounts {
		h, ans := a.hold(now, member(i), b)
		switch {
		case ans.OK && (worst == nil || b.shadow):
			out = append(out, h)
		case ans.OK:
			a.settle(now, h, terms.Spend{})
		default:
			switch {
			case !a.short():
			case a.of != nil:
				a.of.askForMore(limits.Cost{})
			default:
				a.grants.askForMore()
			}
			if a.Background {
				b.beyond = b.beyond || !a.short()
				h.hold, _ = a.ask(now, member(i), 0)
				out = append(out, h)
				continue
			}
			if !b.shadow || !a.short() { // a shadow would have waited for a grant, not been refused
				worst = worse(worst, b.refusal(now, a, member(i), ans))
			}
			if b.shadow {
				h.hold, _ = a.ask(now, member(i), 0)
				out = append(out, h)
			}
		}
	}
	switch {
	case worst == nil:
		return out, nil
	case b.shadow:
		b.note(worst)
		return out, nil
	}
	for _, h := range out[before:] {
		h.settle(now, h, terms.Spend{})
	}
	return out[:before], worst
}
