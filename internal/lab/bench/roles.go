package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/llmgov/llmgov/governor/terms"
	"github.com/llmgov/llmgov/internal/doors/admissionserver"
	"github.com/llmgov/llmgov/internal/doors/envoy/extproc"
	"github.com/llmgov/llmgov/internal/doors/envoy/ratelimit"
	"github.com/llmgov/llmgov/internal/doors/inprocess"
	"github.com/llmgov/llmgov/internal/doors/reserve"
	"github.com/llmgov/llmgov/internal/doors/reserveserver"
	"github.com/llmgov/llmgov/internal/lab/mock"
	"github.com/llmgov/llmgov/internal/ops/logging"
	"github.com/llmgov/llmgov/internal/proxy/gateway"
	"github.com/llmgov/llmgov/internal/run/instance"
	"github.com/llmgov/llmgov/tenants"
)

// handlers are those of a child. Only llmgov has one for admission.
type handlers struct {
	data      http.Handler
	admission *admissionserver.Server
}

func newHandlers(o options) (h handlers, err error) {
	switch o.role {
	case roles[direct]:
		h.data, err = mock.New(mock.Config{})
	case roles[bare]:
		h.data, err = newBare(o.upstream)
	case roles[governed]:
		return newGoverned(o.upstream, o.store)
	default:
		err = fmt.Errorf("there is no role %q", o.role)
	}
	return h, err
}

// newBare is a minimal proxy, with the usual settings.
func newBare(upstream string) (http.Handler, error) {
	to, err := url.Parse(upstream)
	if err != nil {
		return nil, err
	}
	return &httputil.ReverseProxy{
		Rewrite:    func(r *httputil.ProxyRequest) { r.SetURL(to) },
		ErrorLog:   slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug), // the load counts what breaks
		BufferPool: &buffers{sync.Pool{New: func() any { return new([32 << 10]byte) }}},
		Transport: &http.Transport{
			MaxIdleConnsPerHost: maxConnections,
			IdleConnTimeout:     90 * time.Second,
			DisableCompression:  true,
		},
	}, nil
}

type buffers struct{ pool sync.Pool }

// Get implements httputil.BufferPool.
func (b *buffers) Get() []byte { return b.pool.Get().(*[32 << 10]byte)[:] }

// Put implements httputil.BufferPool.
func (b *buffers) Put(p []byte) { b.pool.Put((*[32 << 10]byte)(p)) }

// newGoverned is llmgov as its serve command wires it. It ends with the process.
func newGoverned(upstream, store string) (h handlers, err error) {
	snap, err := measured(upstream, store)
	if err != nil {
		return h, err
	}
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return h, err
	}
	log, _ := logging.New(null, logging.JSON)
	in, err := instance.Open(instance.Options{Snapshot: snap, Log: log})
	if err != nil {
		return h, err
	}
	go func() { _ = in.Run(context.Background()) }()
	in.Await(context.Background())
	h.data, err = gateway.New(gateway.Options{Admission: in.Admission, Log: log, Events: in.Events})
	noKeys := func(string) (string, bool) { return "", false }
	at := admissionserver.New(admissionserver.Options{Token: admissionToken, Tenant: noKeys, Log: log})
	book := reserve.New(reserve.Options{Door: inprocess.New(in.Admission), Tenant: noKeys, Most: 20_000})
	reserveserver.Register(at, book)
	extproc.New(extproc.Options{Admission: in.Admission, Tenant: extproc.Source{Header: tenantHeader}, MostCalls: 20_000, Log: log}).Register(at)
	names, _ := ratelimit.ParseNames("")
	ratelimit.New(ratelimit.Options{Names: names, Book: book, Admission: in.Admission}).Register(at)
	h.admission = at
	return h, err
}

// admissionToken is that of the admission listener.
const admissionToken = "a-token-of-the-benchmark"

const (
	// alone is the store of a gateway that shares nothing.
	alone = "memory"

	numTenants = 1000
	// clamp is below maxTokens of the load, and above the length of answers.
	clamp = 512
	// Limits that are on and cannot be reached.
	poolLimit   = 100_000_000_000
	tenantLimit = 1_000_000_000
	// narrow is a pool, and its model, in which all calls but one wait.
	narrow = "narrow"
)

// measured is a policy that has a limit on every axis.
func measured(upstream, store string) (*tenants.Snapshot, error) {
	cfg := tenants.DefaultConfig()
	cfg.Store = store
	cfg.Upstreams = []tenants.Upstream{{Name: "mock", BaseURL: upstream + "/v1", APIKey: "upstream-key"}}
	pool := tenants.DefaultPool("bench", "*")
	pool.TPM = poolLimit
	pool.RPM = poolLimit
	pool.Concurrency = 10_000
	if store != alone {
		pool.ExpectNodes = 1 // so that it need not wait for a minute
	}
	one := tenants.DefaultPool(narrow, narrow)
	one.Concurrency = 1
	one.MaxQueue = 10_000
	one.ExpectNodes = pool.ExpectNodes
	cfg.Pools = []tenants.Pool{pool, one}
	list := make([]tenants.Tenant, numTenants)
	for i := range list {
		list[i] = tenants.Tenant{
			Name: tenantName(i), Tier: "bench",
			Weight:  float64(1 + i%4),
			Limits:  terms.Limits{RPM: tenantLimit, TPM: tenantLimit, ITPM: tenantLimit, OTPM: tenantLimit, Concurrency: 100},
			MaxWait: 10 * time.Minute, MaxOutputTokens: clamp,
			Keys: []tenants.Key{{Hash: tenants.HashKey(key(i))}},
		}
	}
	return tenants.Build(cfg, list)
}

func tenantName(tenant int) string { return fmt.Sprintf("tenant-%03d", tenant) }

// key is a tenant's key, which the load sends to every target.
func key(tenant int) string { return fmt.Sprintf("llmg_bench_%024d", tenant) }
