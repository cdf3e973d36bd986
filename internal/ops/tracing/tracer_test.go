package tracing

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

// Without a Tracer nothing is made, down to the last allocation.
func TestNothingCostsNothing(t *testing.T) {
	var none *Tracer
	r := httptest.NewRequest(http.MethodPost, "/v1/embeddings", nil)
	now := time.Now()
	if n := testkit.Allocs(t, 100, func() {
		c := none.Begin(r, now)
		c.Asked(Asked{})
		try := c.Try(Target{})
		try.Inject(r.Header)
		try.Answered(200, "served", "", false)
		try.End(Took{})
		if c.TraceID() != "" || c.Exemplar() != "" {
			t.Error("there is a trace")
		}
		c.End(End{})
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if err := none.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}
