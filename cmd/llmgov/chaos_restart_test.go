package main

import (
	"testing"
	"time"
)

// TestChaosRestart: if Redis and all gateways are restarted at once, nobody knows what was used. Without
// expect_nodes the provider still refuses nothing: a minute is waited for, and then all is as before.
func TestChaosRestart(t *testing.T) {
	if !*chaosAll {
		t.Skip("takes minutes; make chaos")
	}
	const learns = 65 * time.Second
	c := newTumult(t, newRedisDisaster(t), 0)
	c.flood()
	defer c.rest()
	time.Sleep(learns + 10*time.Second)
	c.within = learns
	c.suffer(mishap{name: "everything restarted, with Redis and without expect_nodes", lasts: time.Second, do: c.restartAll, undo: func() {}})
	c.rest()
	c.report()
}
