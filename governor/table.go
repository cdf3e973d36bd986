package governor

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/budget"
	"github.com/llmgov/llmgov/escrow/fairness"
	"github.com/llmgov/llmgov/escrow/lengths"
	"github.com/llmgov/llmgov/escrow/limits"
	"github.com/llmgov/llmgov/governor/record"
	"github.com/llmgov/llmgov/governor/terms"
)

// table is a configuration with the state of its pools and tenants. It is immutable, but for what
// its pools and tenants point to, which lives on from one table to the next.
type table struct {
	number uint64 // counts up
	zone   *time.Location
	at     time.Time // when it was made
	recall *recall   // with which its tenants' limits begin

	recorded bool // what is decided follows from what is told
	pools    map[string]*poolView
	tenants  map[string]*tenantView
	inOrder  struct {
		pools   []*poolView
		tenants []*tenantView
	}
	gone []*pool // pools of earlier tables in which something may still run or count
}

// poolView is a pool as a table has it.
type poolView struct {
	*pool
	cfg     Pool
	weights tokenWeights // of cfg
	index   int
	names   []string // of cfg.Upstreams
}

// tenantView is a tenant, or a team, as a table has it.
type tenantView struct {
	*tenant
	table  *table
	access []access // by pool
	// budgeted says that it, or a tenant above it, has budgets.
	budgeted bool
	cfg      Tenant
	index    int
	parent   *tenantView // nil at the top
	teams    []*tenantView
}

// access is how a tenant reaches a pool.
type access struct {
	seat  *seat  // nil where it may not use the pool
	chain []link // nil before the first call; see tenantView.chain
}

// tenant is the state of a tenant or team, which lives on from table to table.
type tenant struct {
	name     string
	since    time.Time   // when a configuration first had it
	left     time.Time   // when a configuration first lacked it; for Apply alone
	all      *changes    // for its limits; nil if these are not shared
	roster   *roster     // its members; nil if it never had any
	underway int         // of a member, those on their way
	view     *tenantView // of the last table that has it
	load     load        // of a member

	// Its limits are made when the first call comes, because of many tenants most do not call. They are never given up.
	over *ownLimits            // over all pools
	in   map[string]*ownLimits // in single pools
}

// seat is a tenant's place in a pool.
type seat struct {
	tenant *tenant
	of     *seat // of a member, its tenant's, which has what is learned of calls, and parts of budgets; nil otherwise
	leaf   escrow.NodeID
	round  int // as a node's
	// gone says that the leaf is given up. A call that comes to it by an old table has to look in
	// the new one.
	gone bool
	// places are those of its calls' kind in pool.outputs and pool.runs.
	places struct{ outputs, runs lengths.Place }
	// used is the tenant's usage of the pool, in the tally; nil before the first call that took something.
	used    *record.Row
	members []budget.MemberID // its members in each of pool.shares
	// cached is the part of the tenant's prompts, in millionths, that came from a cache: a moving
	// average.
	cached int64
	// measured is the leaf of the meter; see measure.
	measured *fairness.Leaf
}

// Apply puts another configuration in force while calls run and wait. Whatever is still there by
// name keeps its state: usage, tags, debt, kept places, leases, lines.
//
// A call whose tenant or pool is gone is served to its end if it runs or waits in the pool's queue. If it waits for anything before
// that (a limit of its tenant or of one above, a grant of a budget, a Pause), it is refused at once with ReasonUnknown, and what it holds is given
// back. If it waits for the store's answer, it hears that first. The same holds if its tenant is Barred.
//
// Zone, Clock, Journal, Past, Shared, SharedLimits, SharedSlots and Observer are ignored. On an error nothing is changed.
func (g *Governor) Apply(cfg Config) error {
	cfg.Shared = g.shared
	cfg.SharedSlots = g.sharedSlots
	if err := cfg.Validate(); err != nil {
		return err
	}
	g.applying.Lock()
	now := g.lock()
	defer g.unlock()
	defer g.applying.Unlock() // before an Observer is told
	now = g.apply(now, cfg, &recall{tally: g.tally})
	g.followAll(now)
	g.review()
	g.line.wake((*call).mustLeave)
	g.events.fresh = true
	return nil
}

