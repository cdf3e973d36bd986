package governor

import "time"

// heard takes in whether those who keep tenants' limits have answered a call of a pool.
func (g *Governor) heard(p *poolView, now time.Time, c *SharedCall) {
	state := c.outcome()
	if state == left || len(c.limits) == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unheard = time.Time{}
	if state == lost {
		p.unheard = now
	}
}

// unheardLocked reports whether calls of the pool asked of late whether they may go, and nobody
// answered.
func (p *pool) unheardLocked(now time.Time) bool {
	return !p.unheard.IsZero() && now.Sub(p.unheard) < answerFor
}

// alone does with a call that nobody has answered what the pool's configuration has for then.
// Closed refuses it. Open lets it go as far as the whole limits reach, of what this process
// counts, and local as far as its part of a part of them does; of budgets what others used stays
// used.
func (e *inquiry) alone(now time.Time) *Rejection {
	e.pool.mu.Lock()
	rules, nodes := &e.pool.cfg, max(e.pool.cfg.ExpectNodes, e.pool.nodes)
	e.pool.mu.Unlock()
	part := func(limit int64) int64 { return rules.ownPart(limit, nodes) }
	b := e.tab
	b.spend, b.at = e.spend, now
	for i := range b.chain {
		rej := b.letAlone(now, b.chain[i].q, part)
		if rej == nil {
			continue
		}
		if rules.OnLoss != LossOpen {
			rej = &Rejection{Reason: ReasonStoreLost, Own: true, Tenant: rej.Tenant, RetryAfter: lossRetry}
		}
		if !b.shadow {
			return rej
		}
		e.force(now, rej)
		break
	}
	return nil
}

// letAlone books a call in the next quota of its chain if it fits into parts of its limits, or
// says why it does not.
func (b *tab) letAlone(now time.Time, q *quota, part func(limit int64) int64) *Rejection {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.advanceLocked(now)
	if rej := q.aloneLocked(now, q.clipLocked(b.cost), b.spend, part); rej != nil {
		return rej
	}
	b.letLocked(now, q, b.expected)
	return nil
}

// aloneLocked is why a call does not fit into parts of the limits, if it does not.
func (q *quota) aloneLocked(now time.Time, c ownCost, s Spend, part func(limit int64) int64) *Rejection {
	for k, l := range q.ledgers {
		if l != nil && l.Used()+c[k] > part(q.limits[k]) {
			return q.overLocked(now, k, c, q.waitLocked(now, k, c))
		}
	}
	if q.concurrency > 0 && q.running >= part(q.concurrency) {
		return q.overLocked(now, ownAxes, c, q.slotWaitLocked())
	}
	for _, a := range q.caps {
		if a.usedByAll(now)+a.units(s[a.Unit]) > part(a.limit()) {
			rej := a.refusal(now, s, q.meanRun)
			rej.Own, rej.Tenant = true, q.owner
			return rej
		}
	}
	return nil
}
