package refusal

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/budget"
	"github.com/llmgov/llmgov/escrow/limits"
	"github.com/llmgov/llmgov/governor/terms"
)

// Reason says why a call was refused. It is a metric label.
type Reason int

// Requests, tokens and concurrency are the tenant's own limits, or the pool's when nobody else
// waits. Share is the pool's, while others whose turn is earlier wait too.
const (
	None Reason = iota
	Requests
	Tokens
	Concurrency
	Share
	QueueFull  // the tenant's own queue is full
	Overloaded // the pool's queue is full
	Draining
	Cancelled // the caller went away
	Unknown   // no such tenant or pool
	Budget    // a budget is spent
	Store     // the journal cannot be written
	Throttled // all of the pool is cut off for a while; see Governor.Throttle
	StoreLost // nobody says how much of a shared limit may be used

	NumReasons = int(iota)
)

var reasonNames = [NumReasons]string{
	"", "requests", "tokens", "concurrency", "share", "queue_full", "overloaded", "draining", "cancelled", "unknown",
	"budget", "store", "throttled", "store_lost",
}

func (r Reason) String() string { return reasonNames[r] }

// Refusal is a refusal, with what it takes to explain it.
type Refusal struct {
	Reason Reason
	// Own says that a limit of the tenant refused, not of the pool; of what is unknown, that it is the tenant.
	Own bool
	// InPool says that it was a limit of the tenant in this pool only.
	InPool bool
	// Tenant, Pool and Axis name the limit. Limit, Used and Asked are its value, what counts
	// against it, and what the call wanted of it.
	Tenant, Pool       string
	Axis               string
	Limit, Used, Asked int64
	// Budget is the budget that refused, if one did, and Resets is when its period ends. Limit,
	// Used and Asked are then in its unit; if the tenant's share of a pool's budget is used up,
	// they are those of the tenant.
	Budget terms.Budget
	Resets time.Time
	// AtUpstreams says that the pool has room, and the upstreams to which the call may go have none: they have limits of their own.
	AtUpstreams bool
	// Granted is the rate a minute at which this process may use the axis of a pool that it shares; nil if it shares none.
	Granted *int64
	// Elsewhere says that other processes hold what is left of the budget.
	Elsewhere bool
	// Store is the store of a pool that grants nothing yet; nil if that does not matter.
	Store *NewStore
	// Committing says that it is for later work, such as a batch, whose most the budget has no room for.
	Committing bool
	// RetryAfter is how long it takes until the call's turn would come, as far as can be known.
	RetryAfter time.Duration
	// Kept says that the call's place in the queue is kept until it comes back.
	Kept bool
	// Waited is how long the call waited before it was refused.
	Waited time.Duration

	over error // of the caller's context, if that has ended
}

// ErrRefused is any call that may not begin.
var ErrRefused = errors.New("llmgov: the call is refused")

// Is makes it an ErrRefused.
func (r *Refusal) Is(target error) bool { return target == ErrRefused }

// Unwrap is the error of the caller's context, if that has ended.
func (r *Refusal) Unwrap() error { return r.over }

// lossSpread is the time over which calls come back that are refused because the store is lost.
const lossSpread = time.Second

// Spread returns the refusal with another time to come back, if the store is lost. All calls that waited are refused in the same moment,
// and would come back in the same one. How much later depends on the call's name alone. If it is not known when the loss ends,
// half of the calls come back sooner instead.
func (r *Refusal) Spread(call string) *Refusal {
	if r.Reason != StoreLost {
		return r
	}
	name := fnv.New64a()
	_, _ = name.Write([]byte(call)) // it never fails
	later := time.Duration(name.Sum64() % uint64(lossSpread))
	if r.RetryAfter <= LossRetry {
		later -= lossSpread / 2
	}
	spread := *r
	spread.RetryAfter += later
	return &spread
}

// Abandoned returns the refusal with the reason that the caller's context has ended with an error. It leaves r as it is.
func (r *Refusal) Abandoned(over error) *Refusal {
	told := *r
	told.Reason = Cancelled
	told.over = over
	return &told
}

