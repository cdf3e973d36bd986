package main

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/admission"
	"github.com/llmgov/llmgov/internal/gateway"
	"github.com/llmgov/llmgov/internal/logging"
	"github.com/llmgov/llmgov/internal/mock"
	"github.com/llmgov/llmgov/internal/policy"
	"github.com/llmgov/llmgov/internal/telemetry"
	"github.com/llmgov/llmgov/tenants"
)

func newHandler(role, upstream string) (http.Handler, error) {
	switch role {
	case roles[direct]:
		return mock.New(mock.Config{})
	case roles[plain]:
		return newPlain(upstream)
	case roles[governed]:
		return newGoverned(upstream)
	}
	return nil, fmt.Errorf("there is no role %q", role)
}

// newPlain is a minimal proxy, with the usual settings.
func newPlain(upstream string) (http.Handler, error) {
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

// newGoverned is llmgov as its serve command wires it.
func newGoverned(upstream string) (http.Handler, error) {
	snap, err := measured(upstream)
	if err != nil {
		return nil, err
	}
	gov, err := governor.New(policy.Governor(snap))
	if err != nil {
		return nil, err
	}
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	log, _ := logging.New(null, logging.JSON) // as long as the process
	metrics := telemetry.New()
	metrics.Watch(gov.State, snap.Hash())
	return gateway.New(gateway.Options{
		Admission: admission.New(admission.Options{Snapshot: snap, Governor: gov, Metrics: metrics}), Log: log,
	})
}

const (
	numTenants = 1000
	// clamp is below maxTokens of the load, and above the length of answers.
	clamp = 512
	// Limits that are on and cannot be reached.
	poolLimit   = 1_000_000_000_000
	tenantLimit = 1_000_000_000
)

// measured is a policy that has a limit on every axis.
func measured(upstream string) (*tenants.Snapshot, error) {
	cfg := tenants.DefaultConfig()
	cfg.Upstreams = []tenants.Upstream{{Name: "mock", BaseURL: upstream + "/v1", APIKey: "upstream-key"}}
	pool := tenants.DefaultPool("bench", "*")
	pool.TPM = poolLimit
	pool.RPM = poolLimit
	pool.Concurrency = 10_000
	cfg.Pools = []tenants.Pool{pool}
	list := make([]tenants.Tenant, numTenants)
	for i := range list {
		list[i] = tenants.Tenant{
			Name: fmt.Sprintf("tenant-%03d", i), Tier: "bench",
			Weight: int64(1+i%4) * 1000,
			RPM:    tenantLimit, TPM: tenantLimit, ITPM: tenantLimit, OTPM: tenantLimit, Concurrency: 100,
			MaxWait: 5 * time.Second, MaxOutputTokens: clamp,
			Keys: []tenants.Key{{Hash: tenants.HashKey(key(i))}},
		}
	}
	return tenants.Build(cfg, list)
}

// key is a tenant's key, which the load sends to every target.
func key(tenant int) string { return fmt.Sprintf("llmg_bench_%024d", tenant) }