// apply makes a new table, without the lock as far as only an Apply changes what that reads, because tables may have very many tenants.
// Limits that fall hold from here on, those that rise once their pool is pumped. The new table is put in force in between, so that a call
// that finds its seat gone in the old one finds its new seat. It returns the time at which that was.
func (g *Governor) apply(now time.Time, cfg Config, r *recall) time.Time {
	var tb *table
	plans := make([]*plan, len(cfg.Pools))
	then := g.aside(func() {
		tb = g.newTable(now, cfg)
		for i, p := range tb.inOrder.pools {
			plans[i] = p.plan(tb)
		}
	})
	tb.recall = r
	now = g.forget(then, tb)
	for i, v := range tb.inOrder.tenants {
		v.configure()
		now = g.breathe(i, now)
	}
	for i, p := range tb.inOrder.pools {
		p.configure(now, tb, plans[i], g.zone, r, g.shared)
	}
	g.table = tb
	if !r.starting {
		g.events.add(Event{Kind: EventApplied, At: now, Revision: cfg.Revision, Config: &cfg})
		g.events.fresh = false // whoever tells of a call by the new table delivers it before, or else Apply when it is done
	}
	for _, p := range tb.inOrder.pools {
		g.pump(p.pool, now)
	}
	return now
}

// review makes the views of pools' meters anew that an apply has made stale.
func (g *Governor) review() {
	for _, p := range g.table.inOrder.pools {
		if p.measure.stale {
			g.reviewPool(p.pool)
		}
	}
}

// tenantChanges are the changes for tenants' limits; nil where these are not shared.
func (g *Governor) tenantChanges() *changes {
	if !g.sharedLimits {
		return nil
	}
	return g.changes
}

// newTable finds or makes the pools and tenants of a configuration. Those of a known name keep
// their state.
func (g *Governor) newTable(now time.Time, cfg Config) *table {
	tb := &table{number: 1, zone: g.zone, at: now, recorded: g.recorded, pools: map[string]*poolView{}, tenants: make(map[string]*tenantView, len(cfg.Tenants))}
	if before := g.table; before != nil { // only an Apply changes it
		tb.number = before.number + 1
	}
	for i, pc := range cfg.Pools {
		p := g.pools[pc.Name]
		if p == nil {
			p = newPool(pc.Name)
			p.shareSlots(g)
			p.changes = g.tenantChanges()
			g.pools[pc.Name] = p
		}
		v := &poolView{pool: p, cfg: pc, weights: countsOf(&pc.Weights), index: i}
		for _, u := range pc.Upstreams {
			v.names = append(v.names, u.Name)
		}
		tb.pools[pc.Name] = v
		tb.inOrder.pools = append(tb.inOrder.pools, v)
	}
	views := make([]tenantView, len(cfg.Tenants))
	accesses := make([]access, len(cfg.Tenants)*len(cfg.Pools))
	for i, tc := range cfg.Tenants {
		t := g.tenants[tc.Name]
		tc.Weight = cmp.Or(tc.Weight, 1)
		if tc.Group != "" {
			tc.GroupWeight = cmp.Or(tc.GroupWeight, 1)
		}
		if t == nil {
			t = &tenant{name: tc.Name, since: now, all: g.tenantChanges()}
			g.tenants[tc.Name] = t
		}
		if tc.Members != nil && t.roster == nil {
			t.roster = &roster{}
		}
		v := &views[i]
		*v = tenantView{tenant: t, table: tb, cfg: tc, index: i, access: accesses[i*len(cfg.Pools) : (i+1)*len(cfg.Pools)]}
		tb.tenants[tc.Name] = v
		tb.inOrder.tenants = append(tb.inOrder.tenants, v)
	}
	for _, v := range tb.inOrder.tenants {
		if up := tb.tenants[terms.TeamOf(v.name)]; up != nil {
			v.parent = up
			up.teams = append(up.teams, v)
		}
		for at := v; at != nil && !v.budgeted; at = tb.tenants[terms.TeamOf(at.name)] {
			v.budgeted = len(at.cfg.Budgets) > 0
		}
	}
	return tb
}

