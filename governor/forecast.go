package governor

import (
	"math"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/budget"
	"github.com/llmgov/llmgov/escrow/limits"
	"github.com/llmgov/llmgov/escrow/placement"
	"github.com/llmgov/llmgov/governor/refusal"
)

// Forecast describes the limits that a call would meet now.
type Forecast struct {
	// Checks are the limits that hold for the call, in the order in which they are asked.
	Checks []Check
	// Refused is why the call would be refused; nil if it would not, and then it would go after
	// Wait, the longest of its waits.
	Refused *Refusal
	Wait    time.Duration
	// Run is how long the call is expected to run once it goes; 0 if nothing is known of calls like it.
	Run time.Duration

	// Upstream is where the call would go now, if the pool's upstreams have limits of their own; "" if it would not go now.
	// Upstreams are all of them, in the order of the configuration.
	Upstream  string
	Upstreams []UpstreamForecast

	decided bool // the decision is known; only how the limits stand is asked
}

// Check is one limit as a call would meet it.
type Check struct {
	// Tenant and Pool say whose limit it is: a tenant's over all pools, a tenant's in one pool, or,
	// without a Tenant, a pool's. Axis is what it limits.
	Tenant, Pool, Axis string
	// Budget is set for a budget; Limit, Used and Asked are in its unit.
	Budget             Budget
	Limit, Used, Asked int64
	// Wait is how long it takes until there is room for the call behind those that wait already, as
	// far as can be known; 0 is now.
	Wait time.Duration
	// Room is how many calls in flight the servers behind an adaptive limit on them have room for; 0 if they do not say.
	Room int64
}

// Explain describes the limits that a call would meet now, and changes nothing. It reports false if the tenant or
// the pool does not exist, or the tenant may not use the pool.
func (g *Governor) Explain(req Request) (Forecast, bool) {
	now := g.look()
	defer g.unlock()
	return g.foretell(now, req, Forecast{})
}

// prospect is a call that is not made, but could be.
type prospect struct {
	call
	maxWait time.Duration
}

// foretell asks all limits about a call, and adds their answers to a forecast. It returns that
// as it is, and false, if nothing is known of the tenant or the pool.
func (g *Governor) foretell(now time.Time, req Request, o Forecast) (Forecast, bool) {
	req.Input = bounded(req.Input)
	req.Output = bounded(req.Output)
	p := &prospect{call: call{g: g, req: req, now: now}}
	p.spot = g.table.find(now, &p.req)
	if p.tenant == nil {
		return o, false
	}
	defer p.tenant.passed()
	p.ask(&o)
	return o, true
}

// ask asks all limits.
func (p *prospect) ask(o *Forecast) {
	p.maxWait = p.tenant.cfg.MaxWait
	if p.req.MaxWait != nil {
		p.maxWait = min(p.maxWait, *p.req.MaxWait)
	}
	if p.g.Draining() && o.Refused == nil {
		o.Refused = refuseDraining(p.req.Tenant)
	}
	cost := p.pool.weights.holdCost(&p.req)
	p.holds = &holds{spend: p.pool.expected(p.tenant, &p.req, true)}
	p.holds.chain = p.tenant.seenChain(p.now, p.pool)
	for i := range p.holds.chain {
		p.holds.chain[i].foretell(p.now, limits.Call{Cost: cost, Below: p.tenant.below(&p.req), MaxWait: p.maxWait}, p.g.consults(p.pool), o)
	}
	for i := range p.holds.chain {
		p.foretellBudgets(i, o)
	}
	p.foretellPool(o)
	if !p.goes(o) {
		o.Upstream = ""
	}
	if o.Refused != nil && !o.decided { // if it is, the refusal belongs to others, who set it
		inPool(o.Refused, p.pool.name)
	}
}

