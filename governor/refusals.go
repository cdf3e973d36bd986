package governor

import "github.com/llmgov/llmgov/governor/refusal"

// Why calls are refused. Package refusal describes it.
type (
	Reason   = refusal.Reason
	Refusal  = refusal.Refusal
	NewStore = refusal.NewStore
)

// ErrRefused is any call that may not begin.
var ErrRefused = refusal.ErrRefused

// The reasons.
const (
	ReasonNone        = refusal.None
	ReasonRequests    = refusal.Requests
	ReasonTokens      = refusal.Tokens
	ReasonConcurrency = refusal.Concurrency
	ReasonShare       = refusal.Share
	ReasonQueueFull   = refusal.QueueFull
	ReasonOverloaded  = refusal.Overloaded
	ReasonDraining    = refusal.Draining
	ReasonCancelled   = refusal.Cancelled
	ReasonUnknown     = refusal.Unknown
	ReasonBudget      = refusal.Budget
	ReasonStore       = refusal.Store
	ReasonThrottled   = refusal.Throttled
	ReasonStoreLost   = refusal.StoreLost

	NumReasons  = refusal.NumReasons
	LongestTold = refusal.LongestTold
)
