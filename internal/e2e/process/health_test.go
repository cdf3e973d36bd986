package process

import (
	"net/http"
	"testing"

	"github.com/llmgov/llmgov/internal/testkit/processtest"
)

// The data side answers /healthz if it is asked to.
func TestHealthz(t *testing.T) {
	for env, want := range map[string]int{"LLMGOV_HEALTHZ=true": http.StatusOK, "LLMGOV_HEALTHZ=false": http.StatusNotFound} {
		p := processtest.Quickstart(t, env)
		if got := processtest.Ask(t, http.MethodGet, p.Data+"/healthz", "", "").Status; got != want {
			t.Errorf("%s: %d, want %d", env, got, want)
		}
	}
}