// forget drops the state of pools and tenants that have been gone for so long that nothing of it
// counts any more. A name that comes back sooner finds its usage.
func (g *Governor) forget(now time.Time, tb *table) time.Time {
	for name, p := range g.pools {
		switch {
		case tb.pools[name] != nil:
			p.left = time.Time{}
			continue
		case p.left.IsZero():
			p.left = now
		case now.Sub(p.left) > 2*escrow.Window && p.close(now):
			delete(g.pools, name)
			continue
		}
		tb.gone = append(tb.gone, p)
	}
	i := 0
	for name, t := range g.tenants {
		now = g.breathe(i, now)
		i++
		switch {
		case tb.tenants[name] != nil:
			t.left = time.Time{}
		case t.left.IsZero():
			t.left = now
		case now.Sub(t.left) > 2*escrow.Window && t.idle(now, false):
			delete(g.tenants, name)
		}
	}
	return now
}

// configure puts the table's limits and budgets in force for a tenant.
func (v *tenantView) configure() {
	v.view = v
	if v.over != nil {
		maps.DeleteFunc(v.in, func(pool string, _ *ownLimits) bool { return !v.table.has(pool) })
		v.configureAt(v.table.at, v.table.at)
	}
}

// configureAt is configure at now. A limit that begins does so as of since.
func (v *tenantView) configureAt(since, now time.Time) {
	bound := 0
	by := calledBy{}
	for _, p := range v.table.inOrder.pools {
		if !v.present(p) {
			continue
		}
		granted := p.cfg.TenantLimits == LimitsLeased
		bound = max(bound, p.cfg.MaxQueue)
		closed := p.cfg.OnLoss != LossOpen
		by = calledBy{by.asking || !granted, by.granted || granted, by.closed || closed}
		if o := v.ownIn(p.name); o != nil { // even if it has no limits any more: calls may wait in it
			o.configure(since, v.cfg.InPool[p.name].Rules(), p.cfg.MaxQueue, calledBy{!granted, granted, closed})
		}
	}
	v.over.configure(since, v.cfg.Limits().Rules(), bound, by)
	v.over.configureCaps(now, v.cfg.Budgets, v.table.zone, v.table.recall)
}

// ownIn are a tenant's limits in a pool; nil if it has none there, and had none.
func (v *tenantView) ownIn(pool string) *ownLimits {
	if _, limited := v.cfg.InPool[pool]; limited && v.in[pool] == nil {
		v.in[pool] = newOwnLimits(v.name, pool, v.all)
	}
	return v.in[pool]
}

// has reports whether a pool is there, or was until lately.
func (tb *table) has(name string) bool {
	return tb.pools[name] != nil || slices.ContainsFunc(tb.gone, func(p *pool) bool { return p.name == name })
}

// own returns a tenant's limits over all pools and, if it has any, in one pool. They are made if this is the first call.
func (v *tenantView) own(now time.Time, pool string) (over, in *ownLimits) {
	if v.over == nil {
		v.over = newOwnLimits(v.name, "", v.all)
		v.in = map[string]*ownLimits{}
		v.view.configureAt(v.since, now) // as if it had been made then
	}
	return v.over, v.ownIn(pool)
}

// seen is own for those who only look. Where calls are recorded it makes no limits: they would begin at another time when these are decided again.
func (v *tenantView) seen(now time.Time, pool string) (over, in *ownLimits) {
	if v.table.recorded {
		v = v.asMade(now)
	}
	return v.own(now, pool)
}

