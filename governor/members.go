package governor

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/governor/terms"
)

// Members of a tenant are callers that no configuration lists. Each is a tenant of its own, below theirs, that is made when it first calls and
// forgotten when nothing of it counts any more. In a pool its leaf hangs below its tenant's, so that siblings, the meter of shares and other
// processes see one tenant.

// forgetStride is how many members are looked at, whether they may be forgotten, when a new one comes.
const forgetStride = 8

// roster are the members of a tenant.
type roster struct {
	since uint64      // number of the newest table that was seen
	of    *tenantView // their tenant there; nil if it has no members there
	named map[string]*member
	list  []*member // in no order
	sweep int       // index in list of the next to be looked at
}

// member is one of them, as the table of its roster has it.
type member struct {
	*tenantView
	called string    // without its tenant
	seen   time.Time // when it was last asked for
	until  time.Time // when its configuration changes by itself; the zero time is never
}

// view is a tenant or team, or a member of one. A member is made if it is new. If a pool is named, it gets a leaf there for a call, and stays until
// that has passed.
func (tb *table) view(now time.Time, name string, pool string) *tenantView {
	if v := tb.tenants[name]; v != nil {
		return v
	}
	of, called := tb.divided(name)
	if of == nil {
		return nil
	}
	return of.member(now, called, pool)
}

// divided is the tenant with members that a member's name is of, and the name without it; nil if there is none.
func (tb *table) divided(name string) (of *tenantView, called string) {
	owner, called, is := terms.CutMember(name)
	of = tb.tenants[owner]
	if !is || of == nil || of.cfg.Members == nil {
		return nil, ""
	}
	return of, called
}

// look is view for those who only look. A member that is new is described as it would be, and not made.
func (tb *table) look(now time.Time, name string) *tenantView {
	v, called := tb.divided(name)
	if v == nil {
		return tb.tenants[name]
	}
	c := v.roster
	c.follow(v.table.number, v)
	if c.of == nil {
		return nil
	}
	m := c.named[called]
	if m == nil {
		return c.newMember(now, called, nil).tenantView
	}
	c.update(now, m)
	return m.tenantView
}

// caller is who a call counts as that comes in a name: one in the name of a tenant with members counts as a member without a name.
func (tb *table) caller(now time.Time, name string, pool string) *tenantView {
	if v := tb.tenants[name]; v != nil && v.cfg.Members != nil {
		return v.member(now, "", pool)
	}
	return tb.view(now, name, pool)
}

// member is one of the tenant's members, as the newest table has it; nil if the tenant has none there.
func (v *tenantView) member(now time.Time, called string, pool string) *tenantView {
	c := v.roster
	c.follow(v.table.number, v)
	if c.of == nil {
		return nil
	}
	m := c.named[called]
	if m == nil {
		c.forget(now)
		if c.full() {
			called = ""
			m = c.named[called]
		}
	}
	if m == nil {
		m = c.add(now, called)
	}
	c.update(now, m)
	m.seen = now
	if p := c.of.table.pools[pool]; p != nil {
		m.sit(p)
		m.underway++
	}
	return m.tenantView
}

// newMember makes a member whose limits are shared by all, of which nobody else knows yet.
func (c *roster) newMember(now time.Time, called string, all *changes) *member {
	t := &tenant{name: terms.MemberName(c.of.name, called), since: now, all: all}
	m := &member{called: called, tenantView: &tenantView{tenant: t}}
	c.describe(now, m)
	return m
}

// update brings a member up to date.
func (c *roster) update(now time.Time, m *member) {
	c.move(now, m)
	if !m.until.IsZero() && !now.Before(m.until) {
		c.describe(now, m)
	}
}

// add makes a member that stays.
func (c *roster) add(now time.Time, called string) *member {
	m := c.newMember(now, called, c.of.all)
	if c.named == nil {
		c.named = map[string]*member{}
	}
	c.named[called] = m
	c.list = append(c.list, m)
	return m
}

