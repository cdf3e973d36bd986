package governor

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/llmgov/llmgov/escrow"
)

// Request asks for one call.
type Request struct {
	Tenant, Pool string
	// Model is what the call asks for: lengths are learned by tenant and model.
	Model string
	// ID names the call in lists of leases.
	ID string
	// Input and Output are how many tokens the call may take: the estimated
	// prompt and the most that may be produced.
	Input, Output int64
	// Price is what the model costs, for budgets in money.
	Price Price
	// MaxWait shortens the tenant's MaxWait when it is set; it cannot lengthen it.
	MaxWait *time.Duration
	// Stream marks the lease of a stream.
	Stream bool
	// Background lets interactive calls go first.
	Background bool
	// Claim says whether the call was refused before.
	Claim escrow.Claim
	// Forced asks for nobody's leave: what was done already is booked whatever the
	// limits say, and counts in the tenant's share. Nothing is learned from it. See
	// Lease.Charge.
	Forced bool
	// BudgetsOnly counts the tokens in budgets, and in no limit by the minute and no
	// share: for what the provider does beside these, such as batches.
	BudgetsOnly bool
	// Interrupt, where it is given, is told to end the call early, and why: see
	// Governor.Interrupt. It must not block. It may be called before Acquire returns the
	// lease, and when that has ended just now; what context.WithCancelCause returns will do.
	Interrupt context.CancelCauseFunc

	call uint64 // which one it is, of those told of one by one
}

// Usage is what a call really took. CachedInput and AudioInput are parts of Input,
// Reasoning and AudioOutput of Output, and no token is of two parts.
type Usage struct{ Input, CachedInput, Output, Reasoning, AudioInput, AudioOutput int64 }

// Plus adds up what two calls took.
func (u Usage) Plus(o Usage) Usage {
	return Usage{
		Input: u.Input + o.Input, CachedInput: u.CachedInput + o.CachedInput, Output: u.Output + o.Output,
		Reasoning: u.Reasoning + o.Reasoning, AudioInput: u.AudioInput + o.AudioInput, AudioOutput: u.AudioOutput + o.AudioOutput,
	}
}

// cost weighs a usage, each token by its own kind's weight. It rounds up once, at the
// end, against the requester. Parts that are larger than their whole together are cut.
func (w TokenWeights) cost(u Usage) int64 {
	if w == (TokenWeights{}) {
		return u.Input + u.Output
	}
	cached := min(u.CachedInput, u.Input)
	reasoning := min(u.Reasoning, u.Output)
	audioIn, audioOut := min(u.AudioInput, u.Input-cached), min(u.AudioOutput, u.Output-reasoning)
	milli := (u.Input-cached-audioIn)*w.Input + cached*w.CachedInput +
		(u.Output-reasoning-audioOut)*w.Output + reasoning*w.Reasoning + (audioIn+audioOut)*w.Audio
	return (milli + 999) / 1000
}

// fair is what of a usage's cost counts in the share: all but what came from a cache,
// which took nothing from anybody, whatever the provider counts it as. So prompts that
// are kept alike pay off for who keeps them so.
func (w TokenWeights) fair(u Usage) int64 {
	u.Input -= min(u.CachedInput, u.Input)
	u.CachedInput = 0
	return w.cost(u)
}

// most is the most that a call can cost which takes so many tokens, of whatever
// kind they turn out to be.
func (w TokenWeights) most(input, output int64) int64 {
	if w == (TokenWeights{}) {
		return input + output
	}
	in, out := max(w.Input, w.CachedInput, w.Audio), max(w.Output, w.Reasoning, w.Audio)
	return (input*in + output*out + 999) / 1000
}

// maxTokens bounds every count that comes from outside, so that weighing it
// cannot overflow.
const maxTokens = int64(1e12)

func (u Usage) bounded() Usage {
	for _, n := range []*int64{&u.Input, &u.CachedInput, &u.Output, &u.Reasoning, &u.AudioInput, &u.AudioOutput} {
		*n = bounded(*n)
	}
	return u
}

func bounded(n int64) int64 { return min(max(n, 0), maxTokens) }

// Reason says why a call was refused. It is a metric label.
type Reason int

// Requests, tokens and concurrency are the tenant's own limits, or the pool's
// when nobody else waits; share is the pool's while others with an earlier turn
// wait too.
const (
	ReasonNone Reason = iota
	ReasonRequests
	ReasonTokens
	ReasonConcurrency
	ReasonShare
	ReasonQueueFull  // the tenant's own queue
	ReasonOverloaded // the pool's queue
	ReasonDraining
	ReasonCancelled // the caller went away
	ReasonUnknown   // no such tenant or pool
	ReasonBudget    // a budget is spent
	ReasonStore     // the journal cannot be written
	ReasonThrottled // all of the pool is cut; see Governor.Throttle
	ReasonStoreLost // nobody says how much of a shared limit may be used

	NumReasons = int(iota)
)

var reasonNames = [NumReasons]string{
	"", "requests", "tokens", "concurrency", "share", "queue_full", "overloaded", "draining", "cancelled", "unknown",
	"budget", "store", "throttled", "store_lost",
}

func (r Reason) String() string { return reasonNames[r] }