// foretellBudgets adds the answers of the budgets of the i-th link.
func (p *prospect) foretellBudgets(i int, o *Forecast) {
	own := p.holds.chain[i].own
	if i == 0 {
		p.holds.meanRun = own.set.MeanRun()
	}
	o.spend(p.now, own.caps, p.holds, nobody, budgetsOf{tenant: own.owner})
}

// refuse keeps the first refusal: the one that the call would get.
func (o *Forecast) refuse(rej *Refusal) {
	if o.Refused == nil {
		o.Refused = rej
	}
}

// foretell adds the answers of own limits. asks says that such a call asks the store, which is not
// asked for this.
func (k *link) foretell(now time.Time, c limits.Call, asks bool, o *Forecast) {
	own := k.own
	own.advance(now)
	c.Via = k.via
	f := own.set.Forecast(c)
	coming := f.Answer.Coming
	longest := time.Duration(math.MaxInt64)
	if coming {
		longest = grantWait
		if asks {
			longest = 0
		}
	}
	own.checks(&f, longest, o)
	waiting, _ := own.set.InLine()
	switch {
	case f.Answer.Verdict == limits.Admitted:
	case asks && coming && waiting == 0:
	case asks && !coming && (c.MaxWait <= 0 || f.Rolling > c.MaxWait):
		axis := own.set.Blame(f.Answer.Cost)
		o.refuse(own.refuseLimit(axis, f.Answer.Cost, max(own.set.WaitOn(axis, f.Total), askAgain)))
	case f.Answer.Verdict == limits.Refused:
		o.refuse(own.refuseLack(now, f.Answer.Cost, f.Answer.Lack, k.via))
	default:
		wait := max(f.Rolling, f.Waits[limits.Concurrency])
		o.Wait = max(o.Wait, min(longest, wait)) // waits of several limits overlap
	}
}

// checks adds the limits as a call would meet them, none with a wait longer than longest.
func (own *ownLimits) checks(f *limits.Forecast, longest time.Duration, o *Forecast) {
	for k := range limits.Axis(limits.Axes) {
		if limit := own.set.Limit(k); limit > 0 {
			o.Checks = append(o.Checks, Check{
				Tenant: own.owner, Pool: own.pool, Axis: own.set.Name(k),
				Limit: limit, Used: own.set.Used(k), Asked: own.set.Amount(k, f.Answer.Cost), Wait: min(longest, f.Waits[k]),
			})
		}
	}
}

// budgetsOf says whose budgets a call meets: a tenant's own, or those of a pool that the tenant uses.
type budgetsOf struct{ tenant, pool string }

// spend adds the answers of budgets.
func (o *Forecast) spend(now time.Time, accounts []*account, b *holds, member func(i int) budget.MemberID, of budgetsOf) {
	var worst *Refusal
	for i, a := range accounts {
		c := Check{Pool: of.pool, Axis: a.Name(), Budget: a.Budget, Limit: a.Limit, Used: a.usedByAll(now) * a.scale, Asked: b.spend[a.Unit]}
		if of.pool == "" {
			c.Tenant = of.tenant
		}
		if o.decided {
			o.Checks = append(o.Checks, c)
			continue
		}
		a = a.ifAsked() // as if the store had been asked for a grant
		_, ans := a.hold(now, member(i), b)
		b.beyond = b.beyond || !ans.OK && a.Background
		if !ans.OK && !a.Background {
			rej := a.refusalOf(now, member(i), b.spend, ans, b.meanRun)
			ofTenant(rej, of.tenant)
			c.Wait = rej.RetryAfter
			worst = worse(worst, rej)
		}
		o.Checks = append(o.Checks, c)
	}
	if worst != nil {
		o.refuse(worst)
	}
}