// describe gives a member a view, as the roster's table has it at now, and puts its limits in force.
func (c *roster) describe(now time.Time, m *member) {
	v := &tenantView{tenant: m.tenant, table: c.of.table, parent: c.of, index: -1, access: m.access}
	v.cfg, m.until = c.of.cfg.Member(m.called, now)
	v.budgeted = c.of.budgeted || len(v.cfg.Budgets) > 0
	if m.table != c.of.table {
		v.access = make([]access, len(c.of.access))
	}
	m.tenantView = v
	m.view = v
	if m.over != nil {
		v.configureAt(now, now)
	}
}

// follow goes over to a newer table, in which the tenant is v; nil if it has no members there. Each of them follows by move.
func (c *roster) follow(number uint64, v *tenantView) {
	if number > c.since {
		c.since = number
		c.of = v
	}
}

// move has a member follow its roster.
func (c *roster) move(now time.Time, m *member) {
	was := m.tenantView
	if c.of != nil {
		if was.table == c.of.table {
			return
		}
		c.describe(now, m)
	}
	for i := range was.access {
		if st := was.access[i].seat; st != nil {
			c.reseat(m, was.table.inOrder.pools[i], st)
		}
	}
}

// reseat gives a member its seat in a pool again, unless its tenant's leaf there is another one now.
func (c *roster) reseat(m *member, p *poolView, st *seat) {
	if c.of != nil {
		at := c.of.table.pools[p.name]
		if at != nil && c.of.access[at.index].seat == st.of && !st.of.gone {
			p.escrow.Update(st.leaf, m.node())
			m.access[at.index].seat = st
			return
		}
	}
	st.gone = true
	p.escrow.Forgive(st.leaf)
	name := nodeName{memberNode, strconv.Itoa(int(st.leaf))} // its own could come again before it is removed
	p.tree.retired = append(p.tree.retired, &node{name: name, id: st.leaf, up: st.of.leaf})
}

// sit gives a member a seat in a pool. It gets none while its tenant has none.
func (m *member) sit(p *poolView) {
	of := m.parent.access[p.index].seat
	if m.access[p.index].seat != nil || of == nil {
		return
	}
	if !of.gone {
		m.access[p.index].seat = &seat{tenant: m.tenant, of: of, leaf: p.escrow.Add(of.leaf, m.node())}
	}
}

// node is the member's claim on its tenant's share.
func (m *member) node() escrow.Node {
	return escrow.Node{Weight: m.cfg.Weight, Credit: m.cfg.Credit, Below: m.cfg.Bands(), Joined: true}
}

// passed says that a call by a view, which knows a pool, is decided.
func (v *tenantView) passed() {
	if v.index < 0 {
		v.underway--
	}
}

// forget drops some of the members of which nothing counts any more. If there are as many members as there may be and it finds none among those
// that it looks at, it drops the one of these that has not called for longest, and that holds and tells nobody anything: what it has used of
// budgets the tally has, as far as it has a row, while a store would count what is told of it twice.
func (c *roster) forget(now time.Time) {
	var longest *member
	at := 0
	for range min(forgetStride, len(c.list)) {
		c.sweep = (c.sweep + 1) % len(c.list)
		m := c.list[c.sweep]
		switch {
		case m.called == "" && c.full(): // which would make no room
		case now.Sub(m.seen) <= 2*escrow.Window || m.underway > 0:
		case m.idle(now, now.Sub(m.seen) > terms.MemberLife):
			if c.drop(now, c.sweep); len(c.list) == 0 {
				return
			}
		case m.over.sharing == nil && !m.over.holds() && (longest == nil || m.seen.Before(longest.seen)):
			longest, at = m, c.sweep
		}
	}
	if longest != nil && c.full() { // so nobody was dropped
		c.drop(now, at)
	}
}

