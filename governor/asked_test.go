package governor

import (
	"testing"
	"testing/synctest"
	"time"
)

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
