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

// TestAsked_Bounded: the time at which a caller says that it asks counts if it is of now. One of a time to come would find the minute of
// its limits over, and one of long ago would book a call where it is about to be forgotten.
func TestAsked_Bounded(t *testing.T) {
	for what, by := range map[string]time.Duration{"now": 0, "in two minutes": 2 * time.Minute, "two minutes ago": -2 * time.Minute} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := must(t, Config{Pools: []Pool{{Name: "p", RPM: 1000, MaxQueue: 1}}, Tenants: []Tenant{{Name: "a", Weight: 1000, RPM: 1}}})
				time.Sleep(5 * time.Minute)
				served := 0
				for n := range 3 {
					l, rej := g.Acquire(t.Context(), Request{Tenant: "a", Pool: "p", Model: "m", Asked: time.Now().Add(time.Duration(n+1) * by)})
					if rej == nil {
						served++
						l.Settle(Usage{})
					}
					if _, rej := g.Acquire(t.Context(), Request{Tenant: "a", Pool: "p", Model: "m"}); rej == nil {
						served++
					}
				}
				if served != 1 {
					t.Errorf("%d calls were served in the minute, of one", served)
				}
			})
		})
	}
}
