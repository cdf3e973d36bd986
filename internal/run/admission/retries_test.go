package admission

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/tenants"
)

// Of all that come at once with one name, exactly one is in; who was not let in ends
// nobody, nor does a second end; and nothing is left.
func TestOngoing_OneAtATime(t *testing.T) {
	var s ongoing
	const names = 8
	var in [names]atomic.Int64
	var let atomic.Int64
	testkit.AtOnce(32, func(w int) {
		rng := rand.New(rand.NewPCG(uint64(w), 1))
		for range 2000 {
			n := rng.IntN(names)
			a := &ongoingCall{name: ongoingName{fmt.Sprint(n / 2), fmt.Sprint(n % 2)}, asks: uint64(n)}
			first := s.begin(a)
			if first == nil {
				if now := in[n].Add(1); now != 1 {
					t.Errorf("%d are in at once", now)
				}
				let.Add(1)
				runtime.Gosched()
				in[n].Add(-1)
			} else if first.asks != a.asks {
				t.Errorf("%v is in the way of %v", first.name, a.name)
			}
			s.end(a)
			s.end(a)
			s.end(nil)
		}
	})
	if len(s.byName) != 0 || let.Load() < names {
		t.Errorf("%d are left, %d were let in", len(s.byName), let.Load())
	}
}

// Calls without a key, which are nearly all, pay nothing for those that have one.
//
// Catches: a lease that is moved to the heap before it is known whether anybody keeps it.
func TestNoAttemptAllocatesNothing(t *testing.T) {
	var none *ongoingCall
	var lease governor.Lease
	if n := testkit.Allocs(t, 100, func() { none.runs(lease) }); n != 0 {
		t.Errorf("a call without an Idempotency-Key makes %v allocations for it", n)
	}
}

// Values of placeholders are put in once: the id of a request cannot bring in others.
func TestUpstreamHeaders(t *testing.T) {
	pool := &tenants.Pool{Headers: []tenants.Header{
		{Name: "X-Llm-D-Inference-Fairness-Id", Value: "{tenant}"},
		{Name: "X-Llm-D-Inference-Objective", Value: "{tier}-{priority}"},
		{Name: "X-Trace", Value: "llmgov/{request_id}"},
	}}
	c := &Call{ID: "{tenant}"}
	c.Pool = &Pool{Pool: pool}
	c.Tenant = &tenants.Tenant{Name: "acme/search", Tier: "pro"}
	for _, background := range []bool{false, true} {
		c.Ask.Background = background
		got := ""
		c.UpstreamHeaders(func(name, value string) { got += fmt.Sprintln(name, value) })
		priority := map[bool]string{false: "interactive", true: "background"}[background]
		want := "X-Llm-D-Inference-Fairness-Id acme/search\nX-Llm-D-Inference-Objective pro-" + priority + "\nX-Trace llmgov/{tenant}\n"
		if got != want {
			t.Errorf("set %q, not %q", got, want)
		}
	}
}