// Error is the message for the caller.
func (r *Refusal) Error() string {
	switch r.Reason {
	case Draining:
		return "llmgov is shutting down. Please try again."
	case Cancelled:
		return "The caller went away."
	case Store:
		return "llmgov cannot keep its books at the moment. " + r.again()
	case StoreLost:
		if r.Own {
			return fmt.Sprintf("The limits of %s are counted over all nodes, and the store that counts them does not answer at the moment. %s", terms.Called(r.Tenant), r.again())
		}
		if r.Store != nil {
			return r.Store.Explain(r.Pool) + " " + r.again()
		}
		return fmt.Sprintf("The limits of pool %s are shared with other nodes, and the store that shares them out grants nothing at the moment. %s", r.Pool, r.again())
	case Unknown:
		if r.Own {
			return fmt.Sprintf("There is no tenant %q.", r.Tenant)
		}
		return fmt.Sprintf("There is no pool %q, or tenant %q may not use it.", r.Pool, r.Tenant)
	case Overloaded:
		return fmt.Sprintf("The queue of pool %s is full: %d calls wait. %s", r.Pool, r.Used, r.again())
	case QueueFull:
		who := terms.Called(r.Tenant)
		return fmt.Sprintf("%s has as many calls waiting as it may (%d). %s", strings.ToUpper(who[:1])+who[1:], r.Used, r.again())
	}
	if r.Reason == Throttled {
		return fmt.Sprintf("The provider of pool %s has asked for a pause. %s", r.Pool, r.again())
	}
	whose := r.whose()
	if r.Budget.Limit > 0 {
		return r.budgetError(whose)
	}
	if r.Axis == AxisPerTenant && r.Reason == Concurrency {
		return fmt.Sprintf("Recent calls of %s failed at the upstream of pool %s, so it may run fewer at once there for a time: Limit %d, Used %d, Requested %d. %s",
			terms.Called(r.Tenant), r.Pool, r.Limit, r.Used, r.Asked, r.again())
	}
	what := fmt.Sprintf("Rate limit reached for %s on %s: Limit %d, Used %d, Requested %d.", whose, titleOf(r.Axis), r.Limit, r.Used, r.Asked)
	if r.Own && r.Used > r.Limit && r.Reason != Concurrency {
		what += fmt.Sprintf(" It is in debt by %d, which counts until it is paid off at the limit's rate.", r.Used-r.Limit)
	}
	if r.AtUpstreams {
		what += " The pool has room, but the upstreams to which this call may go have none."
	}
	if r.Reason == Share {
		what = fmt.Sprintf("Pool %s is busy and the share of %s is used up (%s: Limit %d, Used %d, Requested %d).",
			r.Pool, terms.Called(r.Tenant), titleOf(r.Axis), r.Limit, r.Used, r.Asked)
	}
	return what + r.released() + " " + r.again()
}

// Brief is Error of a spent budget without its figures, in which some agents find statuses: 25000 has a 500 in it.
func (r *Refusal) Brief() string { return r.spent("(" + r.Budget.Name() + ")") }

// spent is the message of a spent budget. Nothing in it invites to try again, which agents would do, whatever the status.
func (r *Refusal) spent(figures string) string {
	text := fmt.Sprintf("The budget of %s is spent %s. ", r.whose(), figures)
	_, member, _ := terms.CutMember(r.Tenant)
	switch {
	case r.Budget.Per != budget.Life:
		return text + fmt.Sprintf("It resets at %s (in %s).", r.Resets.Format(time.RFC3339), span(r.RetryAfter))
	case r.Own && strings.HasPrefix(member, "session:"):
		return text + "It is for the whole session and does not come back: begin another session, or ask whoever runs this gateway for more."
	}
	return text + "It is for life and does not come back: ask whoever runs this gateway for more."
}

// span is a time in two units: days and hours, or hours and minutes.
func span(d time.Duration) string {
	const day = 24 * time.Hour
	if days := d / day; days > 0 {
		return fmt.Sprintf("%dd%dh", days, d%day/time.Hour)
	}
	return strings.TrimSuffix((d + time.Minute - 1).Truncate(time.Minute).String(), "0s")
}

