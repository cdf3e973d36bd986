package fleet

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/mock"
	"github.com/llmgov/llmgov/internal/testkit/processtest"
	"github.com/llmgov/llmgov/internal/testkit/redistest"
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
