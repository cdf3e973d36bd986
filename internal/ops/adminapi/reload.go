package adminapi

import (
	"fmt"
	"time"
)

// Reloaded is the outcome of a reload.
type Reloaded struct {
	PolicyHash string `json:"policy_hash"`
	// Changed says that the files say something else than what was in force.
	Changed bool `json:"changed"`
	Tenants int  `json:"tenants"`
	// NeedsRestart names settings that have changed since the start but cannot change while llmgov
	// runs.
	NeedsRestart []string `json:"needs_restart"`
}

// PolicyStatus says which policy is in force, and what has been wrong with the files since.
type PolicyStatus struct {
	Hash     string    `json:"hash"`
	LoadedAt time.Time `json:"loaded_at"`
	// Success says that the files were good when they were last read. Problems are the mistakes in
	// them if not.
	Success     bool       `json:"success"`
	Problems    []Problem  `json:"problems"`
	LastErrorAt *time.Time `json:"last_error_at"`
	// FailingSince is when they became bad; null while they are good.
	FailingSince *time.Time `json:"failing_since"`
	NeedsRestart []string   `json:"needs_restart"`
}

// Problem is one mistake in the files. Line and Column are left out if there is no line to point
// at.
type Problem struct {
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Message string `json:"message"`
}

// String is file:line:column: message, as far as these are known.
func (p Problem) String() string {
	if p.File == "" {
		return p.Message
	}
	if p.Line == 0 {
		return p.File + ": " + p.Message
	}
	return fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, p.Message)
}

// ProblemList answers a reload of bad files, after which the previous policy stays in force.
type ProblemList struct {
	Problems []Problem `json:"problems"`
}
