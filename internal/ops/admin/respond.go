package admin

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/llmgov/llmgov/internal/ops/adminapi"
)

func respond(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	_ = enc.Encode(v)
}

// respondAs is respond with a status.
func respondAs(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	respond(w, v)
}

// answering makes a handler of a function that may return an error, which becomes the answer.
func answering(handle func(http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		err := handle(w, r)
		if err == nil {
			return
		}
		fault, ok := errors.AsType[*adminapi.Fault](err)
		if !ok {
			fault = &adminapi.Fault{Status: http.StatusInternalServerError, Code: "internal_error", Message: err.Error()}
		}
		var answer adminapi.ErrorAnswer
		answer.Error.Code = fault.Code
		answer.Error.Message = fault.Message
		respondAs(w, fault.Status, answer)
	}
}
