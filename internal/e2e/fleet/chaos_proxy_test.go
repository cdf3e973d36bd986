package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	neturl "net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/testkit/redistest"
	"github.com/llmgov/llmgov/tenants"
)

// TestChaosProxy: if one gateway of three is cut off behind a proxy that asks for /readyz and prefers the gateway with
// the fewest open calls, no caller waits longer than a second, and soon no call is refused any more.
func TestChaosProxy(t *testing.T) {
	if !*chaosAll {
		t.Skip("takes a minute; make chaos")
	}
	const load = 60 // calls a second, of some 100 in the limit
	mock := startMock(t, fmt.Sprint("--tpm=", chaosTPM), "--output-tokens=480")
	policy := fmt.Sprintf("tenants:\n  most: {keys: [%q], max_wait: 30s}\n", tenants.HashKey("key-of-most").String())
	config := fmt.Sprintf("upstreams: {mock: {base_url: %s/v1}}\npools: {p: {models: [\"*\"], tpm: %d, expect_nodes: 3}}\n", mock, chaosTPM)
	c := newScene(t, newRedisDisaster(t), 3, config, policy)
	p := newCheckingProxy(t, c.gateways)
	defer p.stop()
	p.send(load, 10*time.Second)
	before := p.take()
	c.ways[0].cut()
	p.send(load, 20*time.Second)
	during := p.take()
	if p.members[0].ready.Load() || !p.members[1].ready.Load() || !p.members[2].ready.Load() {
		t.Error("the gateway that is cut off, or another one, is in the wrong state")
	}
	p.send(load, 5*time.Second)
	late := p.take()
	c.ways[0].heal()
	redistest.Eventually(t, "the gateway behind the proxy again", p.members[0].ready.Load)
	p.send(load, 10*time.Second)
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
	if st := statsOf(t, mock); st.Refused > 0 {
		t.Errorf("the provider refused %d", st.Refused)
	}
}

// checkingProxy is a proxy before gateways. It asks each for /readyz twice per second, and sends a call to one that was
// ready twice and has the fewest open calls.
type checkingProxy struct {
	*httptest.Server
	t       *testing.T
	members []*balanced
	stop    context.CancelFunc

	mu sync.Mutex
	outcome
}

// outcome is how calls fared.
type outcome struct {
	served, refused int
	longest         time.Duration
}

// balanced is a gateway behind a proxy.
type balanced struct {
	*gatewayInTumult
	proxy *httputil.ReverseProxy
	open  atomic.Int64
	ready atomic.Bool
}

func newCheckingProxy(t *testing.T, gateways []*gatewayInTumult) *checkingProxy {
	p := &checkingProxy{t: t}
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	p.stop = func() { stop(); group.Wait() }
	for _, g := range gateways {
		to, err := neturl.Parse(g.proc.Load().data)
		if err != nil {
			t.Fatal(err)
		}
		m := &balanced{gatewayInTumult: g, proxy: httputil.NewSingleHostReverseProxy(to)}
		m.ready.Store(true)
		p.members = append(p.members, m)
		group.Go(func() { m.check(ctx) })
	}
	p.Server = httptest.NewServer(p)
	t.Cleanup(p.Close)
	return p
}

// check asks for /readyz until ctx ends. Two answers of a kind in a row count.
func (m *balanced) check(ctx context.Context) {
	ticker := time.NewTicker(500 * time.Millisecond)
	defer ticker.Stop()
	for last := true; ; {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		resp, err := http.Get(m.proc.Load().admin + "/readyz")
		ready := err == nil && resp.StatusCode == http.StatusOK
		if err == nil {
			resp.Body.Close()
		}
		if ready == last {
			m.ready.Store(ready)
		}
		last = ready
	}
}

func (p *checkingProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var least *balanced
	for _, m := range p.members {
		if m.ready.Load() && (least == nil || m.open.Load() < least.open.Load()) {
			least = m
		}
	}
	if least == nil {
		http.Error(w, "no gateway is ready", http.StatusBadGateway)
		return
	}
	least.open.Add(1)
	defer least.open.Add(-1)
	least.proxy.ServeHTTP(w, r)
}

// send sends so many calls per second for so long, and waits for their answers.
func (p *checkingProxy) send(perSecond int, lasts time.Duration) {
	ticker := time.NewTicker(time.Second / time.Duration(perSecond))
	defer ticker.Stop()
	var calls sync.WaitGroup
	defer calls.Wait()
	for end := time.Now().Add(lasts); time.Now().Before(end); <-ticker.C {
		calls.Go(p.call)
	}
}

func (p *checkingProxy) call() {
	body := `{"model":"m","messages":[{"role":"user","content":"How long is a piece of string?"}],"max_tokens":480}`
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, p.URL+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		p.t.Error(err)
		return
	}
	req.Header.Set("Authorization", "Bearer key-of-most")
	began := time.Now()
	resp, err := http.DefaultClient.Do(req)
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
func (p *checkingProxy) take() outcome {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.outcome
	p.outcome = outcome{}
	return o
}
