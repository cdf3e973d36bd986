package upstreams

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/llmgov/llmgov/escrow/limits"
)

// Account is one at a provider, with the pools that have upstreams there. It is safe for concurrent use.
//
// A provider counts their models together, or each by itself, and does not say which: it shows in what is left. Until then a pool takes nothing of
// what others use, and goes by the limits of their models if its own were not called yet. Pools that are counted together use together what others
// leave, and those that wait give each other their parts.
type Account struct {
	Pools []PoolAt

	mu    sync.Mutex
	looks []poolLooks // guarded by mu, by pool
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

// poolLooks are what is known of how the provider counts a pool, by axis.
type poolLooks struct {
	own  [limits.Kinds]ledger
	way  [limits.Kinds]way
	last [limits.Kinds]look
	off  [][limits.Kinds]int // how many more looks differ from those of another pool, by that, than are the same, within agreeing
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
				all[m.Account] = &Account{}
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
	a.looks = make([]poolLooks, len(a.Pools))
	var largest Told
	for i, p := range a.Pools {
		a.looks[i].off = make([][limits.Kinds]int, len(a.Pools))
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
func (a *Account) Keep(before *Account) {
	before.mu.Lock()
	defer before.mu.Unlock()
	a.looks = slices.Clone(before.looks)
	for i := range a.looks {
		a.looks[i].off = slices.Clone(a.looks[i].off)
	}
}

// Look takes in what an answer of a member of one of the pools says is left for a model, given the claims of all. Late is how late it may be
// known what other gateways used. It reports whether the limits that count may have changed.
func (a *Account) Look(now time.Time, pool int, m *Member, model string, left *Remains, claims []Claim, late time.Duration, refused bool) (news bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	own := claims[pool].Used
	for k := range left {
		for i := range claims {
			if used := claims[i].Used[k]; used >= 0 {
				a.looks[i].own[k].note(now, used)
			}
		}
		if own[k] < 0 {
			continue
		}
		if l := left[k]; l.Limit > 0 && (l.Left > 0 || refused) {
			a.compareLocked(now, pool, limits.Axis(k), l, m.way(now, model, limits.Axis(k)), claims)
		}
		for i, c := range claims {
			if i != pool && c.Used[k] >= 0 && a.togetherLocked(pool, i, limits.Axis(k)) {
				own[k] += c.Used[k]
			}
		}
	}
	return m.Look(now, model, left, own, late, refused)
}

// compareLocked compares a look at a limit with those of other pools whose use is known.
func (a *Account) compareLocked(now time.Time, pool int, k limits.Axis, l Left, way way, claims []Claim) {
	is := &a.looks[pool]
	one := look{l.minute(l.Limit), l.minute(l.Limit - l.Left), now}
	is.last[k] = one
	is.way[k] = way
	for i := range a.looks {
		if i == pool || claims[i].Used[k] < 0 {
			continue
		}
		other := &a.looks[i]
		onTheWay := l.minute(is.own[k].since(0) + other.own[k].since(0)) // perhaps not counted by both yet
		most := one.limit/apartBy + max(0, onTheWay)
		least := one.used
		differ := false
		same := now.Sub(other.last[k].at) < sameTime
		if same {
			least = min(least, other.last[k].used)
			differ = other.last[k].limit != one.limit || max(one.used, other.last[k].used)-least > most
		}
		known := max(way, other.way[k])
		own := l.minute(is.own[k].counted(known, &l) + other.own[k].counted(known, &l))
		off := is.off[i][k]
		switch {
		case differ || own-least > most:
			off = min(off+1, agreeing)
		case same && least > 2*most: // less may be used of two limits as well
			off = max(off-1, -agreeing)
		}
		is.off[i][k] = off
		other.off[pool][k] = off
	}
}

// togetherLocked reports whether two pools are taken to be counted together.
func (a *Account) togetherLocked(one, other int, k limits.Axis) bool {
	return a.looks[one].off[other][k] <= 0
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
	is := &a.looks[pool]
	own := claims[pool].Used[k]
	if own < 0 {
		return 0
	}
	room := rooms[pool][k]
	looks := min(room, 1) // in room
	waits := func(i int) bool {
		return i == pool || claims[i].Waits && claims[i].Used[k] >= 0 && is.off[i][k] < 0
	}
	free := int64(0)
	idle := int64(0)         // used by those that do not wait
	all, waiting := 0.0, 0.0 // parts
	for i, c := range claims {
		if c.Used[k] < 0 || !a.togetherLocked(pool, i, k) { // what is not known looks like use by others
			continue
		}
		switch theirs := rooms[i][k]; {
		case theirs == 0 || is.off[i][k] >= 0:
			if room == 0 {
				room = theirs
				looks = min(theirs, 1)
			}
		case is.way[k] == bucket: // tells of others only while there is too little
			room = min(cmp.Or(room, theirs), theirs)
		default: // each has an estimate of its own of what others use
			room += theirs
			looks++
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
	room /= max(1, looks)
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
