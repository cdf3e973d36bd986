package simulate

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"slices"
	"testing"

	"github.com/llmgov/llmgov/internal/lab/simulate/scenario"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// logLine is a line of the log, as anybody would read it.
type logLine struct {
	Seed    int
	T       float64
	Ev      string
	Tenant  string
	ID      int
	Tokens  float64
	Input   float64
	Seconds float64
	Worker  bool
	Retry   float64 `json:"retry_after"`
}

func readLog(t *testing.T, data []byte) []logLine {
	t.Helper()
	var lines []logLine
	for dec := json.NewDecoder(bytes.NewReader(data)); dec.More(); {
		var l logLine
		testkit.OK(t, dec.Decode(&l))
		lines = append(lines, l)
	}
	return lines
}

// recomputed is a second, dumb program for the same figures: it knows the log,
// and the limit, and shares no code with the first. Fluid shares have a dumb program of their own: see dumbFluid.
func recomputed(lines []logLine, limit, duration, warmup float64) map[string]float64 {
	out := map[string]float64{}
	firstUse := map[int]float64{}
	firstOffer := map[int]float64{}
	told := map[int]float64{}
	returned := map[int]float64{}
	var offers, refused, kept, broken float64
	var waits, late []float64
	asked := map[int]bool{}
	beats := 0.0
	for _, l := range lines {
		switch l.Ev {
		case "beat":
			if l.T >= warmup {
				beats++
			}
		case "offer":
			if _, again := firstOffer[l.ID]; !again {
				firstOffer[l.ID] = l.T
				asked[l.ID] = l.T >= warmup
			}
			if asked[l.ID] {
				offers++
			}
			if at, ok := told[l.ID]; ok && l.T >= at-1e-9 {
				returned[l.ID] = l.T
			}
		case "admit":
			if l.T >= warmup {
				waits = append(waits, l.T-firstOffer[l.ID])
			}
			if at, ok := returned[l.ID]; ok && at >= warmup {
				kept++
				late = append(late, l.T-at)
			}
		case "refuse":
			if asked[l.ID] {
				refused++
			}
			if at, ok := returned[l.ID]; ok && at >= warmup {
				broken++
			}
			delete(returned, l.ID)
			delete(told, l.ID)
			if l.Retry > 0 {
				told[l.ID] = l.T + l.Retry
			}
		case "use":
			if _, again := firstUse[l.ID]; !again {
				firstUse[l.ID] = l.T
			}
			at := l.T
			if l.Tokens < 0 {
				at = firstUse[l.ID]
			}
			if at >= warmup && at < duration {
				out["utilization"] += l.Tokens / (limit * (duration - warmup) / 60)
			}
		}
	}
	out["store_round_trips_per_1000"] = 1000 * beats / float64(len(waits))
	slices.Sort(waits)
	slices.Sort(late)
	out["wait_p50_seconds"] = waits[int(0.5*float64(len(waits)-1))]
	out["wait_p99_seconds"] = waits[int(0.99*float64(len(waits)-1))]
	out["refused"] = refused / offers
	if kept+broken > 0 {
		out["promise_kept"] = kept / (kept + broken)
		out["promise_late_p95_seconds"] = late[int(0.95*float64(len(late)-1))]
	}
	out["rolling_max"] = dumbRolling(lines, firstUse) / limit
	return out
}

// dumbRolling sums, at every use, all uses of the 60 s before. What was given
// back by then is taken off what it is given back of.
func dumbRolling(lines []logLine, firstUse map[int]float64) float64 {
	var uses []logLine
	for _, l := range lines {
		if l.Ev == "use" {
			uses = append(uses, l)
		}
	}
	most := 0.0
	for i := range uses {
		sum := 0.0
		for k := i; k >= 0 && uses[k].T > uses[i].T-60; k-- {
			if uses[k].Tokens > 0 || firstUse[uses[k].ID] > uses[i].T-60 {
				sum += uses[k].Tokens
			}
		}
		most = max(most, sum)
	}
	return most
}

func TestFiguresFollowFromTheLog(t *testing.T) {
	for i, c := range []struct {
		name   string
		change func(*scenario.Scenario)
	}{
		{"s2", nil},
		{"s2-deny", nil},
		{"reservation", func(s *scenario.Scenario) { s.Pool.TPM = 60_000 }},
		{"d2", nil},
		// The most is booked at admission, and given back at the end.
		{"reservation", func(s *scenario.Scenario) {
			s.Pool.TPM = 200_000
			s.Pool.Accounting = 0
		}},
	} {
		if testing.Short() && i > 0 {
			break // the others take minutes
		}
		s := testkit.Must(scenario.Find(c.name))(t)
		s.Duration = s.Warmup + 4*60e9
		s.Warmup = s.Warmup + 60e9
		if c.change != nil {
			c.change(&s)
		}
		var log, result bytes.Buffer
		res := testkit.Must(Run(context.Background(), s, Options{Seeds: []uint64{5}, Log: &log}))(t)
		testkit.OK(t, WriteJSON(&result, res))
		var told map[string]any
		testkit.OK(t, json.Unmarshal(result.Bytes(), &told))
		want := recomputed(readLog(t, log.Bytes()), float64(s.Pool.TPM), s.Duration.Seconds(), s.Warmup.Seconds())
		if _, ok := want["promise_kept"]; ok != (s.Refuse == scenario.DenyHinted) {
			t.Errorf("%s: the log tells of promises: %v", c.name, ok)
		}
		for key, x := range want {
			got, ok := told[key].(float64)
			// The oracle's sums are taken in another order.
			if !ok || math.Abs(got-x) > 1e-6 {
				t.Errorf("%s: %s is %v in JSON and %g by the log", c.name, key, told[key], x)
			}
		}
	}
}

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
