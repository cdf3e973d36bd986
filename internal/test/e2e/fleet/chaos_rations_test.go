package fleet

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/lab/mock"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/internal/test/testkit/processtest"
	"github.com/llmgov/llmgov/internal/test/testkit/redistest"
)

// ration is one limit, with a pool, a tenant and a provider of its own, all of its name.
type ration struct {
	name, pool, tenant string
	limit              int64
	mode               string // tenant_limits, of a tenant's; empty of a pool's
	callers            int    // at each gateway
	tenths             int    // of a second that a call takes
	pause              time.Duration
	provider           *provider
	served             sync.Map // *processtest.Process to *atomic.Int64
}

const (
	slotsRation, minuteRation, budgetRation = 6, 60, 1500
	rationWait                              = 2 * time.Second // the tenants' max_wait
)

// rations are a pool's calls at once and budget, and a tenant's own limits of each kind under each of
// tenant_limits.
func rations(t *testing.T) (list []*ration) {
	budget := fmt.Sprintf("budgets: [{requests: %d, per: month}]", budgetRation)
	list = []*ration{
		{name: "slots", pool: fmt.Sprint("concurrency: ", slotsRation), limit: slotsRation, callers: slotsRation, tenths: 4},
		{name: "budget", pool: "concurrency: 100, " + budget, limit: budgetRation, callers: 1, pause: 200 * time.Millisecond},
	}
	for _, mode := range []string{"leased", "cached_deny", "strict"} {
		pool := "concurrency: 100, tenant_limits: " + mode
		list = append(list,
			&ration{name: mode + "-slots", mode: mode, pool: pool, tenant: fmt.Sprint("concurrency: ", slotsRation), limit: slotsRation, callers: slotsRation, tenths: 4},
			&ration{name: mode + "-minute", mode: mode, pool: pool, tenant: fmt.Sprint("rpm: ", minuteRation), limit: minuteRation, callers: 1, pause: 1500 * time.Millisecond},
			&ration{name: mode + "-budget", mode: mode, pool: pool, tenant: budget, limit: budgetRation, callers: 1, pause: 200 * time.Millisecond},
		)
	}
	for _, r := range list {
		s := testkit.Must(mock.New(mock.Config{}))(t)
		r.provider = &provider{mock: s}
	}
	return list
}

// provider counts the calls that come to it.
type provider struct {
	mock    *mock.Server
	mu      sync.Mutex
	arrived []time.Time
}

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.arrived = append(p.arrived, time.Now())
	p.mu.Unlock()
	p.mock.ServeHTTP(w, r)
}

func (p *provider) count() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return int64(len(p.arrived))
}

// most is how many calls came within so long at most, of those that ended it since then.
func (p *provider) most(window time.Duration, since time.Time) (most int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	first := 0
	for i, at := range p.arrived {
		for at.Sub(p.arrived[first]) >= window {
			first++
		}
		if !at.Before(since) {
			most = max(most, int64(i-first+1))
		}
	}
	return most
}

// want is gateways that have rations, and callers who want more.
type want struct {
	*scene
	list  []*ration
	front *httptest.Server // of all providers

	stop    context.CancelFunc
	callers sync.WaitGroup
}

func newWant(t *testing.T, store disaster) *want {
	w := &want{list: rations(t)}
	routes := http.NewServeMux()
	upstreams := "upstreams:\n"
	pools := "pools:\n"
	settings := map[string]string{}
	w.front = httptest.NewServer(routes)
	t.Cleanup(w.front.Close)
	for _, r := range w.list {
		routes.Handle("/"+r.name+"/", http.StripPrefix("/"+r.name, r.provider))
		upstreams += fmt.Sprintf("  %s: {base_url: %s/%s/v1}\n", r.name, w.front.URL, r.name)
		pools += fmt.Sprintf("  %s: {models: [%s], upstream: %s, expect_nodes: 3, %s}\n", r.name, r.name, r.name, r.pool)
		settings[r.name] = fmt.Sprintf("models: [%s], max_wait: %v, %s", r.name, rationWait, r.tenant)
	}
	w.scene = newScene(t, store, 3, upstreams+pools, settings)
	return w
}

// flood has callers of all rations ask at all gateways.
func (w *want) flood() {
	ctx, cancel := context.WithCancel(w.t.Context())
	w.stop = cancel
	for _, g := range w.gateways {
		for _, r := range w.list {
			for range r.callers {
				w.callers.Go(func() {
					for ctx.Err() == nil {
						if status := w.call(ctx, g, r, r.tenths); status == 0 {
							time.Sleep(50 * time.Millisecond) // the gateway is gone
						}
						time.Sleep(r.pause)
					}
				})
			}
		}
	}
}

func (w *want) rest() {
	w.stop()
	w.callers.Wait()
}

// call asks for an answer that takes so long, and waits as SDKs do where it is refused; the status is 0
// where nobody answers.
func (w *want) call(ctx context.Context, g *gateway, r *ration, tenths int) (status int) {
	body := fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"More"}],"max_tokens":99,"mock":{"output_tokens":%d,"token_ms":100}}`, r.name, max(1, tenths))
	p := g.proc.Load()
	ctx, stop := context.WithTimeout(ctx, 30*time.Second)
	defer stop()
	answer, err := processtest.Try(ctx, http.MethodPost, p.Data+"/v1/chat/completions", "key-of-"+r.name, body)
	if err != nil {
		return 0
	}
	switch answer.Status {
	case http.StatusOK:
		n, _ := r.served.LoadOrStore(p, &atomic.Int64{})
		n.(*atomic.Int64).Add(1)
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		ms, _ := strconv.Atoi(answer.Header.Get("Retry-After-Ms"))
		time.Sleep(min(max(time.Duration(ms)*time.Millisecond, 50*time.Millisecond), 500*time.Millisecond))
	default:
		w.t.Errorf("%s: %d %s", r.name, answer.Status, answer.Body)
	}
	return answer.Status
}

// known waits until each gateway has had so many calls of a pool that it knows how long they run. Until then its slots count
// for a minute after it was heard of last, and so do those that a restored account attributes to nobody.
func (w *want) known(pool *ration) {
	for _, g := range w.gateways {
		redistest.Within(w.t, time.Minute, "48 calls have ended", func() bool {
			n, _ := pool.served.Load(g.proc.Load())
			return n != nil && n.(*atomic.Int64).Load() >= 48 // 32, and as many as come until the store is told
		})
	}
}

// forgotten is how much was served at most of a ration by processes that are no more.
func (w *want) forgotten(r *ration) (n int64) {
	r.served.Range(func(p, served any) bool {
		if !slices.ContainsFunc(w.gateways, func(g *gateway) bool { return g.proc.Load() == p }) {
			n += served.(*atomic.Int64).Load() + int64(r.callers)
		}
		return true
	})
	return n
}
