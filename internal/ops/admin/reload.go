package admin

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"

	"github.com/llmgov/llmgov/internal/ops/adminapi"
	"github.com/llmgov/llmgov/tenants"
)

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
