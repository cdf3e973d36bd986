package upstreams

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/llmgov/llmgov/escrow/limits"
)

// Account is one at a provider, with the pools that have upstreams there. It is safe for concurrent use.
//
// A provider counts their models together, or each by itself, and does not say which: it shows in what is left. Until then a pool takes nothing of
// what others use, and goes by the least of the limits of their models if its own were not called yet. Pools of which models are counted together
// use together what others leave, and those that wait give each other their parts.
type Account struct {
	Pools []PoolAt
	*seen
}

// seen is what looks have shown of an account. It is kept from one Account to the next.
type seen struct {
	several atomic.Bool // a pool has more than one of models
	mu      sync.Mutex
	own     [][limits.Kinds]ledger // guarded by mu, as below: of all models, by pool
	models  []*counted
}

// counted is a model of a pool, which the provider may count by itself.
type counted struct {
	pool   int
	model  string
	looked time.Time
	took   [limits.Kinds]ledger // of own, what calls took that came here and have ended
	way    [limits.Kinds]way
	last   [limits.Kinds]look
	off    map[*counted]*[limits.Kinds]int // how many more looks differ from those of another one, by that, than are the same, within agreeing
}

// PoolAt is a pool at an account.
type PoolAt struct {
	Pool    int       // its index among all pools
	Members []*Member // those that have the account
	part    [limits.Kinds]float64
}

// Claim is how much a pool has used in the last minute, through all gateways, of which below 0 is unknown, and whether calls wait for more.
type Claim struct {
	Used  Told
	Waits bool
}

// look is how much was used of a limit of a minute by an answer.
type look struct {
	limit, used int64
	at          time.Time
}

const (
	// apartBy is the part of a limit by which looks at it differ if they are at two.
	apartBy = 10
	// sameTime is how far two looks may be apart to be compared.
	sameTime = time.Second
	// plenty is the part of a limit of which no pool uses up what is free before the next look. A limit that moves with use makes calls come in bursts.
	plenty = 10
	// least is the part of a pool's part that it may use in any case, so that its calls can show that they wait for more.
	least = 120
	// sharesLast is how long it counts what the pools of an account may use.
	sharesLast = 10 * time.Second
)

// NewAccounts are all accounts, given the sets of all pools and the pools' limits. A pool has the part of an account that its limits are of those of
// all pools there, and a member that of its pool's. A pool without a limit counts as much as the largest.
func NewAccounts(sets []*Set, pools []Told) map[string]*Account {
	all := map[string]*Account{}
	own := map[*Member]Told{}
	for i, s := range sets {
		for j, part := range s.parts() {
			m := s.Members[j]
			own[m] = s.limitsOf(m, pools[i], part)
			if all[m.Account] == nil {
				all[m.Account] = &Account{seen: &seen{}}
			}
			all[m.Account].add(i, m)
		}
	}
	for _, a := range all {
		a.divide(own)
	}
	return all
}

func (a *Account) add(pool int, m *Member) {
	n := len(a.Pools)
	if n == 0 || a.Pools[n-1].Pool != pool {
		a.Pools = append(a.Pools, PoolAt{Pool: pool})
		n++
	}
	a.Pools[n-1].Members = append(a.Pools[n-1].Members, m)
}

// divide sets the parts of pools and members, given the limits of these.
func (a *Account) divide(own map[*Member]Told) {
	a.own = make([][limits.Kinds]ledger, len(a.Pools))
	var largest Told
	for _, p := range a.Pools {
		for _, m := range p.Members {
			for k, limit := range own[m] {
				largest[k] = max(largest[k], limit)
			}
		}
	}
	for i := range a.Pools {
		p := &a.Pools[i]
		for k := range p.part {
			claim := func(m *Member) float64 { return float64(cmp.Or(own[m][k], largest[k], 1)) }
			for _, m := range p.Members {
				p.part[k] += claim(m)
			}
			for _, m := range p.Members {
				m.inPool[k] = claim(m) / p.part[k]
			}
		}
	}
}

// Keep takes over what looks have shown of the same pools before a reload.
func (a *Account) Keep(before *Account) { a.seen = before.seen }

