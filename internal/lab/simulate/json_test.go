package simulate

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

// documented are the names that scripts rely on.
var documented = []string{
	"utilization", "misallocation", "misallocation_max", "long_run_deviation", "jain", "rolling_max",
	"first_admission_seconds_max", "wait_p50_seconds", "wait_p99_seconds", "refused", "promise_kept",
	"promise_late_p95_seconds", "store_round_trips_per_1000", "tenants",
}

func TestJSONHasTheDocumentedNames(t *testing.T) {
	var b bytes.Buffer
	testkit.OK(t, WriteJSON(&b, run(t, "s3", Options{Seeds: []uint64{1, 2}})))
	var got map[string]any
	testkit.OK(t, json.Unmarshal(b.Bytes(), &got))
	for _, key := range documented {
		if _, ok := got[key]; !ok {
			t.Errorf("no %s in the JSON object", key)
		}
	}
	if got["promise_kept"] != nil {
		t.Errorf("promise_kept is %v where nobody was promised anything, want null", got["promise_kept"])
	}
	tenant, _ := got["tenants"].([]any)[0].(map[string]any)
	for _, key := range []string{"name", "entitled", "received", "wait_p99_seconds"} {
		if _, ok := tenant[key]; !ok {
			t.Errorf("no %s in a tenant", key)
		}
	}
	if n := len(got["per_seed"].([]any)); n != 2 {
		t.Errorf("figures of %d seeds, want 2", n)
	}
}
