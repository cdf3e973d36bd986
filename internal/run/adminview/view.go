package adminview

import (
	"time"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/ops/adminapi"
	"github.com/llmgov/llmgov/internal/run/admission"
	"github.com/llmgov/llmgov/internal/run/explain"
	"github.com/llmgov/llmgov/tenants"
	"github.com/llmgov/llmgov/tenants/keyfile"
)

// View is a controller as its admin side sees it.
type View struct {
	explain.Explainer
	ctl   *admission.Controller
	pulse pulse
}

// New returns the View of a controller.
func New(ctl *admission.Controller) *View {
	return &View{Explainer: explain.Explainer{Admission: ctl, Governor: ctl.Governor()}, ctl: ctl}
}

// Snapshot is the policy in force.
func (v *View) Snapshot() *tenants.Snapshot { return v.ctl.Policy().Snapshot }

// Leaving reports whether calls should be sent to another process, because this one is about to stop.
func (v *View) Leaving() bool { return v.ctl.Leaving() }

// Rekey puts the present content of a key file in force, with the policy that is in force now.
func (v *View) Rekey(file *keyfile.File) error { return v.ctl.Rekey(file) }

// LastUsed returns when a key was last used by this process; ok is false if it was not.
func (v *View) LastUsed(key tenants.KeyHash) (at time.Time, ok bool) { return v.ctl.LastUsed(key) }

// Groups returns the user of a token of an identity provider, its issuer and the user's groups. The user is "" if it is not a valid one.
func (v *View) Groups(token string) (user, issuer string, groups []string) {
	return v.ctl.Groups(token)
}

// Pool shows a pool, as far as the governor does not know it.
func (v *View) Pool(name string, now time.Time) (adminapi.Pool, bool) {
	p, ok := v.ctl.Policy().PoolNamed(name)
	if !ok {
		return adminapi.Pool{}, false
	}
	return adminapi.Pool{
		Name:       p.Name,
		Upstream:   p.UpstreamNames(),
		Models:     p.Models,
		Accounting: p.Accounting.String(),
		Failed:     p.Failures.Count(now),
	}, true
}

// Counts returns how many calls of a tenant to a pool were refused and how many failed.
func (v *View) Counts(tenant, pool string) (refused, failed int64) {
	policy := v.ctl.Policy()
	t, known := policy.Snapshot.TenantByName(tenant)
	p, there := policy.PoolNamed(pool)
	if !known || !there {
		return 0, 0 // a policy is being taken over
	}
	account := policy.Counted(t.Index, p.Index)
	if account == nil {
		return 0, 0
	}
	return account.Refusals(), account.Failures()
}

// ShadowRefused returns how many calls of a tenant went, in all pools, although its limits would
// have refused them.
func (v *View) ShadowRefused(tenant string) int64 {
	policy := v.ctl.Policy()
	t, known := policy.Snapshot.TenantByName(tenant)
	if !known {
		return 0
	}
	n := int64(0)
	for i := range policy.Pools {
		if account := policy.Counted(t.Index, i); account != nil {
			n += account.ShadowRefusals()
		}
	}
	return n
}

// Refusal shows the answer to a refusal of a tenant's call.
func (v *View) Refusal(tenant string, rej *governor.Refusal) *adminapi.Refusal {
	t, _ := v.Snapshot().TenantOf(tenant)
	said := admission.RefusalOf(rej, t)
	r := &adminapi.Refusal{
		Status: said.Status, Code: said.Code, Reason: rej.Reason.String(), Of: "pool " + rej.Pool, Axis: admission.AxisOf(rej),
		Limit: rej.Limit, Used: rej.Used, Asked: rej.Asked, RetryAfter: rej.RetryAfter.Seconds(), Kept: rej.Kept, Message: said.Message,
	}
	if rej.Own {
		r.Of = rej.Tenant
	}
	return r
}
