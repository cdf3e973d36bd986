package record

import (
	"encoding/json"
	"time"

	"github.com/llmgov/llmgov/escrow/budget"
	"github.com/llmgov/llmgov/escrow/lengths"
	"github.com/llmgov/llmgov/escrow/limits"
	"github.com/llmgov/llmgov/governor/terms"
)

// Saved is the state of pools, and of limits over long times, that no Record has. A process saves it now and then, for the next one.
type Saved struct {
	// Shares is how pools' budgets stand between their tenants.
	Shares []ShareState
	// Limits are the adaptive limits that were found, by pool.
	Limits map[string]int64 `json:",omitempty"`
	// Windows is what is used of tenants' limits over other times than a minute, and what is owed of all, as of At.
	Windows []OwnerWindows `json:",omitempty"`
	At      time.Time      `json:",omitzero"`
	// Lengths are what pools have learned of how long calls get, by pool.
	Lengths map[string]Lengths `json:",omitempty"`
	// Estimates are what the governor's owner has learned of calls, which it alone reads.
	Estimates json.RawMessage `json:"-"`
	// Upstreams are what its owner has learned of upstreams' limits.
	Upstreams json.RawMessage `json:"-"`
}

// ShareState is how one budget of a pool stands between its tenants.
type ShareState struct {
	Pool  string
	Unit  terms.Unit
	Per   budget.Period
	State budget.SplitState
	// Absent are tenants that the pool's budgets know but State does not name, since nothing was
	// heard of them for a whole period.
	Absent []string
}

// OwnerWindows is what is used of the own limits of a tenant: over all pools, or in one.
type OwnerWindows struct {
	Tenant string
	Pool   string `json:",omitempty"`
	Uses   []limits.WindowUse
}

// Lengths are what a pool has learned of how long its calls get.
type Lengths struct {
	Outputs []lengths.Lesson // in tokens
	Runs    []lengths.Lesson // in milliseconds
	Speed   int64            // output tokens in 1000 s
	Ran     time.Duration    // by the call that ran longest
}
