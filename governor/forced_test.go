package governor

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/escrow/lengths"
)

// What is booked when it is done already says nothing of how long calls get, or run: it
// was no call of its own.
//
// Catches: debts of batches and background responses, and parts of sessions, that are
// learned as calls which broke off at once.
func TestForcedCallsTeachNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := must(t, Config{
			Pools:   []Pool{{Name: "p", TPM: 10_000_000, Concurrency: 2, MaxQueue: 10}},
			Tenants: []Tenant{{Name: "a", Weight: 1000}},
		})
		req := Request{Tenant: "a", Pool: "p", Model: "m", Input: 10, Output: 64}
		for range 60 {
			l := admitted(t, g, req)
			time.Sleep(time.Second)
			l.Settle(Usage{Input: 10, Output: 20})
		}
		for range 2 { // both slots
			admitted(t, g, req)
		}
		expect := func() (output int64, run, wait time.Duration) {
			o, _ := g.Explain(req)
			return g.pools["p"].outputs.ExpectOf(lengths.Kind{Tenant: "a", Model: "m"}, req.Output), o.Run, o.Refused.RetryAfter
		}
		output, run, wait := expect()
		for range 300 {
			done := req
			done.Forced = true
			l := admitted(t, g, done)
			l.Charge(Usage{Input: 10, Output: 60})
		}
		if o, r, w := expect(); o != output || r != run || w != wait || w < 100*time.Millisecond {
			t.Errorf("calls are expected to take %d, run for %v and wait for %v, and before for %d, %v and %v", o, r, w, output, run, wait)
		}
	})
}

// A count that cannot be does not turn the pool's speed round.
func TestSpeedStaysPositive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, output := range []int64{1, 1e9, 1e10, 3e10, 1e11, 1e12, 1 << 62} {
			g := must(t, Config{Pools: []Pool{{Name: "p", TPM: 10_000_000}}, Tenants: []Tenant{{Name: "a", Weight: 1000}}})
			l := admitted(t, g, Request{Tenant: "a", Pool: "p"})
			time.Sleep(time.Second)
			l.Settle(Usage{Output: output})
			if speed := g.pools["p"].speed; speed <= 0 || output > 1000 && speed <= firstSpeed {
				t.Errorf("after %d tokens in a second the speed is %d", output, speed)
			}
		}
	})
}
