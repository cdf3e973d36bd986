package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/llmgov/llmgov/internal/lib/text"
	"github.com/llmgov/llmgov/internal/ops/adminapi"
	"github.com/llmgov/llmgov/tenants"
)

var runtimeTenants = atRuntime[tenants.RuntimeTenant]{
	of:   func(set *tenants.AtRuntime) *[]tenants.RuntimeTenant { return &set.Tenants },
	name: func(t *tenants.RuntimeTenant) string { return t.Tenant },
	same: func(a, b tenants.RuntimeTenant) bool { return bytes.Equal(a.Policy, b.Policy) },
}

// showTenant answers GET /api/v1/tenants/{name}.
func (a *API) showTenant(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("name")
	list := a.Overrides.InForce().Tenants
	if at := runtimeTenants.find(a, list, name); at >= 0 {
		a.respondTenant(w, http.StatusOK, list[at])
		return nil
	}
	t, known := a.gateway.Snapshot().TenantByName(name)
	if !known {
		return tenantNotFound(name)
	}
	return &adminapi.Fault{
		Status: http.StatusNotFound, Code: "tenant_not_found",
		Message: "Tenant " + t.Name + " is in the policy files, at " + t.Source + ", and was not set here. GET /api/v1/tenants?tenant=" + t.Name + " shows its state.",
	}
}

// setTenant answers PUT /api/v1/tenants/{name}. The body is what a policy file has below the name. What is there already stays as it is.
func (a *API) setTenant(w http.ResponseWriter, r *http.Request) error {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxKeyRequest))
	var escaped, compact bytes.Buffer
	if err == nil {
		json.HTMLEscape(&escaped, body) // as it is kept, so that what is sent again is no change
		err = json.Compact(&compact, escaped.Bytes())
	}
	if err == nil && !strings.HasPrefix(compact.String(), "{") {
		err = errors.New("it is no JSON object")
	}
	if err != nil {
		return adminapi.BadRequest("The body does not describe a tenant: " + err.Error() + `. Send what a policy file has below its name, such as {"tier": "pro", "keys": ["sha256:…"]}.`)
	}
	next := tenants.RuntimeTenant{
		Tenant: r.PathValue("name"), Policy: compact.Bytes(), Why: text.Brief(r.Header.Get(whyHeader)), By: callerOf(r).user, Made: time.Now().UTC().Truncate(time.Second),
	}
	before, now, status, err := runtimeTenants.set(a, r, next)
	if err != nil {
		return tenantError(err, &next)
	}
	if !bytes.Equal(before.Policy, now.Policy) {
		a.audit(r, "tenant.set", slog.String("tenant", now.Tenant), slog.Any("policy", now.Policy), slog.Any("before", before.Policy))
	}
	a.respondTenant(w, status, now)
	return nil
}

// respondTenant answers with a tenant that was set, and why it is set aside, if it is.
func (a *API) respondTenant(w http.ResponseWriter, status int, t tenants.RuntimeTenant) {
	view := t
	for _, aside := range a.gateway.Snapshot().Aside() {
		if aside.Tenant == t.Tenant {
			view.SetAside = aside.SetAside
		}
	}
	respondState(w, status, t, view)
}

// clearTenant answers DELETE /api/v1/tenants/{name}: the tenant is as the files have it, or gone. To clear none changes nothing.
func (a *API) clearTenant(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("name")
	before, err := runtimeTenants.clear(a, r, name)
	if err != nil {
		return tenantError(err, &tenants.RuntimeTenant{Tenant: name})
	}
	if before.Tenant != "" {
		a.audit(r, "tenant.clear", slog.String("tenant", name), slog.Any("before", before.Policy))
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// tenantError is the answer to a change of a tenant that cannot be made. Files that are invalid without the tenant are not its sender's fault.
func tenantError(err error, t *tenants.RuntimeTenant) error {
	_, invalid := errors.AsType[tenants.Problems](err)
	_, unfit := errors.AsType[tenants.Trial](err)
	switch {
	case errors.Is(err, ErrNoFiles):
		return &adminapi.Fault{Status: http.StatusConflict, Code: "no_policy_files", Message: "This gateway runs without policy files, beside which a tenant could be set. Start it with -c."}
	case !invalid:
		return overrideError(err)
	case unfit && t.Policy != nil:
		return adminapi.BadRequest("The tenant is not valid, and all stays as it was: " + err.Error())
	}
	return &adminapi.Fault{Status: http.StatusConflict, Code: "policy_invalid", Message: "With this change the policy is not valid, and all stays as it was: " + err.Error()}
}
