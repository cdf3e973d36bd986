package adminapi

import "time"

// Event is an event in the stream. Fields that do not apply are left out.
type Event struct {
	Time    time.Time `json:"time"`
	Kind    string    `json:"kind"`
	Tenant  string    `json:"tenant,omitempty"`
	Pool    string    `json:"pool,omitempty"`
	Model   string    `json:"model,omitempty"`
	Request string    `json:"request,omitempty"`
	Stream  bool      `json:"stream,omitempty"`

	// Asked is the most that a call may use.
	Asked      *Asked   `json:"asked,omitempty"`
	Background bool     `json:"background,omitempty"`
	Waited     *float64 `json:"waited_seconds,omitempty"`
	Refusal    *Refusal `json:"refusal,omitempty"`
	// Shadow says that the refusal was not enforced.
	Shadow bool `json:"shadow,omitempty"`

	Failure *Failure       `json:"failure,omitempty"`
	Warning *BudgetWarning `json:"warning,omitempty"`

	Ending string   `json:"ending,omitempty"`
	Usage  *Usage   `json:"usage,omitempty"`
	Ran    *float64 `json:"ran_seconds,omitempty"`

	Cuts       []Cut  `json:"cuts,omitzero"`
	PolicyHash string `json:"policy_hash,omitempty"`
}

// Asked is the most that a call may use, in tokens.
type Asked struct {
	Input  int64 `json:"input"`
	Output int64 `json:"output"`
}

// Refusal explains a refusal: whose limit it was, and how that stood. If it is by a budget, Limit,
// Used and Asked are in its unit, and dollars in millionths.
type Refusal struct {
	Status     int     `json:"status"`
	Code       string  `json:"code"`
	Reason     string  `json:"reason"`
	Of         string  `json:"of"`
	Axis       string  `json:"axis,omitempty"`
	Limit      int64   `json:"limit"`
	Used       int64   `json:"used"`
	Asked      int64   `json:"asked"`
	RetryAfter float64 `json:"retry_after_seconds"`
	Kept       bool    `json:"place_kept"`
	Message    string  `json:"message"`
}

// Failure explains why an admitted call failed.
type Failure struct {
	Upstream string `json:"upstream,omitempty"`
	Status   int    `json:"status"` // that the client was answered
	Class    string `json:"class"`
	Cause    string `json:"cause,omitempty"`
}

// BudgetWarning is a budget of which a part is used.
type BudgetWarning struct {
	Percent int64  `json:"percent"` // of the budget's warn_at
	Budget  Budget `json:"budget"`
}

// Usage is the use of a call that ended, in tokens.
type Usage struct {
	Input       int64 `json:"input"`
	CachedInput int64 `json:"cached_input"`
	Output      int64 `json:"output"`
	Reasoning   int64 `json:"reasoning"`
}

// Cut is the part of a pool that is missing until a time.
type Cut struct {
	RateRatio float64   `json:"rate_ratio"`
	TPM       int64     `json:"tpm"`
	RPM       int64     `json:"rpm"`
	ITPM      int64     `json:"itpm"`
	OTPM      int64     `json:"otpm"`
	Until     time.Time `json:"until"`
}
