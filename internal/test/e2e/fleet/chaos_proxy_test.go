package fleet

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/lab/mock"
	"github.com/llmgov/llmgov/internal/test/testkit/pgtest"
	"github.com/llmgov/llmgov/internal/test/testkit/processtest"
	"github.com/llmgov/llmgov/internal/test/testkit/redistest"
)

// TestChaosProxy: if one gateway of three is cut off behind a proxy that asks for /readyz and prefers the gateway with
// the fewest open calls, no caller waits longer than a second, and soon no call is refused any more.
func TestChaosProxy(t *testing.T) {
	if !*chaosAll {
		t.Skip("takes a minute; make chaos")
	}
	const load = 60 // calls a second, of some 100 in the limit
	model := processtest.NewProvider(t, mock.Config{TPM: chaosTPM, OutputTokens: 480})
	config := chaosPool(model, fmt.Sprintf("tpm: %d, expect_nodes: 3", chaosTPM))
	c := newScene(t, newRedisDisaster(t), 3, config, map[string]string{"most": "max_wait: 30s"})
	p := &measured{balancer: newBalancer(t, c.gateways)}
	p.flow(load, 10*time.Second)
	before := p.take()
	c.ways[0].cut()
	p.flow(load, 20*time.Second)
	during := p.take()
	if p.members[0].ready.Load() || !p.members[1].ready.Load() || !p.members[2].ready.Load() {
		t.Error("the gateway that is cut off, or another one, is in the wrong state")
	}
	p.flow(load, 5*time.Second)
	late := p.take()
	c.ways[0].heal()
	redistest.Eventually(t, "the gateway behind the proxy again", p.members[0].ready.Load)
	p.flow(load, 10*time.Second)
	after := p.take()
	for _, x := range []struct {
		when string
		outcome
		refused int
	}{{"before", before, 0}, {"cut off, the first 20 s", during, 5 * load}, {"cut off, the 5 s after", late, 0}, {"after", after, 0}} {
		t.Logf("%s: %d served, %d refused, the longest took %v", x.when, x.served, x.outcome.refused, x.longest.Round(time.Millisecond))
		if x.longest > time.Second || x.outcome.refused > x.refused || x.served == 0 {
			t.Errorf("%s: want at most %d refused, and none after a second", x.when, x.refused)
		}
	}
	if st := model.Stats(); st.Refused > 0 {
		t.Errorf("the provider refused %d", st.Refused)
	}
}

// measured is calls through a load balancer.
type measured struct {
	*balancer
	mu sync.Mutex
	outcome
}

// outcome is how calls fared.
type outcome struct {
	served, refused int
	longest         time.Duration
}

// flow sends so many calls per second for so long, and waits for their answers.
func (p *measured) flow(perSecond int, lasts time.Duration) {
	ticker := time.NewTicker(time.Second / time.Duration(perSecond))
	defer ticker.Stop()
	var calls sync.WaitGroup
	defer calls.Wait()
	for end := time.Now().Add(lasts); time.Now().Before(end); <-ticker.C {
		calls.Go(p.call)
	}
}

func (p *measured) call() {
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, "http://front/v1/chat/completions", strings.NewReader(longCall))
	if err != nil {
		p.t.Error(err)
		return
	}
	req.Header.Set("Authorization", "Bearer key-of-most")
	began := time.Now()
	resp, err := p.RoundTrip(req)
	if err != nil {
		p.t.Error(err)
		return
	}
	resp.Body.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.longest = max(p.longest, time.Since(began))
	switch resp.StatusCode {
	case http.StatusOK:
		p.served++
	case http.StatusServiceUnavailable:
		p.refused++
	default:
		p.t.Errorf("a call is answered %d", resp.StatusCode)
	}
}

// take returns how calls fared since it was last called.
func (p *measured) take() outcome {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.outcome
	p.outcome = outcome{}
	return o
}

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
