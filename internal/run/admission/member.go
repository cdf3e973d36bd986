package admission

import (
	"fmt"
	"strconv"
	"time"

	"github.com/llmgov/llmgov/internal/run/admission/ask"
	"github.com/llmgov/llmgov/tenants"
)

// Counted is the name under which the governor counts the call: its tenant's, or that of one of its members.
func (c *Call) Counted() string {
	return c.Tenant.Counted(c.Member())
}

// Member is what the call's member is called; "" if its tenant has none, or the call does not say.
func (c *Call) Member() string { return c.memberOf(c.Tenant) }

// memberOf is Member for a tenant as another policy has it.
func (c *Call) memberOf(t *tenants.Tenant) string {
	if t.Members == nil {
		return ""
	}
	a := &c.Ask
	by := t.Members.By
	called := a.Member // by a door, which reads it where the policy says
	switch {
	case by.Source == tenants.ByClaim && (c.Key != nil || called == ""):
		called = c.claim
	case by.Source == tenants.ByKey && c.claim != "":
		called = tenants.SubjectMember + c.claim
	case by.Source == tenants.ByKey && c.Key != nil:
		called = tenants.KeyMember(c.Key.Name)
	case called != "":
	case by.Source == tenants.ByHeader && len(a.Header[by.Of]) > 0:
		called = a.Header[by.Of][0]
	case by.Source == tenants.ByUser:
		called = a.User
	case by.Source == tenants.BySession:
		called = a.Header.Session()
		if called == "" && a.Named != 0 {
			called = strconv.FormatUint(a.Named, 16)
		}
	}
	return called
}

// Barred refuses a call of which the tenant, or the member, has a limit of 0 by the policy in force, be it newer than the call. A call that has
// waited for a lease knows a policy that is being taken over as well: it may be why the governor let it go.
func (c *Call) Barred(waited time.Duration) (f *ask.Refusal) {
	look := func() {
		if t, known := c.ctl.Policy().Snapshot.TenantByName(c.Tenant.Name); known {
			now := time.Now()
			f = Overridden(t, now)
			if f == nil && !t.Shadow {
				f = Blocked(t, c.memberOf(t), now)
			}
		}
	}
	if waited > 0 {
		c.ctl.Steady(look)
	} else {
		look()
	}
	return f
}

// Blocked refuses the calls of a tenant's member of whom a limit is 0. In shadow that is on trial as other limits are.
func Blocked(t *tenants.Tenant, called string, now time.Time) *ask.Refusal {
	if t.Members == nil {
		return nil
	}
	l := t.Members.Of(tenants.MemberOf(called), now)
	if l.Blocked == "" {
		return nil
	}
	until, after := ending(l.Until, now)
	return &ask.Refusal{
		Status: statusForbidden, Code: ask.CodeBlocked, RetryAfter: after, Final: true,
		Message: fmt.Sprintf("Calls of %s are refused%s: its %s is 0. Whoever runs this gateway can change that.", t.Called(called), until, l.Blocked),
	}
}