// full reports whether as many are told apart as may be, beside those that name none.
func (c *roster) full() bool {
	n := len(c.list)
	if c.named[""] != nil {
		n--
	}
	return n >= terms.MostMembers
}

// drop drops a member of the list, unless its calls still count in a pool.
func (c *roster) drop(now time.Time, at int) {
	m := c.list[at]
	if !m.rises(now) {
		return
	}
	delete(c.named, m.called)
	last := len(c.list) - 1
	c.list[at] = c.list[last]
	c.list[last] = nil
	c.list = c.list[:last]
}

// rises gives up the member's seats, as far as nothing is lost by it, and reports whether that were all.
func (m *member) rises(now time.Time) bool {
	all := true
	for _, p := range m.table.inOrder.pools {
		if st := m.access[p.index].seat; st != nil {
			st.gone = p.escrow.Remove(now, st.leaf)
			all = all && st.gone
			if st.gone {
				m.access[p.index].seat = nil
			}
		}
	}
	return all
}

// books is the name in which usage is written down: of a member without budgets its tenant's, because there may be very many in a month.
func (v *tenantView) books() string {
	if v.index < 0 && len(v.cfg.Budgets) == 0 {
		return v.parent.name
	}
	return v.name
}

// each are all tenants and teams of the table, and their members.
func (tb *table) each(yield func(*tenantView) bool) {
	for _, v := range tb.inOrder.tenants {
		if !yield(v) {
			return
		}
		for _, m := range v.members() {
			if !yield(m) {
				return
			}
		}
	}
}

// members are the tenant's members that have called lately.
func (v *tenantView) members() (list []*tenantView) {
	if v.cfg.Members == nil {
		return nil
	}
	for _, m := range v.roster.list {
		list = append(list, m.tenantView)
	}
	return list
}

// load is how many tokens somebody's calls take a minute: those of calls that have ended, which count less with time.
type load struct {
	tokens float64
	at     time.Time
}

func (l *load) of(now time.Time) float64 { return l.tokens * math.Exp(-now.Sub(l.at).Minutes()) }

func (l *load) add(now time.Time, tokens int64) { *l = load{l.of(now) + float64(tokens), now} }

// MemberLoad is a member by its full name, how it is called there, and how many tokens its calls took in the last minute, about.
type MemberLoad struct {
	Name, Called string
	Tokens       float64
}

// Heaviest are the members of a tenant that took the most lately, the heaviest first, and how many there are.
func (g *Governor) Heaviest(tenant string, most int) (list []MemberLoad, total int) {
	now := g.look()
	defer g.unlock()
	v := g.table.tenants[tenant]
	if v == nil || most <= 0 {
		return nil, 0
	}
	all := v.members()
	for i, m := range all {
		if tokens := m.load.of(now); len(list) < most || tokens > list[most-1].Tokens {
			_, called, _ := terms.CutMember(m.name)
			list = append(list, MemberLoad{m.name, called, tokens})
			slices.SortFunc(list, func(a, b MemberLoad) int { return cmp.Or(cmp.Compare(b.Tokens, a.Tokens), cmp.Compare(a.Name, b.Name)) })
			list = list[:min(most, len(list))]
		}
		now = g.blink(i, now)
	}
	return list, len(all)
}

// followAll has all members go over to the table in force.
func (g *Governor) followAll(now time.Time) {
	tb := g.table
	for name, t := range g.tenants {
		c := t.roster
		if c == nil {
			continue
		}
		v := tb.tenants[name]
		if v != nil && v.cfg.Members == nil {
			v = nil
		}
		c.follow(tb.number, v)
		list := c.list
		if v == nil {
			c.named = nil
			c.list = nil
		}
		for i := 0; i < len(list); i++ {
			c.move(now, list[i])
			now = g.breathe(i, now)
			if v != nil {
				list = c.list // others may have come or gone
			}
		}
	}
}
