package governor

import (
	"testing"
	"testing/synctest"
	"time"
)

// countedClock counts how often it is read.
type countedClock struct {
	SystemClock
	reads int
}

func (c *countedClock) Now() time.Time {
	c.reads++
	return c.SystemClock.Now()
}

// A caller that has just read the clock spares the governor from reading it.
func TestAcquire_BelievesWhenItIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // in which no timer of the governor reads the clock meanwhile
		clock := &countedClock{}
		g := must(t, Config{Clock: clock, Pools: []Pool{{Name: "p", TPM: 1000}}, Tenants: []Tenant{{Name: "a", Weight: 1000}}})
		for asked, want := range map[time.Time]int{{}: 1, time.Now(): 0} {
			before := clock.reads
			lease := admitted(t, g, Request{Tenant: "a", Pool: "p", Input: 1, Asked: asked})
			if got := clock.reads - before; got != want {
				t.Errorf("asked at %v: the clock was read %d times, %d is right", asked, got, want)
			}
			lease.Release()
		}
	})
}
