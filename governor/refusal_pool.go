package governor

import (
	"slices"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/limits"
	"github.com/llmgov/llmgov/escrow/slots"
	"github.com/llmgov/llmgov/governor/refusal"
)

// How a pool explains that a call does not go.

// refusal explains the escrow's answer to a call.
func (p *pool) refusal(now time.Time, t *tenant, call *escrow.Call, ans escrow.Answer) *Refusal {
	s := p.books(now)
	rej := &Refusal{
		Tenant: t.name, Pool: p.name, Axis: ans.Axis.String(),
		RetryAfter: max(ans.Wait, time.Millisecond), Kept: ans.Ticket,
	}
	kept := false // by a rule of slots
	if ans.Axis == escrow.Slots {
		rej.Limit, rej.Used = p.slots.InUse()
		rej.Asked = 1
		kept = byRule(rej, p.slots.Standings(call))
	} else {
		a := s.Axes[ans.Axis]
		rej.Limit = a.Limit
		rej.Used = a.Used
		rej.Asked = min(call.Most[ans.Axis], a.Limit)
		if p.set.Shared {
			allowed, _ := p.escrow.Allowed(now, ans.Axis)
			rej.Granted = &allowed.Rate
		}
	}
	if p.upstreams != nil && ans.Verdict == escrow.TooLong && !ans.Behind {
		rej.AtUpstreams = p.escrow.Choices(now, call).Fits
	}
	if ans.Axis == escrow.Slots && p.grants != nil && rej.Used < rej.Limit {
		rej.RetryAfter = max(rej.RetryAfter, limits.GrantRetry)
	}
	switch {
	case s.Held.After(now):
		rej.Reason = ReasonThrottled
	case p.slots.IsFenced(),
		p.rules.OnLoss != LossOpen && (p.cutOff(now) || ans.Axis == escrow.Slots && p.slots.Lost()):
		p.lost(now, rej)
	case ans.Verdict == escrow.PoolFull && s.Waiting > 0: // else no call may wait
		rej.Reason = ReasonOverloaded
		rej.Used = int64(s.Waiting)
	case ans.Verdict == escrow.LeafFull:
		rej.Reason = ReasonQueueFull
		rej.Used = int64(p.escrow.Node(call.Leaf).Waiting)
	case ans.Behind && !kept:
		rej.Reason = ReasonShare
	default:
		rej.Reason = reasonOf(ans.Axis.String())
	}
	return rej
}

// byRule makes a refusal one by the rule of slots that keeps the call from beginning. It reports false, and changes nothing, if none does.
func byRule(r *Refusal, rules []slots.Standing) bool {
	i := slices.IndexFunc(rules, func(s slots.Standing) bool { return s.Keeps })
	if i < 0 {
		return false
	}
	r.Axis = refusal.RuleAxis(rules[i].Rule)
	r.Limit = rules[i].Limit
	r.Used = rules[i].Used
	return true
}

// lost makes a refusal say that the pool is cut off. Its time is that of the loss: when the
// limits would have room says nothing while nothing may be used of them.
func (p *pool) lost(now time.Time, rej *Refusal) {
	rej.Reason = ReasonStoreLost
	rej.Kept = false
	rej.RetryAfter = p.lossLasts(now)
	rej.Store = p.newStore(now)
}
