package fleet

import (
	"fmt"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/mock"
	"github.com/llmgov/llmgov/internal/testkit/pgtest"
	"github.com/llmgov/llmgov/internal/testkit/processtest"
)

// TestChaosFar measures how much of the limit four gateways serve with a store that is far. However far it is, the
// provider refuses nothing.
func TestChaosFar(t *testing.T) {
	if !*chaosAll {
		t.Skip("takes minutes; make chaos")
	}
	t.Run("redis", func(t *testing.T) { goFar(t, newRedisDisaster(t)) })
	t.Run("postgres", func(t *testing.T) { goFar(t, &pgDisaster{pgtest.New(t), t}) })
	t.Run("slots, redis", func(t *testing.T) { goFarSlots(t, newRedisDisaster(t)) })
	t.Run("slots, postgres", func(t *testing.T) { goFarSlots(t, &pgDisaster{pgtest.New(t), t}) })
}

// goFarSlots measures how many of a pool's slots three gateways keep in use with a store that is far. All are asked for more calls at once than there
// are slots.
func goFarSlots(t *testing.T, store disaster) {
	const slots, settles, lasts = 64, 12 * time.Second, 20 * time.Second
	c := &tumult{model: processtest.NewProvider(t, mock.Config{OutputTokens: 20, TokensPerSecond: 20})}
	c.scene = newScene(t, store, 3, chaosPool(c.model, fmt.Sprintf("concurrency: %d, expect_nodes: 3", slots)), ofCrowd())
	c.flood()
	defer c.rest()
	for _, far := range []time.Duration{0, 100 * time.Millisecond, 300 * time.Millisecond, 500 * time.Millisecond, time.Second} {
		if far > 0 {
			c.delay(far)
		}
		time.Sleep(settles)
		running := int64(0)
		samples := int64(0)
		for end := time.Now().Add(lasts); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			running += c.model.Stats().Running
			samples++
		}
		c.note("%7v to the store and back: %3.0f %% of the slots in use", far, 100*float64(running)/float64(samples*slots))
		c.delay(0)
	}
	c.rest()
	if peak := c.model.Stats().PeakRunning; peak > slots {
		t.Errorf("%d calls at once, of %d", peak, slots)
	}
	c.log()
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
		before := c.model.Stats()
		time.Sleep(lasts)
		served := c.model.Stats().Admitted - before.Admitted
		c.note("%7v to the store and back: %3.0f %% of the limit, in the worst second %3.0f %%", far,
			100*float64(served*chaosCall*60)/lasts.Seconds()/chaosTPM, 100*c.least(from, time.Now()))
		c.delay(0)
	}
	c.rest()
	if refused := c.model.Stats().Refused; refused > 0 {
		t.Errorf("the provider refused %d", refused)
	}
	c.log()
}