// whose is what the limit is of.
func (r *Refusal) whose() string {
	switch {
	case !r.Own:
		return "pool " + r.Pool
	case r.InPool:
		return terms.Called(r.Tenant) + " in pool " + r.Pool
	}
	return terms.Called(r.Tenant)
}

// released says why a pool's rate refuses a call although the minute has room for it.
func (r *Refusal) released() string {
	switch {
	case r.Own || r.AtUpstreams || r.Axis != AxisTokens && r.Axis != AxisRequests || r.Asked > r.Limit-r.Used:
		return ""
	case r.Granted != nil:
		return fmt.Sprintf(" The minute has room, of which this node has %d a minute just now.", *r.Granted)
	case r.Reason == Share:
		return ""
	}
	return " The minute has room, but it is released at a steady rate."
}

// budgetError is the message about a budget.
func (r *Refusal) budgetError(whose string) string {
	b := r.Budget
	figures := fmt.Sprintf("(%s: Limit %s, Used %s, Requested %s)", b.Name(), b.Amount(r.Limit), b.Amount(r.Used), b.Amount(r.Asked))
	switch {
	case r.Elsewhere:
		return fmt.Sprintf("Other nodes hold what is left of the budget of %s %s. %s", whose, figures, r.again())
	case r.Reason == Budget:
		return r.spent(figures)
	case r.Committing:
		return fmt.Sprintf("This batch may take more than is left of the budget of %s %s. %s %s", whose, figures, b.Ending(r.Resets), r.again())
	case r.Reason == Share:
		return fmt.Sprintf("The share of tenant %s of the budget of %s is used up for now %s. %s %s", r.Tenant, whose, figures, b.Ending(r.Resets), r.again())
	default:
		return fmt.Sprintf("What is left of the budget of %s is held by calls in flight %s. %s %s", whose, figures, b.Ending(r.Resets), r.again())
	}
}

func (r *Refusal) again() string {
	if r.Committing && r.Budget.Per == budget.Life {
		return "Make it smaller."
	}
	when := "Please try again in " + strconv.FormatFloat(max(r.RetryAfter, time.Millisecond).Seconds(), 'f', 3, 64) + "s"
	if r.RetryAfter >= 2*time.Minute { // nobody wants that to the millisecond
		when = "Please try again in " + (r.RetryAfter + time.Second - 1).Truncate(time.Second).String()
	}
	if r.Kept {
		return when + "; your place is kept."
	}
	return when + "."
}

// LossRetry is when to come back to a pool that is cut off. Nobody knows when that ends, but most
// losses are short.
const LossRetry = time.Second

// LongestTold is the longest time that a refusal tells its caller to stay away, unless it is final.
const LongestTold = escrow.LongestTold

// StoreRetry is when to come back to a gateway that cannot write. Nobody knows when that ends; a
// full disk is noticed soon or not at all.
const StoreRetry = time.Second

// DrainRetry is when to come back to a gateway that shuts down: by then another should be there.
const DrainRetry = time.Second

// The axes of limits on requests, tokens and calls at once, and those of the rules of slots.
const (
	AxisRequests    = "requests"
	AxisTokens      = "tokens"
	AxisConcurrency = "concurrency"
	AxisBackground  = "background"
	AxisSoftCap     = escrow.SoftCap
	AxisHoldBack    = escrow.HoldBack
	AxisPerTenant   = escrow.PerTenant
)

// RuleAxis is the axis of a rule of slots.
func RuleAxis(rule string) string {
	if rule == escrow.InteractiveReserve {
		return AxisBackground
	}
	return rule
}

// titleOf is an axis as messages name it. Those of other windows than a minute are named by their windows.
func titleOf(axis string) string {
	if k, ok := limits.Find(axis); ok {
		return k.Title()
	}
	return cmp.Or(ruleTitle[axis], axis)
}

var ruleTitle = map[string]string{
	AxisBackground: "concurrent background calls (interactive_reserve)",
	AxisSoftCap:    "concurrent calls of one tenant (soft_cap)",
	AxisHoldBack:   "concurrent calls beside which its priority may begin more (hold_back)",
	AxisPerTenant:  "concurrent calls of a tenant whose recent calls failed at the upstream (per_tenant)",
}