// modelLocked is a model of a pool. One more than a pool may have takes the place of that which was looked at longest ago.
func (a *Account) modelLocked(pool int, model string) *counted {
	var oldest *counted
	known := 0
	for _, c := range a.models {
		switch {
		case c.pool != pool:
			continue
		case c.model == model:
			return c
		case oldest == nil || c.looked.Before(oldest.looked):
			oldest = c
		}
		known++
	}
	if known > 0 {
		a.several.Store(true)
	}
	if known == mostModels {
		a.models = slices.DeleteFunc(a.models, func(c *counted) bool {
			delete(c.off, oldest)
			return c == oldest
		})
	}
	c := &counted{pool: pool, model: model, off: map[*counted]*[limits.Kinds]int{}}
	for _, o := range a.models {
		c.off[o] = new([limits.Kinds]int)
		o.off[c] = c.off[o]
	}
	a.models = append(a.models, c)
	return c
}

// Several reports whether looks have shown several models of a pool. Until then nobody asks what calls of one Took.
func (a *Account) Several() bool { return a.several.Load() }

// Took books what a call of a model took, which began at a time and has ended.
func (a *Account) Took(now, began time.Time, pool int, model string, cost Told) {
	a.mu.Lock()
	defer a.mu.Unlock()
	at := slices.IndexFunc(a.models, func(c *counted) bool { return c.pool == pool && c.model == model })
	if at < 0 {
		return
	}
	took := &a.models[at].took
	for k := range took {
		took[k].advance(now)
		took[k].add(began, cost[k])
	}
}

// Look takes in what an answer of a member of one of the pools says is left for a model, given the claims of all. Late is how late it may be
// known what other gateways used. It reports whether the limits that count may have changed.
func (a *Account) Look(now time.Time, pool int, m *Member, model string, left *Remains, claims []Claim, late time.Duration, refused bool) (news bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := a.modelLocked(pool, model)
	c.looked = now
	var own, all Told
	for k := range left {
		for i := range claims {
			if used := claims[i].Used[k]; used >= 0 {
				a.own[i][k].note(now, used)
			}
		}
		own[k] = claims[pool].Used[k]
		if own[k] >= 0 {
			own[k], all[k] = a.ownLocked(now, c, limits.Axis(k), claims)
		}
	}
	news = m.Look(now, model, left, own, all, late, refused)
	for k, l := range left {
		if own[k] >= 0 && l.Limit > 0 && (l.Left > 0 || refused) {
			a.compareLocked(now, c, limits.Axis(k), l, m.way(now, model, limits.Axis(k)), claims)
		}
	}
	return news
}

// ownLocked is what pools have used of what the provider counts with a model, at most, and what these have used in all. What was used at
// other gateways, and by calls that have not ended, may be of any of their models.
func (a *Account) ownLocked(now time.Time, c *counted, k limits.Axis, claims []Claim) (used, all int64) {
	off := a.offLocked(k, c.pool, c)
	for i, claim := range claims {
		if i == c.pool || off[i] <= 0 {
			all += max(0, claim.Used[k])
		}
	}
	used = all
	for o, by := range c.off {
		if by[k] > 0 && (o.pool == c.pool || off[o.pool] <= 0) && claims[o.pool].Used[k] >= 0 {
			o.took[k].advance(now)
			used -= o.took[k].used
		}
	}
	return max(0, used), all
}

// compareLocked compares a look at a limit with those of other models of pools whose use is known.
func (a *Account) compareLocked(now time.Time, c *counted, k limits.Axis, l Left, way way, claims []Claim) {
	one := look{l.minute(l.Limit), l.minute(l.Limit - l.Left), now}
	before := c.last[k]
	steady := before.limit == one.limit && now.Sub(before.at) < time.Minute
	c.last[k] = one
	c.way[k] = way
	for _, o := range a.models {
		if o == c || claims[o.pool].Used[k] < 0 {
			continue
		}
		onTheWay := a.own[c.pool][k].since(0) // perhaps not counted by both yet
		if o.pool != c.pool {
			onTheWay += a.own[o.pool][k].since(0)
		}
		most := one.limit/apartBy + max(0, l.minute(onTheWay))
		least := one.used
		differ := steady && o.last[k].limit != one.limit && o.last[k].at.After(before.at) // else one limit may have moved
		same := now.Sub(o.last[k].at) < sameTime
		if same {
			least = min(least, o.last[k].used)
			differ = differ || max(one.used, o.last[k].used)-least > most
		}
		known := max(way, o.way[k])
		own := l.minute(a.surelyLocked(now, c, k).counted(known, &l) + a.surelyLocked(now, o, k).counted(known, &l))
		switch off := &c.off[o][k]; {
		case differ || own-least > most && least > one.limit/leastForeign: // of a bucket nothing is missing until there is too little
			*off = min(*off+1, agreeing)
		case same && least > 2*most: // less may be used of two limits as well
			*off = max(*off-1, -agreeing)
		}
	}
}

