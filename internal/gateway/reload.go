package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/llmgov/llmgov/tenants"
)

// Policies follows the files, and applies what they say.
type Policies interface {
	// Reload reads the files now. The error is tenants.Problems, ErrNoFiles, or says why they could
	// not be read; then nothing has changed.
	Reload(ctx context.Context) (Reloaded, error)
	// Status is the outcome of the last reading of the files.
	Status() PolicyStatus
}

// ErrNoFiles is the error of a gateway that runs without files.
var ErrNoFiles = errors.New("llmgov was started without a config file, so there is nothing to reload; start it with -c FILE")

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
	// Success says that the files were good when they were last read. Problems are what was wrong
	// with them if not.
	Success     bool       `json:"success"`
	Problems    []Problem  `json:"problems"`
	LastErrorAt *time.Time `json:"last_error_at"`
	// FailingSince is when they became bad; null while they are good.
	FailingSince *time.Time `json:"failing_since"`
	NeedsRestart []string   `json:"needs_restart"`
}

// Problem is one thing that is wrong with the files. Line and Column are left out
// where there is no line to point at.
type Problem struct {
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Message string `json:"message"`
}

// ProblemsOf lists all problems in an error.
func ProblemsOf(err error) []Problem {
	list, ok := errors.AsType[tenants.Problems](err)
	if !ok {
		return []Problem{{Message: err.Error()}}
	}
	out := make([]Problem, len(list))
	for i, p := range list {
		out[i] = Problem{p.File, p.Line, p.Col, p.What}
	}
	return out
}

// reload answers POST /api/v1/reload.
func (g *Gateway) reload(w http.ResponseWriter, r *http.Request, policies Policies) {
	done, err := Reloaded{}, ErrNoFiles
	if policies != nil {
		done, err = policies.Reload(r.Context())
	}
	g.audit(r, "policy.reload", slog.Bool("good", err == nil), slog.Bool("changed", done.Changed))
	if err == nil {
		respond(w, done)
		return
	}
	status := http.StatusUnprocessableEntity
	switch {
	case errors.Is(err, ErrNoFiles):
		status = http.StatusConflict
	case errors.Is(err, tenants.ErrWatchEnded), r.Context().Err() != nil:
		status = http.StatusServiceUnavailable
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"problems": ProblemsOf(err)})
}
