package adminapi

import "time"

// ConditionKind names a condition for scripts.
type ConditionKind string

// The kinds of conditions.
const (
	UpstreamDown    ConditionKind = "upstream_down"
	StoreLost       ConditionKind = "store_lost"
	StoreUnreadable ConditionKind = "store_unreadable"
	NotReady        ConditionKind = "not_ready"
	PolicyInvalid   ConditionKind = "policy_invalid"
	Draining        ConditionKind = "draining"
	StoreLearning   ConditionKind = "store_learning"
	RestartNeeded   ConditionKind = "restart_needed"

	UpstreamSilent  ConditionKind = "upstream_silent"
	UpstreamForeign ConditionKind = "upstream_foreign_use"
	LimitLower      ConditionKind = "limit_lower_than_configured"
	GatewayMissing  ConditionKind = "gateway_missing"
	BudgetsBeginNew ConditionKind = "budgets_begin_anew"
	RuntimeUnfit    ConditionKind = "runtime_unfit"
)

// Unreadable is an account of limits that the store cannot read.
type Unreadable struct {
	// Owner is whose limits these are: a tenant or team, one of these in a pool, or a pool.
	Owner string
	Since time.Time
	// Error says what is to be done.
	Error string
}

// Severity says how bad a condition is.
type Severity string

// Error means that calls fail or that a change is not in force, and Warning that somebody should
// know.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
)

// Condition is one thing about the gateway that is not as it should be.
type Condition struct {
	Kind     ConditionKind `json:"kind"`
	Severity Severity      `json:"severity"`
	// Since is when it began; nil if that is unknown.
	Since *time.Time `json:"since"`
	// Pool and Upstream are set if it concerns only these.
	Pool     string `json:"pool,omitempty"`
	Upstream string `json:"upstream,omitempty"`
	// Message is one or two sentences for people, without the time.
	Message string `json:"message"`
}
