package governor

import (
	"time"

	"github.com/llmgov/llmgov/escrow/limits"
	"github.com/llmgov/llmgov/governor/terms"
)

// noteAnswered notes on the pool whether the store has answered one of its calls.
func (p *pool) noteAnswered(now time.Time, c *SharedCall) {
	if c.state == left || len(c.limits) == 0 {
		return
	}
	p.rates.unanswered = time.Time{}
	if c.state == lost {
		p.rates.unanswered = now
	}
}

// unanswered reports whether the store left the last call of the pool that asked it
// unanswered, within the time for which an answer would count.
func (p *pool) unanswered(now time.Time) bool {
	return !p.rates.unanswered.IsZero() && now.Sub(p.rates.unanswered) < GrantLasts
}

// alone decides on a call that nobody has answered, by the pool's OnLoss. Closed refuses it. Open
// lets it go while this process by itself stays within the whole limits, and local while it stays
// within its part of the withheld share. The known usage of budgets by others stays.
func (e *storeCall) alone(c *call) *Refusal {
	rules := &c.pool.cfg
	nodes := max(c.pool.cfg.ExpectNodes, c.pool.rates.nodes)
	part := func(limit int64) int64 { return rules.OwnPart(limit, nodes) }
	b := c.holds
	b.spend = e.spend
	b.at = c.now
	for i := range b.chain {
		rej := b.letAlone(c.now, b.chain[i].own, part)
		if rej == nil {
			continue
		}
		if rules.OnLoss != LossOpen {
			rej = refuseOwnLost(rej.Tenant)
		}
		if !b.shadow {
			return rej
		}
		e.force(c, rej)
		break
	}
	return nil
}

// letAlone books a call against the next limits of its chain if it fits within the given parts of
// its limits. Otherwise it returns the refusal.
func (b *holds) letAlone(now time.Time, o *ownLimits, part func(limit int64) int64) *Refusal {
	o.advance(now)
	if rej := o.alone(now, o.set.Clip(b.cost), b.spend, part); rej != nil {
		return rej
	}
	b.letNext(now, o, b.expected)
	return nil
}

// alone returns why a call does not fit within the given parts of the limits; nil if it does.
func (o *ownLimits) alone(now time.Time, c limits.Cost, s terms.Spend, part func(limit int64) int64) *Refusal {
	if k, beyond := o.set.Beyond(c, part); beyond {
		return o.refuseLimit(k, c, max(o.set.WaitOn(k, c), askAgain))
	}
	for _, a := range o.caps {
		if !a.Background && a.usedByAll(now)+a.units(s[a.Unit]) > part(a.limit()) {
			return a.refusal(now, s, o.set.MeanRun())
		}
	}
	return nil
}