// surelyLocked is what a model surely took: all that its pool did, if that has no other.
func (a *Account) surelyLocked(now time.Time, c *counted, k limits.Axis) *ledger {
	if slices.ContainsFunc(a.models, func(o *counted) bool { return o != c && o.pool == c.pool }) {
		c.took[k].advance(now)
		return &c.took[k]
	}
	return &a.own[c.pool][k]
}

// offLocked is how far a pool's models, or only one, are from being counted together with those of each pool: the least that was shown of two of
// them; 0 is nothing.
func (a *Account) offLocked(k limits.Axis, pool int, only *counted) []int {
	off := make([]int, len(a.Pools))
	for _, c := range a.models {
		if c.pool != pool || only != nil && c != only {
			continue
		}
		for o, by := range c.off {
			if at := &off[o.pool]; by[k] != 0 && (*at == 0 || by[k] < *at) {
				*at = by[k]
			}
		}
	}
	return off
}

// Share divides what others leave of the account's limits between its pools, given their claims.
func (a *Account) Share(now time.Time, claims []Claim) {
	a.mu.Lock()
	defer a.mu.Unlock()
	rooms := make([]Told, len(a.Pools))
	for i := range a.Pools {
		rooms[i] = a.Pools[i].room(now)
	}
	for i := range a.Pools {
		var most Told
		for k := range most {
			if len(a.Pools) > 1 { // else what a share was is over
				most[k] = a.shareLocked(i, limits.Axis(k), rooms, claims)
			}
		}
		for _, m := range a.Pools[i].Members {
			m.share(now, most)
		}
	}
}

// room is what others leave of the limits that a pool's members declare; 0 is none.
func (p *PoolAt) room(now time.Time) (room Told) {
	for _, m := range p.Members {
		m.mu.Lock()
		said := m.largestLocked(now, true)
		m.mu.Unlock()
		for k, n := range said.Told {
			room[k] = max(room[k], n)
		}
	}
	return room
}

// shareLocked is how much a pool may use of a limit, given what others leave of the limits of each; 0 is no limit. Of what those use not that do not wait,
// each that waits has its part, and so has the pool if its calls come to wait. While some use more than theirs, what is free is for what the others lack.
func (a *Account) shareLocked(pool int, k limits.Axis, rooms []Told, claims []Claim) int64 {
	own := claims[pool].Used[k]
	if own < 0 {
		return 0
	}
	off := a.offLocked(k, pool, nil)
	room := rooms[pool][k]
	called := room > 0
	waits := func(i int) bool {
		return i == pool || claims[i].Waits && claims[i].Used[k] >= 0 && off[i] < 0
	}
	free := int64(0)
	idle := int64(0)         // used by those that do not wait
	all, waiting := 0.0, 0.0 // parts
	for i, c := range claims {
		if i != pool && (c.Used[k] < 0 || off[i] > 0) { // what is not known looks like use by others
			continue
		}
		if theirs := rooms[i][k]; theirs > 0 && (!called || off[i] < 0) {
			room = min(cmp.Or(room, theirs), theirs)
		}
		free -= c.Used[k]
		all += a.Pools[i].part[k]
		if waits(i) {
			waiting += a.Pools[i].part[k]
		} else {
			idle += c.Used[k]
		}
	}
	if room == 0 {
		return 0
	}
	free += room
	step := max(1, room/newsPart) // so that limits move less often
	idle += (step - idle%step) % step
	fair := func(i int) int64 { return int64(float64(room-idle) * a.Pools[i].part[k] / waiting) }
	lacking := int64(0)
	for i, c := range claims {
		if waits(i) {
			lacking += max(0, fair(i)-c.Used[k])
		}
	}
	most := fair(pool)
	switch lacks := most - own; {
	case lacks >= 0 && free > room/plenty && waiting == a.Pools[pool].part[k]:
		most = room
	case lacks > 0 && lacking-free > room/newsPart:
		most = own + int64(float64(max(0, free))*float64(lacks)/float64(lacking))
		most -= most % step
	}
	return max(most, int64(float64(room)*a.Pools[pool].part[k]/all/least), 1)
}