// Rejection is a refusal, with what it takes to explain it.
type Rejection struct {
	Reason Reason
	// Own says that it was a limit of the tenant, not of the pool.
	Own bool
	// InPool says that it was a limit of the tenant in this pool only.
	InPool bool
	// Tenant, Pool and Axis name the limit; Limit, Used and Asked are its value,
	// what counts against it, and what the call wanted of it.
	Tenant, Pool       string
	Axis               string
	Limit, Used, Asked int64
	// Budget is the budget that refused, if one did, and Resets is when its period
	// ends. Limit, Used and Asked are in its unit; of a pool's budget, when it is
	// the tenant's share that is used up, they are those of the tenant.
	Budget Budget
	Resets time.Time
	// Elsewhere says that other processes have what is left of the budget.
	Elsewhere bool
	// RetryAfter is when the call's turn would come, as far as that can be known.
	RetryAfter time.Duration
	// Kept says that the call's place in the queue is kept until it comes back.
	Kept bool
	// Waited is how long the call waited before it was refused.
	Waited time.Duration
}

// Error is what the caller is told.
func (r *Rejection) Error() string {
	switch r.Reason {
	case ReasonDraining:
		return "This gateway is shutting down. Please try again."
	case ReasonCancelled:
		return "The caller went away."
	case ReasonStore:
		return "This gateway cannot keep its books at the moment. " + r.again()
	case ReasonStoreLost:
		if r.Own {
			return fmt.Sprintf("The limits of tenant %s are counted over all gateways, and the store that counts them does not answer at the moment. %s", r.Tenant, r.again())
		}
		return fmt.Sprintf("The limits of pool %s are shared with other gateways, and the store that shares them out grants nothing at the moment. %s", r.Pool, r.again())
	case ReasonUnknown:
		return fmt.Sprintf("There is no tenant %q or no pool %q.", r.Tenant, r.Pool)
	case ReasonOverloaded:
		return fmt.Sprintf("The queue of pool %s is full: %d calls wait. %s", r.Pool, r.Used, r.again())
	case ReasonQueueFull:
		return fmt.Sprintf("Tenant %s has as many calls waiting as it may (%d). %s", r.Tenant, r.Used, r.again())
	}
	if r.Reason == ReasonThrottled {
		return fmt.Sprintf("The provider of pool %s has asked for a pause. %s", r.Pool, r.again())
	}
	whose := "pool " + r.Pool
	if r.Own {
		whose = "tenant " + r.Tenant
		if r.InPool {
			whose += " in pool " + r.Pool
		}
	}
	if r.Budget.Limit > 0 {
		return r.budgetError(whose)
	}
	what := fmt.Sprintf("Rate limit reached for %s on %s: Limit %d, Used %d, Requested %d.", whose, axisTitle[r.Axis], r.Limit, r.Used, r.Asked)
	if !r.Own && r.Axis != axisConcurrency && r.Asked <= r.Limit-r.Used {
		what += " There is room in the minute, but it is handed out little by little."
	}
	if r.Reason == ReasonShare {
		what = fmt.Sprintf("Pool %s is busy and the share of tenant %s is used up (%s: Limit %d, Used %d, Requested %d).",
			r.Pool, r.Tenant, axisTitle[r.Axis], r.Limit, r.Used, r.Asked)
	}
	return what + " " + r.again()
}

// budgetError is what the caller is told of a budget.
func (r *Rejection) budgetError(whose string) string {
	b := r.Budget
	figures := fmt.Sprintf("(%s: Limit %s, Used %s, Requested %s)", b.Name(), b.amount(r.Limit), b.amount(r.Used), b.amount(r.Asked))
	resets := r.Resets.Format(time.RFC3339)
	switch {
	case r.Elsewhere:
		return fmt.Sprintf("Other gateways hold what is left of the budget of %s %s. %s", whose, figures, r.again())
	case r.Reason == ReasonBudget:
		return fmt.Sprintf("The budget of %s is spent %s. It resets at %s. %s", whose, figures, resets, r.again())
	case r.Reason == ReasonShare:
		return fmt.Sprintf("The share of tenant %s of the budget of %s is used up for now %s. It resets at %s. %s", r.Tenant, whose, figures, resets, r.again())
	default:
		return fmt.Sprintf("What is left of the budget of %s is held by calls in flight %s. %s", whose, figures, r.again())
	}
}

func (r *Rejection) again() string {
	when := "Please try again in " + strconv.FormatFloat(max(r.RetryAfter, time.Millisecond).Seconds(), 'f', 3, 64) + "s"
	if r.RetryAfter >= 2*time.Minute { // nobody wants that to the millisecond
		when = "Please try again in " + (r.RetryAfter + time.Second - 1).Truncate(time.Second).String()
	}
	if r.Kept {
		return when + "; your place is kept."
	}
	return when + "."
}

// storeRetry is when to come back to a gateway that cannot write: nobody knows, but
// a full disk is seen to soon, or not at all.
const storeRetry = time.Second

// drainRetry is when to come back to a gateway that shuts down: another one is
// expected to be there by then.
const drainRetry = time.Second

const (
	axisRequests    = "requests"
	axisTokens      = "tokens"
	axisInput       = "input_tokens"
	axisOutput      = "output_tokens"
	axisConcurrency = "concurrency"
)

var axisTitle = map[string]string{
	axisRequests:    "requests per min (RPM)",
	axisTokens:      "tokens per min (TPM)",
	axisInput:       "input tokens per min (ITPM)",
	axisOutput:      "output tokens per min (OTPM)",
	axisConcurrency: "calls at once (concurrency)",
}
