package main

import (
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/testkit/pgtest"
)

// TestChaosFar measures how much of the limit four gateways serve with a store that is far. However far it is, the
// provider refuses nothing.
func TestChaosFar(t *testing.T) {
	if !*chaosAll {
		t.Skip("takes minutes; make chaos")
	}
	t.Run("redis", func(t *testing.T) { goFar(t, newRedisDisaster(t)) })
	t.Run("postgres", func(t *testing.T) { goFar(t, &pgDisaster{pgtest.New(t), t}) })
}

func goFar(t *testing.T, store disaster) {
	const settles, lasts = 4 * time.Second, 10 * time.Second
	c := newTumult(t, store, 4)
	c.flood()
	defer c.rest()
	time.Sleep(10 * time.Second)
	for _, far := range []time.Duration{0, 30 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond, 300 * time.Millisecond, 500 * time.Millisecond, time.Second} {
		if far > 0 {
			c.delay(far)
		}
		time.Sleep(settles)
		from := time.Now()
		before := statsOf(t, c.mock)
		time.Sleep(lasts)
		served := statsOf(t, c.mock).Admitted - before.Admitted
		c.note("%7v to the store and back: %3.0f %% of the limit, in the worst second %3.0f %%", far,
			100*float64(served*chaosCall*60)/lasts.Seconds()/chaosTPM, 100*c.least(from, time.Now()))
		c.delay(0)
	}
	c.rest()
	if refused := statsOf(t, c.mock).Refused; refused > 0 {
		t.Errorf("the provider refused %d", refused)
	}
	c.log()
}