// asMade is the tenant with its limits as they would be made by a call now, if they are not.
func (v *tenantView) asMade(now time.Time) *tenantView {
	if v.over != nil {
		return v
	}
	unused := *v
	unused.tenant = &tenant{name: v.name, since: v.since, view: &unused}
	unused.own(now, "")
	return &unused
}

// made are all of a tenant's limits in force: over all pools, and in single ones. There are none before the first call.
func (v *tenantView) made() (list []*ownLimits) {
	if v.over == nil {
		return nil
	}
	list = append(list, v.over)
	for _, p := range v.table.inOrder.pools {
		if _, limited := v.cfg.InPool[p.name]; limited && v.in[p.name] != nil && v.present(p) {
			list = append(list, v.in[p.name])
		}
	}
	return list
}

// idle reports whether no call of the tenant runs or waits, and nothing that was used of a budget counts any more.
func (t *tenant) idle(now time.Time, gone bool) bool {
	return t.over == nil || t.over.idle(now, gone)
}

// chain lists the limits that hold for the tenant's calls to a pool: in the pool and over all pools, its own and those of the tenants
// above it. There are none in a pool to which neither it nor its teams call.
func (v *tenantView) chain(now time.Time, p *poolView) []link {
	at := &v.access[p.index]
	if at.chain == nil && v.present(p) {
		at.chain = v.chainTo(now, p.name, (*tenantView).own)
	}
	return at.chain
}

// seenChain is chain for those who only look; see seen.
func (v *tenantView) seenChain(now time.Time, p *poolView) []link {
	if c := v.access[p.index].chain; c != nil || !v.present(p) {
		return c
	}
	return v.chainTo(now, p.name, (*tenantView).seen)
}

// chainTo is the chain, of limits as own or seen has them.
func (v *tenantView) chainTo(now time.Time, pool string, own func(*tenantView, time.Time, string) (over, in *ownLimits)) []link {
	var chain []link
	via := limits.Via{Team: v.name, Weight: 1}
	for ; v != nil; v = v.parent {
		via.Shared = len(v.teams) > 0 || v.cfg.Members != nil
		over, in := own(v, now, pool)
		if _, limited := v.cfg.InPool[pool]; limited {
			chain = append(chain, link{in, via})
		}
		chain = append(chain, link{over, via})
		via.Team = v.name
		via.Weight = v.cfg.Weight
	}
	return chain
}

// calls reports whether calls to a pool may come in the tenant's own name.
func (v *tenantView) calls(p *poolView) bool { return !v.cfg.NoCalls && v.cfg.MayUse(p.name) }

// present reports whether they may come in its own name, or in that of a team.
func (v *tenantView) present(p *poolView) bool {
	return v.calls(p) || slices.ContainsFunc(v.teams, func(t *tenantView) bool { return t.present(p) })
}

// serves reports whether find has a spot for a request that is not Forced, and its tenant is not Barred. It makes no member.
func (tb *table) serves(req *Request) bool {
	owner, _, member := terms.CutMember(req.Tenant)
	v := tb.tenants[owner]
	p := tb.pools[req.Pool]
	if v == nil || p == nil || v.cfg.Barred || member && v.cfg.Members == nil {
		return false
	}
	return v.access[p.index].seat != nil
}

// spot is a tenant in a pool.
type spot struct {
	tenant *tenantView
	pool   *poolView
	access *access
}

// find returns the spot of a request, whose tenant has passed once it is not used any more. It is empty if the tenant may not use the pool, or one of them is unknown.
func (tb *table) find(now time.Time, req *Request) spot {
	v := tb.caller(now, req.Tenant, req.Pool)
	if v == nil && req.Forced { // it is done already, even if its tenant has no members any more
		v = tb.tenants[terms.OwnerOf(req.Tenant)]
	}
	if v == nil {
		return spot{}
	}
	p := v.table.pools[req.Pool] // a member may be in a newer table already
	if p == nil {
		return spot{}
	}
	if v.access[p.index].seat == nil {
		v.passed()
		return spot{}
	}
	return spot{tenant: v, pool: p, access: &v.access[p.index]}
}
