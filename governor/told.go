package governor

import (
	"math"
	"slices"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/limits"
	"github.com/llmgov/llmgov/escrow/slots"
)

// Told is one thing that whoever shares limits with other processes told a governor that is Recorded (EventTold). Retell tells another one the same.
// Which fields say something depends on the Verb. Times are counted from the governor's start; those of what nobody said are the least there is.
type Told struct {
	Verb Verb `json:"do"`
	// Pool is of which the rates, slots and budgets are, and Pair which of its axes. Limits are a tenant's or an upstream's, by their number: they
	// are numbered as they are made. Call is the call's number.
	Pool   string `json:"pool,omitempty"`
	Pair   int    `json:"pair,omitempty"`
	Limits int    `json:"limits,omitempty"`
	Call   uint64 `json:"call,omitempty"`
	// Name is a tenant's, or that by which an adaptive limit knows itself.
	Name  string        `json:"name,omitempty"`
	Sign  int           `json:"sign,omitempty"`
	Now   time.Duration `json:"now,omitempty"`
	Until time.Duration `json:"until,omitempty"`
	// Then is the instant that begins after the answer to a call.
	Then  time.Duration `json:"then,omitempty"`
	Nodes int           `json:"nodes,omitempty"`
	Worse bool          `json:"worse,omitempty"` // forgot, or unreadable
	Wait  time.Duration `json:"wait,omitempty"`

	Rates  *ToldRates   `json:"rates,omitempty"`
	Parts  []Grant      `json:"parts,omitempty"`
	Slots  *slots.Grant `json:"slots,omitempty"`
	Shares []ToldShare  `json:"shares,omitempty"`
	Takes  []ToldTake   `json:"takes,omitempty"`
}

// Verb is what was done.
type Verb string

// The verbs are the methods of SharedPool, SharedLimits, SharedSlots, SharedCall and Governor that change what is decided.
const (
	ratesAllow   Verb = "rates"
	ratesStop    Verb = "rates stop"
	ratesLearn   Verb = "rates learn"
	ratesAlone   Verb = "rates alone"
	limitsAllow  Verb = "limits"
	limitsKeep   Verb = "limits keep"
	limitsAlone  Verb = "limits alone"
	limitsRest   Verb = "limits rest"
	limitsGiveUp Verb = "limits give up"
	limitsRecall Verb = "limits recall"
	limitsLapse  Verb = "limits lapse" // whoever looked at them found that their grants had expired
	slotsAllow   Verb = "slots"
	slotsClaim   Verb = "slots claim"
	slotsAlone   Verb = "slots alone"
	slotsRest    Verb = "slots rest"
	slotsRecall  Verb = "slots recall"
	callNext     Verb = "call next"
	callLet      Verb = "call let"
	callRefuse   Verb = "call refuse"
	callLose     Verb = "call lose"
	signGood     Verb = "sign"
	askedOf      Verb = "ask"
)

// Verbs are all of them.
var Verbs = []Verb{
	ratesAllow, ratesStop, ratesLearn, ratesAlone, limitsAllow, limitsKeep, limitsAlone, limitsRest, limitsGiveUp, limitsRecall, limitsLapse,
	slotsAllow, slotsClaim, slotsAlone, slotsRest, slotsRecall, callNext, callLet, callRefuse, callLose, signGood, askedOf,
}

// ToldRates is a PoolGrant.
type ToldRates struct {
	Allowances [2]*ToldAllowance `json:"allow"`
	// Stale says that other limits are in force than those that were reported.
	Stale  bool       `json:"stale,omitempty"`
	Shares []ToldNode `json:"nodes,omitempty"`
	Others *[2]int64  `json:"others,omitempty"`
	Level  float64    `json:"level,omitempty"`
}

// ToldAllowance is an escrow.Allowance.
type ToldAllowance struct {
	Since time.Duration `json:"since"`
	Until time.Duration `json:"until"`
	Level int64         `json:"level,omitempty"`
	Rate  int64         `json:"rate,omitempty"`
	Spent int64         `json:"spent,omitempty"`
	Spare int64         `json:"spare,omitempty"`
	Saved int64         `json:"saved,omitempty"`
}

// ToldNode is a NodeShare, of a node by its path.
type ToldNode struct {
	Path string `json:"path"`
	PPM  int64  `json:"ppm"`
}

// ToldShare is a Grant without its name, as logs of earlier versions have it: of a pool's budget by its index, of all of it or of the share of
// a member.
type ToldShare struct {
	Budget int    `json:"budget"`
	Member string `json:"member,omitempty"`
	Grant
}

