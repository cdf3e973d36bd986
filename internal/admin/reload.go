package admin

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"

	"github.com/llmgov/llmgov/internal/adminapi"
	"github.com/llmgov/llmgov/tenants"
)

// Policies follows the files, and applies what they say.
type Policies interface {
	// Reload reads the files now. The error is tenants.Problems, ErrNoFiles, or says why they could
	// not be read; then nothing has changed.
	Reload(ctx context.Context) (adminapi.Reloaded, error)
	// Status is the outcome of the last reading of the files.
	Status() adminapi.PolicyStatus
}

// ErrNoFiles is the error of a gateway that runs without files.
var ErrNoFiles = errors.New("llmgov was started without a config file, so there is nothing to reload; start it with -c FILE")

// ProblemsOf lists all problems in an error.
func ProblemsOf(err error) []adminapi.Problem {
	list, ok := errors.AsType[tenants.Problems](err)
	if !ok {
		return []adminapi.Problem{{Message: err.Error()}}
	}
	out := make([]adminapi.Problem, len(list))
	for i, p := range list {
		out[i] = adminapi.Problem{File: p.File, Line: p.Line, Column: p.Col, Message: p.What}
	}
	return out
}

// reload answers POST /api/v1/reload.
func (a *API) reload(w http.ResponseWriter, r *http.Request) {
	var done adminapi.Reloaded
	err := ErrNoFiles
	if a.Policies != nil {
		done, err = a.Policies.Reload(r.Context())
	}
	a.audit(r, "policy.reload", slog.Bool("good", err == nil), slog.Bool("changed", done.Changed))
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
	_ = json.NewEncoder(w).Encode(adminapi.ProblemList{Problems: ProblemsOf(err)})
}
