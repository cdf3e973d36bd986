package instance

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/governor/terms"
	"github.com/llmgov/llmgov/internal/run/engine"
	"github.com/llmgov/llmgov/internal/run/policy"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/tenants"
)

// servers answers for model servers, by their hosts.
type servers map[string]string

func (s servers) RoundTrip(r *http.Request) (*http.Response, error) {
	text, ok := s[r.URL.Host]
	if !ok {
		return nil, errors.New("no route to host")
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewBufferString(text))}, nil
}

// The load of a pool is the sum of those of its servers that can be read, with the memory of the fullest. How many calls they
// run at most is known if all say it.
func TestEngines_LoadOfAPool(t *testing.T) {
	const tgi = "tgi_batch_current_size 3\ntgi_queue_size 1\n"
	const own = "busy 4\nbacklog 2\ncache 0.5\nseats 8\n"
	full := func(more string) string { return "busy 6\nbacklog 0\ncache 0.75\nseats " + more + "\n" }
	for _, c := range []struct {
		name string
		said servers
		want governor.Load
		ok   bool
	}{
		{"none can be read", servers{}, governor.Load{}, false},
		{"one of them", servers{"a": own}, governor.Load{Running: 4, Waiting: 2, Full: 1}, true},
		{"two that say their most", servers{"a": own, "b": full("16")}, governor.Load{Running: 10, Waiting: 2, Full: 1}, true},
		{"all", servers{"a": own, "b": full("16"), "c": tgi}, governor.Load{Running: 13, Waiting: 3, Full: 1}, true},
	} {
		testkit.Virtual(t, c.name, func(t *testing.T) {
			e, snap := engines(t, c.said)
			ctx, stop := context.WithTimeout(t.Context(), 1500*time.Millisecond)
			defer stop()
			testkit.OK(t, e.Run(ctx))
			pools := snap.Pools()
			if got, ok := e.loadOf(snap, &pools[0]); got != c.want || ok != c.ok {
				t.Errorf("the load is %+v, %t, want %+v, %t", got, ok, c.want, c.ok)
			}
			for _, name := range []string{"a", "b", "c"} {
				_, there := c.said[name]
				if v := e.View(name); v == nil || v.Fresh != there || there == (v.Error != "") {
					t.Errorf("the admin side sees %+v of %s", v, name)
				}
			}
			if got := len(e.states()); got != 3 {
				t.Errorf("there are metrics of %d servers, not 3", got)
			}
		})
	}
}

// engines are the servers of a pool p, of which c has a server of tgi and the others name their gauges.
func engines(t *testing.T, said servers) (*Engines, *tenants.Snapshot) {
	t.Helper()
	metrics := tenants.EngineMetrics{Running: "busy", Waiting: "backlog", KVCache: "cache", MaxRunning: "seats"}
	cfg := tenants.DefaultConfig()
	cfg.Upstreams = []tenants.Upstream{
		{Name: "a", BaseURL: "http://a/v1", Engine: tenants.Engine{Kind: tenants.EngineGeneric, Metrics: metrics, KVCachePPM: 500_000}},
		{Name: "b", BaseURL: "http://b/v1", Engine: tenants.Engine{Kind: tenants.EngineGeneric, Metrics: metrics}},
		{Name: "c", BaseURL: "http://c/v1", Engine: tenants.Engine{Kind: "tgi"}},
	}
	cfg.Pools = []tenants.Pool{{Pool: terms.Pool{Name: "p", Concurrency: 64, Adaptive: tenants.Gradient}, Models: []string{"m"}, Upstreams: []tenants.PoolUpstream{{Name: "a"}, {Name: "b"}, {Name: "c"}}}}
	snap := testkit.Must(tenants.Build(cfg, []tenants.Tenant{{Name: "t", Keys: []tenants.Key{{Hash: tenants.HashKey("sk-a-key-of-some-length-1")}}}}))(t)
	e := NewEngines(func() *tenants.Snapshot { return snap }, governorOf(t, snap), slog.New(slog.DiscardHandler))
	e.Client.Transport = said
	return e, snap
}

// A reading is told to pools once, and not again while its server cannot be read.
func TestEngines_TellsEachReadingOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		said := servers{"c": "tgi_batch_current_size 3\ntgi_queue_size 9\n"}
		e, snap := engines(t, said)
		pools := snap.Pools()
		for _, there := range []bool{true, false} {
			if !there {
				delete(said, "c")
			}
			ctx, stop := context.WithTimeout(t.Context(), 1500*time.Millisecond)
			testkit.OK(t, e.Run(ctx))
			stop()
			if _, ok := e.loadOf(snap, &pools[0]); ok != there {
				t.Errorf("there is a load: %t, want %t", ok, there)
			}
			if v := e.View("c"); v == nil || !v.Fresh {
				t.Errorf("the admin side sees %+v", v)
			}
		}
	})
}

func governorOf(t *testing.T, snap *tenants.Snapshot) *governor.Governor {
	t.Helper()
	return testkit.Must(governor.New(policy.Governor(snap)))(t)
}

// Every kind that files may name has gauges to read, and every known server has a kind.
func TestEngines_Kinds(t *testing.T) {
	for _, kind := range tenants.EngineKinds {
		if names := engine.Kinds[kind]; names.Waiting == "" && kind != tenants.EngineGeneric {
			t.Errorf("of kind %s no gauge is known", kind)
		}
	}
	if len(tenants.EngineKinds) != len(engine.Kinds)+1 {
		t.Errorf("there are %d kinds, and gauges of %d", len(tenants.EngineKinds), len(engine.Kinds))
	}
}