// ToldTake is a Take: the index of the limits in those that hold for the call, that of the budget there, or -1, and the axis if it is none.
type ToldTake struct {
	Link   int         `json:"link"`
	Budget int         `json:"budget"`
	Axis   limits.Axis `json:"axis,omitempty"`
	Amount int64       `json:"amount,omitempty"`
}

// nobodySaid is a zero time.
const nobodySaid time.Duration = math.MinInt64

// since is a time, counted from the start.
func (t *timeline) since(at time.Time) time.Duration {
	if at.IsZero() {
		return nobodySaid
	}
	return at.Sub(t.origin)
}

// at is the time that since counted.
func (t *timeline) at(since time.Duration) time.Time {
	if since == nobodySaid {
		return time.Time{}
	}
	return t.origin.Add(since)
}

// queueTold queues what was told in this instant, where it is recorded.
func (g *Governor) queueTold(t Told) {
	if g.recorded && g.events.listened() {
		told := t // so that only here it is on the heap
		g.events.add(Event{Kind: EventTold, At: g.line.now, Told: &told})
	}
}

// told queues an answer, if the call waits for one, and returns the instant to begin after it.
func (c *SharedCall) told(t Told) time.Time {
	at := c.g.line.next()
	if c.state == asking {
		t.Call = c.holds.asked
		t.Then = c.g.line.since(at)
		c.g.queueTold(t)
	}
	return at
}

// toldTake is a take, as it holds for the call now.
func (c *SharedCall) toldTake(t *Take) ToldTake {
	told := ToldTake{Link: slices.IndexFunc(c.holds.chain, func(k link) bool { return k.own == t.link.own }), Budget: -1, Axis: t.axis, Amount: t.Amount}
	if t.budget != nil {
		told.Budget = slices.Index(t.link.own.caps, t.budget)
	}
	return told
}

// takesOf are the takes that toldTake told, those of limits that the call has.
func (c *SharedCall) takesOf(list []ToldTake) (takes []Take) {
	for i := range list {
		t := &list[i]
		isLink := t.Link >= 0 && t.Link < len(c.holds.chain)
		isAxis := t.Axis >= 0 && int(t.Axis) < limits.Axes
		if !isLink || !isAxis {
			continue
		}
		take := Take{link: &c.holds.chain[t.Link], axis: t.Axis, Amount: t.Amount}
		caps := take.link.own.caps
		if t.Budget >= len(caps) {
			continue
		}
		if t.Budget >= 0 {
			take.budget = caps[t.Budget]
		}
		takes = append(takes, take)
	}
	return takes
}

// told are the rates of a grant, as they hold whatever has changed since they were reported.
func (s *SharedPool) told(p *pool, grant *PoolGrant) *ToldRates {
	r := &ToldRates{Stale: p.rates.era != s.era, Shares: make([]ToldNode, len(grant.Shares)), Others: grant.Others, Level: grant.Level}
	for i, a := range grant.Allowances {
		if a != nil {
			r.Allowances[i] = &ToldAllowance{s.g.line.since(a.Since), s.g.line.since(a.Until), a.Level, a.Rate, a.Spent, a.Spare, a.Saved}
		}
	}
	for i, x := range grant.Shares {
		r.Shares[i] = ToldNode{s.tree.paths[x.ID], x.PPM}
	}
	return r
}

// grant is the grant that told told, and the paths of its nodes.
func (r *ToldRates) grant(t *timeline) (grant PoolGrant, paths map[escrow.NodeID]string) {
	grant = PoolGrant{Others: r.Others, Level: r.Level}
	for k, a := range r.Allowances {
		if a != nil {
			grant.Allowances[k] = &escrow.Allowance{Since: t.at(a.Since), Until: t.at(a.Until), Level: a.Level, Rate: a.Rate, Spent: a.Spent, Spare: a.Spare, Saved: a.Saved}
		}
	}
	paths = make(map[escrow.NodeID]string, len(r.Shares))
	for i, x := range r.Shares {
		id := escrow.NodeID(i)
		grant.Shares = append(grant.Shares, NodeShare{id, x.PPM})
		paths[id] = x.Path
	}
	return grant, paths
}

// grantsOf are the grants that a log of an earlier version has of the pool's budgets.
func (p *pool) grantsOf(now time.Time, list []ToldShare) (grants []Grant) {
	for i := range list {
		at := list[i].Budget
		if at < 0 || at >= len(p.shares) {
			continue
		}
		a := p.shares[at]
		a.advance(now)
		grant := list[i].Grant
		grant.Name = a.periodName()
		if list[i].Member != "" {
			grant.Name += ofMember + list[i].Member
		}
		grants = append(grants, grant)
	}
	return grants
}
