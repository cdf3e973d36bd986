package runner_test

import (
	"sync"
	"testing"
	"time"

	"github.com/llmgov/llmgov/governor"
)

// TestSlots_SoftCap: a tenant that asks for all slots, at one gateway or at each, has its soft cap of them over all gateways, and
// another one the rest.
func TestSlots_SoftCap(t *testing.T) {
	for what, at := range map[string][]int{"at one gateway": {0}, "at all": {0, 1, 2}} {
		t.Run(what, func(t *testing.T) {
			withFleet(t, 24, 3, func(p *governor.Pool) { p.SoftCapPPM = 500_000 }, func(t *testing.T, f *fleet, list []*berth, group *sync.WaitGroup) {
				for _, i := range at {
					f.flood(group, list[i], "a", 60/len(at), time.Minute, time.Second)
				}
				time.Sleep(15 * time.Second)
				f.reset()
				time.Sleep(20 * time.Second)
				got := f.seen().had["a"].Seconds() / 20
				t.Logf("alone it had %.2f of 24 slots, at most %d", got, f.seen().most)
				if f.seen().most > 12 || got < 9 {
					t.Errorf("alone it had %.2f slots and at most %d at once, want nearly 12, and no more", got, f.seen().most)
				}
				for _, i := range at {
					f.flood(group, list[i], "b", 60/len(at), 25*time.Second, time.Second)
				}
				time.Sleep(5 * time.Second)
				f.reset()
				time.Sleep(15 * time.Second)
				got = f.seen().had["a"].Seconds() / 15
				other := f.seen().had["b"].Seconds() / 15
				t.Logf("beside another it had %.2f, the other %.2f", got, other)
				if got < 10 || got > 12.5 || other < 10 {
					t.Errorf("it had %.2f slots, and another %.2f, want nearly 12 each", got, other)
				}
			})
		})
	}
}

// TestSlots_SoftCapImpatient: calls that may not wait are served up to their tenant's soft cap of all slots, though only a few are
// granted to their gateway when they come. Beyond the cap they are refused.
func TestSlots_SoftCapImpatient(t *testing.T) {
	withFleet(t, 24, 3, func(p *governor.Pool) { p.SoftCapPPM = 500_000 }, func(t *testing.T, f *fleet, list []*berth, _ *sync.WaitGroup) {
		time.Sleep(5 * time.Second)
		var calls sync.WaitGroup
		for range 30 {
			calls.Go(func() { f.call(list[1], "now", false, time.Second) })
		}
		calls.Wait()
		if n := f.seen().refused[governor.ReasonConcurrency]; f.seen().most < 10 || f.seen().most > 12 || n != 30-f.seen().most {
			t.Errorf("of 30 calls where 24 slots are free, of which one tenant may have 12, %d ran and %d were refused", f.seen().most, n)
		}
		if f.seen().waited > 250*time.Millisecond {
			t.Errorf("one waited %v", f.seen().waited)
		}
	})
}
