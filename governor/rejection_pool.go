package governor

import (
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/limits"
)

// How a pool explains that a call does not go.

// rejectionLocked explains the escrow's answer to a call.
func (p *pool) rejectionLocked(now time.Time, t *tenant, call *escrow.Call, ans escrow.Answer) *Rejection {
	leaf := call.Leaf
	s := p.booksLocked(now)
	rej := &Rejection{
		Tenant: t.name, Pool: p.name, Axis: ans.Axis.String(),
		RetryAfter: max(ans.Wait, time.Millisecond), Kept: ans.Ticket,
	}
	if ans.Axis == escrow.Slots && p.escrow.Restricts(call) {
		rej.Axis = axisPerTenant
		rej.Limit, rej.Used = p.escrow.Restriction(call)
		rej.Asked = 1
	} else if ans.Axis == escrow.Slots && p.escrow.Capped(leaf) {
		rej.Axis = axisSoftCap
		rej.Limit, rej.Used = p.slots.SoftCap(leaf)
		rej.Asked = 1
	} else if ans.Axis == escrow.Slots && p.slots.KeptOut(leaf) {
		rej.Axis = axisHoldBack
		rej.Limit, rej.Used = p.slots.HoldBack(leaf)
		rej.Asked = 1
	} else if ans.Axis == escrow.Slots {
		rej.Limit, rej.Used = p.slots.InUse()
		rej.Asked = 1
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
		p.rules.OnLoss != LossOpen && (p.cutOffLocked(now) || ans.Axis == escrow.Slots && p.slots.Lost()):
		p.lostLocked(now, rej)
	case ans.Verdict == escrow.PoolFull:
		rej.Reason = ReasonOverloaded
		rej.Used = int64(s.Waiting)
	case ans.Verdict == escrow.LeafFull:
		rej.Reason = ReasonQueueFull
		rej.Used = int64(p.escrow.Node(leaf).Queued)
	case ans.Behind && rej.Axis != axisHoldBack && rej.Axis != axisPerTenant:
		rej.Reason = ReasonShare
	default:
		rej.Reason = axisReasons[ans.Axis]
	}
	return rej
}

// axisReasons are the reasons for refusing a call that a limit of the pool has no room for.
var axisReasons = [...]Reason{escrow.Tokens: ReasonTokens, escrow.Requests: ReasonRequests, escrow.Slots: ReasonConcurrency}

// lostLocked makes a refusal say that the pool is cut off. Its time is that of the loss: when the
// limits would have room says nothing while nothing may be used of them.
func (p *pool) lostLocked(now time.Time, rej *Rejection) {
	rej.Reason = ReasonStoreLost
	rej.Kept = false
	rej.RetryAfter = p.lossLastsLocked(now)
	rej.Store = p.newStoreLocked(now)
}
