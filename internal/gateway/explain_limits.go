package gateway

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/llmgov/llmgov/escrow/budget"
	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/tenants"
)

// ExplainedLimit is one limit as a call would meet it. Money is in dollars.
type ExplainedLimit struct {
	// Of says whose limit it is: a tenant's, a team's or, if Kind is pool or Pool is set for a
	// budget, the pool's. Kind is limit, budget or pool.
	Of   string `json:"of"`
	Kind string `json:"kind"`
	// Pool is set for what holds in one pool only.
	Pool string `json:"pool,omitempty"`
	// Axis is what it limits, and Key what the files call it.
	Axis  string   `json:"axis"`
	Key   string   `json:"key"`
	Limit float64  `json:"limit"`
	Used  *float64 `json:"used,omitempty"`
	Asked float64  `json:"asked"`
	Left  *float64 `json:"left,omitempty"`
	// Wait is how long it takes until there is room, as far as can be known.
	Wait *float64 `json:"wait_seconds,omitempty"`
	// Most is what an adaptive limit may grow to; Limit is what it is now.
	Most float64 `json:"most,omitempty"`
	// From is file:line:col; "" for a default, and for what no file says.
	From string `json:"from"`
}

const (
	kindLimit  = "limit"
	kindBudget = "budget"
	kindPool   = "pool"
)

// Decision is what would become of a call. Status, Code, Type and Message are those of the refusal
// that it would get.
type Decision struct {
	Outcome    string  `json:"outcome"` // admit, wait or refuse
	Wait       float64 `json:"wait_seconds"`
	Status     int     `json:"status"`
	Code       string  `json:"code"`
	Type       string  `json:"type"`
	Message    string  `json:"message"`
	RetryAfter float64 `json:"retry_after_seconds"`
	// Limit is the index of the limit that decides; null if none does.
	Limit *int `json:"limit"`
}

const (
	outcomeAdmit  = "admit"
	outcomeWait   = "wait"
	outcomeRefuse = "refuse"
)

// explainLimits lists the limits, the strictest first: those in the way by how long that takes,
// then the others by how often the call would still fit. decider is the index of the one that
// decides, if any.
func explainLimits(snap *tenants.Snapshot, o *governor.Outlook) (list []ExplainedLimit, decider *int) {
	checks := slices.Clone(o.Checks)
	slices.SortStableFunc(checks, func(a, b governor.Check) int {
		return cmp.Or(
			-cmp.Compare(a.Wait, b.Wait),
			-compareBool(decides(o, &a), decides(o, &b)),
			cmp.Compare(scarcity(&a), scarcity(&b)),
		)
	})
	list = []ExplainedLimit{}
	for i := range checks {
		if decider == nil && decides(o, &checks[i]) {
			decider = &i
		}
		list = append(list, explainLimit(snap, &checks[i]))
	}
	return list, decider
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// scarcity is how often the call would fit into what is left.
func scarcity(c *governor.Check) float64 {
	if c.Asked <= 0 {
		return math.Inf(1)
	}
	return float64(c.Limit-c.Used) / float64(c.Asked)
}

// decides reports whether the call would be refused by c or, if it would not be refused, would wait
// for c.
func decides(o *governor.Outlook, c *governor.Check) bool {
	rej := o.Refused
	if rej == nil {
		return o.Wait > 0 && c.Wait > 0
	}
	return c.Of(rej)
}

func explainLimit(snap *tenants.Snapshot, c *governor.Check) ExplainedLimit {
	one := 1.0
	if c.Budget.Unit == governor.UnitMicroUSD {
		one = float64(budget.USD)
	}
	used, left, wait := float64(c.Used)/one, float64(max(0, c.Limit-c.Used))/one, c.Wait.Seconds()
	l := ExplainedLimit{
		Of: cmp.Or(c.Tenant, c.Pool), Kind: kindLimit, Pool: c.Pool, Axis: c.Axis,
		Limit: float64(c.Limit) / one, Used: &used, Asked: float64(c.Asked) / one, Left: &left, Wait: &wait,
	}
	switch {
	case c.Budget.Limit > 0:
		l.Kind = kindBudget
	case c.Tenant == "":
		l.Kind = kindPool
	}
	for _, p := range snap.Pools() {
		if p.Name == c.Pool && p.Adaptive != "" && l.Kind == kindPool && l.Axis == "concurrency" {
			l.Most = float64(p.Concurrency)
		}
	}
	l.Key, l.From = written(snap, c)
	return l
}

// limitKeys are what the files call the axes.
var limitKeys = map[string]string{
	"requests": "rpm", "tokens": "tpm", "input_tokens": "itpm", "output_tokens": "otpm", "concurrency": "concurrency",
}

// written is what the files call a limit, and where it is written.
func written(snap *tenants.Snapshot, c *governor.Check) (key, from string) {
	var list []tenants.Limit
	var budgets []tenants.Budget
	key = limitKeys[c.Axis]
	pools := snap.Pools()
	at := slices.IndexFunc(pools, func(p tenants.Pool) bool { return p.Name == c.Pool })
	if t, ok := snap.TenantByName(c.Tenant); ok {
		p := &pools[max(0, at)] // any pool will do for a limit over all of them
		list, budgets = snap.Limits(t, p), t.Budgets
		if at >= 0 {
			key = "pools." + c.Pool + "." + key
		}
	} else {
		list, budgets = snap.PoolLimits(&pools[at]), pools[at].Budgets
	}
	if c.Budget.Limit > 0 {
		i := slices.IndexFunc(budgets, func(b tenants.Budget) bool {
			return string(b.Unit) == c.Budget.Unit.String() && string(b.Per) == c.Budget.Per.String()
		})
		key = "budgets[" + strconv.Itoa(i) + "]"
	}
	for _, l := range list {
		if l.Key == key && l.Of == "" {
			from = l.From
		}
	}
	return key, from
}

// decided is what becomes of a call with such an outlook.
func decided(o *governor.Outlook, decider *int) *Decision {
	switch {
	case o.Refused != nil:
		return refusedWith(rejected(o.Refused), decider)
	case o.Wait > 0:
		return &Decision{Outcome: outcomeWait, Wait: o.Wait.Seconds(), Limit: decider}
	}
	return &Decision{Outcome: outcomeAdmit}
}

// refusedWith reads the very answer that the caller would get.
func refusedWith(f *refusal, decider *int) *Decision {
	var said openAIError
	if err := json.Unmarshal(f.body(openAI), &said); err != nil {
		panic("llmgov: BUG: an error cannot be read back: " + err.Error())
	}
	again := (f.retryAfter + time.Millisecond - 1).Truncate(time.Millisecond)
	return &Decision{
		Outcome: outcomeRefuse, Status: f.status, Code: said.Error.Code, Type: said.Error.Type, Message: said.Error.Message,
		RetryAfter: again.Seconds(), Limit: decider,
	}
}
