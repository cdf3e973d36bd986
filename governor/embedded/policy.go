package embedded

import (
	"time"

	"github.com/llmgov/llmgov/governor/terms"
	"github.com/llmgov/llmgov/tenants"
)

// Policy is a policy in code: what most programs need of a config and its policy files. Its values mean what they mean there.
type Policy struct {
	Pools   []Pool
	Tenants []Tenant
	// StateDir is a folder that keeps what was used, so that a program which starts again knows. Empty keeps nothing: each start is taken for
	// one after an idle minute.
	StateDir string
	// Store is where limits are shared with other programs and gateways: the URL of Redis or of a PostgreSQL database. Empty shares nothing.
	Store string
	// Further, if set, changes whatever else there is, before all of it is checked.
	Further func(*tenants.Config, *[]tenants.Tenant)
}

// Pool is one capacity that tenants share. A limit of 0 is none; without any, those of its tenants hold.
type Pool struct {
	Name string
	// Models are the names and globs that the pool serves. None is the pool's own name.
	Models []string
	// TPM and RPM are tokens and requests in a rolling minute, and Concurrency is calls at once.
	TPM, RPM, Concurrency int64
}

// Tenant is one that shares pools with others. Its own limits of 0 are none.
type Tenant struct {
	// Name is how calls name it. "acme/search" is a team of acme, which has to be there as well.
	Name string
	// Weight is its part of a pool that others want too, against theirs: from 0.001 to 1,000,000. 0 becomes 1.
	Weight float64
	// Keys are its API keys, of callers that present one. A program that names its tenants needs none.
	Keys []string
	// Models are the names and globs that it may use. None is all.
	Models []string
	// RPM and TPM are requests and tokens in a rolling minute, and Concurrency is calls at once.
	RPM, TPM, Concurrency int64
	// MaxWait is how long a call may wait for its turn. 0 does not wait: what cannot go at once is refused, with the time to come back.
	MaxWait time.Duration
}

// build makes a snapshot of the policy. A policy has to have an upstream, and this program calls its models itself.
func (p *Policy) build() (*tenants.Snapshot, error) {
	cfg := tenants.DefaultConfig()
	cfg.Named = true
	cfg.StateDir = p.StateDir
	if p.Store != "" {
		cfg.Store = p.Store
	}
	for i := range p.Pools {
		of := &p.Pools[i]
		models := of.Models
		if len(models) == 0 {
			models = []string{of.Name}
		}
		pool := tenants.DefaultPool(of.Name, models...)
		pool.TPM = of.TPM
		pool.RPM = of.RPM
		pool.Concurrency = of.Concurrency
		cfg.Pools = append(cfg.Pools, pool)
	}
	cfg.Upstreams = []tenants.Upstream{{Name: "program", BaseURL: "http://localhost"}}
	list := make([]tenants.Tenant, len(p.Tenants))
	for i := range p.Tenants {
		t := &p.Tenants[i]
		list[i] = tenants.Tenant{
			Name: t.Name, Weight: t.Weight, Models: t.Models, Limits: terms.Limits{RPM: t.RPM, TPM: t.TPM, Concurrency: t.Concurrency}, MaxWait: t.MaxWait,
			Routes: tenants.DefaultRoutes,
		}
		for _, key := range t.Keys {
			list[i].Keys = append(list[i].Keys, tenants.Key{Hash: tenants.HashKey(key)})
		}
	}
	if p.Further != nil {
		p.Further(&cfg, &list)
	}
	return tenants.Build(cfg, list)
}