// foretellPool adds the answer of the pool.
func (p *prospect) foretellPool(o *Forecast) {
	pool := p.pool.pool
	seat := p.access.seat
	pool.look(true)
	defer pool.look(false)
	member := func(i int) budget.MemberID { return seat.whole().members[i] }
	o.spend(p.now, pool.shares, p.holds, member, budgetsOf{p.tenant.name, pool.name})
	call := escrow.Call{
		Leaf: seat.leaf,
		Most: placement.PoolCost(pool.weights.holdCost(&p.req)), MaxWait: p.maxWait,
		Via: pool.upstreams.MaskOf(p.req.Listed, p.req.Via), Conversation: p.req.Conversation,
	}
	p.rank(&call)
	o.Run = pool.remaining(pool.expect(p.tenant, seat, &p.req, &call), 0, 0, float64(pool.speed)/1000)
	if rej := pool.refusalInOutage(p.now, p.tenant.name, &call); rej != nil {
		o.refuse(rej)
	}
	ans := pool.escrow.Foretell(p.now, call)
	there := p.foretellUpstreams(&call, ans, o)
	own := ans
	if there > 0 { // it waits for its upstreams, not for the pool's own limits
		own.Wait = 0
	}
	o.checkPool(p.now, pool, &call, &own)
	switch ans.Verdict {
	case escrow.Admitted:
	case escrow.Queued:
		o.Wait = max(o.Wait, ans.Wait, there, time.Millisecond) // even if nothing is known of how long
	default:
		o.refuse(pool.refusal(p.now, p.tenant.tenant, &call, ans))
	}
}

// checkPool adds the limits of a pool as the call would meet them.
func (o *Forecast) checkPool(now time.Time, p *pool, call *escrow.Call, ans *escrow.Answer) {
	waits := func(k escrow.Axis) time.Duration {
		if ans.Verdict != escrow.Admitted && ans.Axis == k {
			return ans.Wait
		}
		return 0
	}
	for i, a := range p.books(now).Axes {
		k := escrow.Axis(i)
		if a.On {
			o.Checks = append(o.Checks, Check{
				Pool: p.name, Axis: k.String(), Limit: a.Limit, Used: a.Used, Asked: min(call.Most[k], a.Limit), Wait: waits(k),
			})
		}
	}
	limit, used := p.slots.InUse()
	if limit == 0 {
		return
	}
	slots := Check{Pool: p.name, Axis: refusal.AxisConcurrency, Limit: limit, Used: used, Asked: 1, Wait: waits(escrow.Slots), Room: p.room(now)}
	for _, s := range p.slots.Standings(call) {
		rule := Check{Pool: p.name, Axis: refusal.RuleAxis(s.Rule), Limit: s.Limit, Used: s.Used, Asked: 1}
		if s.Keeps { // a slot is free, but not for this call
			rule.Wait = slots.Wait
			slots.Wait = 0
		}
		o.Checks = append(o.Checks, rule)
	}
	o.Checks = append(o.Checks, slots)
}

// Reasons tells how all limits stand that hold for a call that has just been refused. The limit
// that refused it is shown as it stood then. It changes nothing, and costs little more than the
// refusal did.
func (g *Governor) Reasons(req Request, rej *Refusal) Forecast {
	now := g.look()
	defer g.unlock()
	o, _ := g.foretell(now, req, Forecast{Refused: rej, decided: true})
	if rej.Reason == ReasonQueueFull || rej.Reason == ReasonOverloaded {
		return o // rej's figures are those of the queue
	}
	for i := range o.Checks {
		if c := &o.Checks[i]; c.Of(rej) {
			c.Limit = rej.Limit
			c.Used = rej.Used
			c.Asked = rej.Asked
			c.Wait = rej.RetryAfter
		}
	}
	return o
}

// Of reports whether rej is a refusal by this limit.
func (c *Check) Of(rej *Refusal) bool {
	of := ""
	pool := rej.Pool
	if rej.Own {
		of = rej.Tenant
		if !rej.InPool {
			pool = ""
		}
	}
	if c.Tenant != of || c.Pool != pool {
		return false
	}
	if rej.Budget.Limit > 0 {
		return c.Budget == rej.Budget
	}
	return c.Budget.Limit == 0 && c.Axis == rej.Axis
}
