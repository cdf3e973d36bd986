package governor

import (
	"time"

	"github.com/llmgov/llmgov/escrow"
)

// How a pool explains that a call does not go.

// rejectionLocked explains the escrow's answer to a call.
func (p *pool) rejectionLocked(now time.Time, t *tenant, leaf escrow.NodeID, cost escrow.Cost, ans escrow.Answer) *Rejection {
	s := p.booksLocked(now)
	rej := &Rejection{
		Tenant: t.name, Pool: p.name, Axis: ans.Axis.String(),
		RetryAfter: max(ans.Wait, time.Millisecond), Kept: ans.Ticket,
	}
	if ans.Axis == escrow.Slots {
		rej.Limit, rej.Used = p.slotsLocked()
		if rej.Asked = 1; p.lent != nil && rej.Used < rej.Limit {
			rej.RetryAfter = max(rej.RetryAfter, partRetry)
		}
	} else {
		a := s.Axes[ans.Axis]
		rej.Limit, rej.Used, rej.Asked = a.Limit, a.Used, min(cost[ans.Axis], a.Limit)
	}
	switch {
	case s.Held.After(now):
		rej.Reason = ReasonThrottled
	case p.lent != nil && p.lent.fenced,
		p.rules.OnLoss != LossOpen && (p.cutOffLocked(now) || ans.Axis == escrow.Slots && p.slotsLostLocked()):
		p.lostLocked(now, rej)
	case ans.Verdict == escrow.PoolFull:
		rej.Reason, rej.Used = ReasonOverloaded, int64(s.Waiting)
	case ans.Verdict == escrow.LeafFull:
		rej.Reason, rej.Used = ReasonQueueFull, int64(p.escrow.Node(leaf).Queued)
	case ans.Behind:
		rej.Reason = ReasonShare
	default:
		rej.Reason = [...]Reason{escrow.Tokens: ReasonTokens, escrow.Requests: ReasonRequests, escrow.Slots: ReasonConcurrency}[ans.Axis]
	}
	return rej
}
