package fleet

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

// TestMadeUp: what is made up for is waited for until it has left the minute.
func TestMadeUp(t *testing.T) {
	const limit = chaosTPM * int64(bucket) / chaosCall / int64(time.Minute)
	for _, x := range []struct {
		ago  time.Duration
		want bool
	}{{10 * time.Second, true}, {50 * time.Second, true}, {70 * time.Second, false}} {
		c := &tumult{began: time.Now().Add(-2 * time.Minute)}
		for range 2 * time.Minute / bucket {
			c.buckets = append(c.buckets, map[string]int64{"much": limit})
		}
		if c.madeUp() {
			t.Error("the limit counts as made up for")
		}
		from := int((2*time.Minute - x.ago) / bucket)
		for i := range 5 * time.Second / bucket {
			c.buckets[from+int(i)]["most"] = limit
		}
		if got := c.madeUp(); got != x.want {
			t.Errorf("twice the limit %v ago: made up %v", x.ago, got)
		}
	}
}
