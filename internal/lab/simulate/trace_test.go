package simulate

import (
	"bytes"
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/internal/lab/simulate/scenario"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// script builds traces by hand.
type script struct{ Trace }

// ask is a request of so many tokens: admitted after a wait, used and settled at
// once.
func (s *script) ask(tenant int32, at, wait time.Duration, tokens int64) int32 {
	id := int32(len(s.Requests))
	s.Requests = append(s.Requests, Request{Tenant: tenant, At: at, Tokens: tokens})
	s.add(at, Offered, id, tokens)
	s.add(at+wait, Admitted, id, tokens)
	s.add(at+wait, Used, id, tokens)
	s.add(at+wait, Settled, id, tokens)
	return id
}

func (s *script) refuse(id int32, at, hint time.Duration) {
	s.Events = append(s.Events, Occurrence{At: at, Kind: Refused, Request: id, Hint: hint})
}

func parsed(t *testing.T, text string) *scenario.Scenario {
	t.Helper()
	s := testkit.Must(scenario.Parse("test.yaml", []byte(text)))(t)
	return &s
}

func near(t *testing.T, what string, got Value, want float64) {
	t.Helper()
	if math.IsNaN(want) != !got.Known() || math.Abs(float64(got)-want) > 1e-9 {
		t.Errorf("%s is %v, want %g", what, float64(got), want)
	}
}

const twoWorkers = `
duration: 3m
warmup: 1m
pool: {tpm: 6000}
cost: {dist: constant, mean: 100}
tenants:
  - {name: a, weight: 2, load: {kind: backlogged, workers: 5}}
  - {name: b, load: {kind: backlogged, workers: 5}}
`

// Both are backlogged at weights 2:1, so each minute's 6000 are 4000 and 2000.
// In the second minute a gets 3000 and b 2400; in the third both are right.
func TestSharesOfAHandMadeTrace(t *testing.T) {
	var s script
	const second = time.Second
	s.ask(0, 10*second, 0, 6000) // in the warm-up: for rolling sums only
	refunded := s.ask(0, 80*second, 2*second, 3500)
	s.ask(1, 80*second, 4*second, 2400)
	s.ask(0, 150*second, 0, 4000)
	s.ask(1, 150*second, 6*second, 2000)
	s.add(130*second, Used, refunded, -500) // of what it took in the second minute
	s.Beats = []Told{{At: 50 * second}, {At: 70 * second}, {At: 90 * second}}
	p := newPlan(parsed(t, twoWorkers), 1)
	f, tenants := newAudit(p, &s.Trace).figures()

	near(t, "utilization", f.Utilization, 11400.0/12000)
	near(t, "misallocation", f.Misallocation, (1400.0/2/6000+0)/2)
	near(t, "misallocation_max", f.MisallocationMax, 1400.0/2/6000)
	near(t, "long_run_deviation", f.LongRunDeviation, 1-7000.0/8000)
	x := 7000.0 / 8000
	y := 4400.0 / 4000
	near(t, "jain", f.Jain, (x+y)*(x+y)/(2*(x*x+y*y)))
	near(t, "rolling_max", f.Fullest[escrow.Tokens], 1)
	near(t, "wait_p50_seconds", f.WaitP50, 2)
	near(t, "wait_p99_seconds", f.WaitP99, 4)
	near(t, "store_round_trips_per_1000", f.StoreRoundTrips, 2000.0/4)
	near(t, "promise_kept", f.PromiseKept, math.NaN())
	near(t, "a's entitled", tenants[0].Entitled, 8000.0/12000)
	near(t, "a's received", tenants[0].Received, 7000.0/12000)
	near(t, "b's received", tenants[1].Received, 4400.0/12000)
}

func TestPromisesOfAHandMadeTrace(t *testing.T) {
	var s script
	const second = time.Second
	// The three are told 3 s. The first returns in time and is served 1.5 s later,
	// the second in time and is refused again, the third too early.
	for id, back := range []time.Duration{3, 4, 2} {
		at := 70 * second
		s.Requests = append(s.Requests, Request{Tenant: 0, At: at, Tokens: 10})
		s.add(at, Offered, int32(id), 10)
		s.refuse(int32(id), at, 3*second)
		s.add(at+back*second, Offered, int32(id), 10)
	}
	s.add(74500*time.Millisecond, Admitted, 0, 10)
	s.refuse(1, 74*second, second)
	s.Requests = append(s.Requests, Request{At: 10 * second, Tokens: 10}) // in the warm-up
	s.add(10*second, Offered, 3, 10)
	s.refuse(3, 10*second, 0)
	s.add(73*second, Admitted, 2, 10)
	sc := parsed(t, twoWorkers)
	sc.Refuse = scenario.DenyHinted
	f, _ := newAudit(newPlan(sc, 1), &s.Trace).figures()
	near(t, "promise_kept", f.PromiseKept, 0.5)
	near(t, "promise_late_p95_seconds", f.PromiseLateP95, 1.5)
	near(t, "refused", f.Refused, 4.0/6)
	near(t, "wait_p99_seconds", f.WaitP99, 3)
}

func TestReturnerOfAHandMadeTrace(t *testing.T) {
	sc := parsed(t, `
duration: 3m
pool: {tpm: 6000}
cost: {dist: constant, mean: 100}
tenants:
  - {name: a, weight: 2, load: {kind: absent}}
  - {name: b, load: {kind: backlogged, workers: 5}}
events: [{at: 100s, tenant: a, load: {kind: backlogged, workers: 5}}]
`)
	var s script
	const second = time.Second
	s.ask(0, 99*second, 2*second, 500) // asked before it returned
	s.ask(0, 101*second, 3*second, 100)
	s.ask(0, 101*second, 9*second, 200)
	s.ask(0, 101*second, 12*second, 300)
	f, _ := newAudit(newPlan(sc, 1), &s.Trace).figures()
	near(t, "first admission", f.FirstAdmission, 4)
	// Its share is 2/3 of 100 tokens a second: 333 in 5 s, which it has with the third.
	near(t, "five seconds' worth", f.FiveSecondsWorth, 13)
}

func TestRollingMax(t *testing.T) {
	const second = time.Second
	use := func(t *Trace, at time.Duration, id int32, n int64) {
		for len(t.Requests) <= int(id) {
			t.Requests = append(t.Requests, Request{})
		}
		t.add(at, Used, id, n)
	}
	for _, c := range []struct {
		what string
		uses []Occurrence
		want int64
	}{
		{"60 s apart do not meet", []Occurrence{{At: 0, Tokens: 5, Request: 0}, {At: 60 * second, Tokens: 7, Request: 1}}, 7},
		{"a nanosecond less does", []Occurrence{{At: 0, Tokens: 5, Request: 0}, {At: 60*second - 1, Tokens: 7, Request: 1}}, 12},
		{"a refund makes room at once", []Occurrence{
			{At: 0, Tokens: 10, Request: 0},
			{At: 5 * second, Tokens: -8, Request: 0},
			{At: 6 * second, Tokens: 7, Request: 1},
		}, 10},
		{"a refund leaves with what it refunds", []Occurrence{
			{At: 0, Tokens: 10, Request: 0},
			{At: 30 * second, Tokens: -8, Request: 0},
			{At: 70 * second, Tokens: 7, Request: 1},
			{At: 80 * second, Tokens: 4, Request: 2},
		}, 11},
		{"a refund of what has left counts for nothing", []Occurrence{
			{At: 0, Tokens: 10, Request: 0},
			{At: 61 * second, Tokens: 9, Request: 1},
			{At: 62 * second, Tokens: -8, Request: 0},
			{At: 63 * second, Tokens: 3, Request: 2},
		}, 12},
	} {
		var tr Trace
		for _, u := range c.uses {
			use(&tr, u.At, u.Request, u.Tokens)
		}
		if got := rollingMax(&tr, escrow.Tokens, nil); got != c.want {
			t.Errorf("%s: got %d, want %d", c.what, got, c.want)
		}
	}
}

func TestSlotSeconds(t *testing.T) {
	sc := parsed(t, `
duration: 3m
warmup: 60s
pool: {tpm: 0, concurrency: 2}
service: 10s
tenants:
  - {name: a, load: {kind: backlogged, workers: 5}}
  - {name: b, load: {kind: backlogged, workers: 5}}
`)
	var s script
	run := func(tenant int32, from, to time.Duration) {
		id := int32(len(s.Requests))
		s.Requests = append(s.Requests, Request{Tenant: tenant, At: from * time.Second, Run: (to - from) * time.Second})
		s.add(from*time.Second, Offered, id, 0)
		s.add(from*time.Second, Admitted, id, 0)
		if to < 180 {
			s.add(to*time.Second, Settled, id, 0)
		}
	}
	run(0, 30, 90)   // 30 s of it in the second minute
	run(1, 90, 300)  // 30 s in the second, 60 in the third: it is cut at the end
	run(0, 120, 165) // 45 s in the third
	f, tenants := newAudit(newPlan(sc, 1), &s.Trace).figures()
	near(t, "slots_utilization", f.Used[escrow.Slots], (30+30+60+45)/240.0)
	near(t, "a's received", tenants[0].Received, 75/240.0)
	near(t, "slots_max", f.Fullest[escrow.Slots], 1)
	near(t, "misallocation", f.Misallocation, (60.0/2/120+15.0/2/120)/2)
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
