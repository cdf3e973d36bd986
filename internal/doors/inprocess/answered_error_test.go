package inprocess_test

import (
	"strconv"
	"testing"

	"github.com/llmgov/llmgov/governor/client"
	"github.com/llmgov/llmgov/governor/client/doors"
	"github.com/llmgov/llmgov/internal/doors/inprocess"
	"github.com/llmgov/llmgov/internal/run/admission"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/internal/test/testkit/admissiontest"
	"github.com/llmgov/llmgov/tenants"
)

// An error with which a model server answered moves limits by its status, as it does at the gateway: per_tenant by 500 and above, an
// adaptive limit if the server has more to do than it can. A status that is not known says nothing, nor does an error of the caller's own.
func TestDoor_AnsweredError(t *testing.T) {
	for _, c := range []struct {
		status               int
		perTenant, overloads bool
	}{
		{0, false, false},
		{302, false, false},
		{400, false, false},
		{404, false, false},
		{429, false, true},
		{500, true, false},
		{502, true, false},
		{503, true, true},
		{504, true, true},
		{529, true, true},
		{999, false, false},
	} {
		t.Run(strconv.Itoa(c.status), func(t *testing.T) {
			if got, _ := lowers(t, c.status, func(p *tenants.Pool) { p.PerTenant = true }); got != c.perTenant {
				t.Errorf("it lowers how many calls the tenant may run: %v, want %v", got, c.perTenant)
			}
			got, refused := lowers(t, c.status, func(p *tenants.Pool) { p.Adaptive = tenants.AIMD })
			if got != c.overloads {
				t.Errorf("it lowers an adaptive limit: %v, want %v", got, c.overloads)
			}
			if want := c.overloads && c.status != 504; refused != want {
				t.Errorf("it is a refusal, by which limits of a minute move: %v, want %v", refused, want)
			}
		})
	}
}

// lowers reports whether errors with a status lower a limit, and whether they are refusals. Calls are running when that is configured, because an adaptive limit begins
// at how many run.
func lowers(t *testing.T, status int, configure func(*tenants.Pool)) (lower, refused bool) {
	t.Helper()
	fixed := func(p *tenants.Pool, _ *tenants.Tenant) { p.Concurrency = 16 }
	cfg, list := policy(fixed)
	ctl := admissiontest.Build(t, cfg, list...)
	governed := doors.Open(inprocess.New(ctl), doors.Options{})
	reserve := func(calls int) (leases []*client.Lease) {
		for range calls {
			l := testkit.Must(governed.Reserve(t.Context(), client.Request{Tenant: "acme", Model: "gpt-4o", InputTokens: 60, MaxOutput: 40}))(t)
			leases = append(leases, l)
		}
		return leases
	}
	running := reserve(12)
	cfg, list = policy(func(p *tenants.Pool, tenant *tenants.Tenant) {
		fixed(p, tenant)
		configure(p)
	})
	apply(t, ctl, cfg, list)
	end := func(leases []*client.Lease, e client.End) {
		for _, l := range leases {
			l.End(e)
		}
	}
	end(running, client.End{Reported: true, Usage: client.Usage{Input: 60, Output: 40}})
	limit := func() int64 { return ctl.Governor().Standing("acme", "gpt").Concurrent.Limit }
	before := limit()
	end(reserve(8), client.End{Outcome: client.AnsweredError, Status: status})
	pool, _ := ctl.Policy().PoolNamed("gpt")
	return limit() < before, pool.Overloaded.Load()
}

// apply puts another policy in force.
func apply(t *testing.T, ctl *admission.Controller, cfg tenants.Config, list []tenants.Tenant) {
	t.Helper()
	snap := testkit.Must(tenants.Build(cfg, list))(t)
	testkit.OK(t, ctl.Apply(snap))
}
