package admission

import (
	"github.com/llmgov/llmgov/internal/ops/telemetry"
	"github.com/llmgov/llmgov/tenants"
)

// scope is where a call belongs: whose it is, and in which pool.
type scope struct {
	Policy    *Policy
	Tenant    *tenants.Tenant
	Key       *tenants.Key // nil if the tenant was named by somebody trusted
	claim     string       // of its token, that names the member; "" of a key
	Estimates *Estimates
	Pool      *Pool
	Account   *telemetry.Account
}

// identified takes over the tenant.
func (s *scope) identified(t *tenants.Tenant) {
	s.Tenant = t
	s.Estimates = s.Policy.Estimates(t.Index)
}

// leave gives the account back.
func (s *scope) leave() {
	if s.Account != nil {
		s.Account.Release()
		s.Account = nil
	}
}

// names are the tenant, its tier and the pool, as far as they are known.
func (s *scope) names() (tenant, tier, pool string) {
	if s.Tenant != nil {
		tenant = s.Tenant.Name
		tier = s.Tenant.Tier
	}
	if s.Pool != nil {
		pool = s.Pool.Name
	}
	return tenant, tier, pool
}
