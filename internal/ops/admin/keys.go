package admin

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/llmgov/llmgov/internal/lib/text"
	"github.com/llmgov/llmgov/internal/ops/adminapi"
	"github.com/llmgov/llmgov/tenants"
	"github.com/llmgov/llmgov/tenants/keyfile"
)

// API keys are listed, made and revoked. A change is written to the key file and taken over from
// there, as it is by every process that watches the file.

// listKeys answers GET /api/v1/keys. Whoever may make keys of some tenants sees those.
func (a *API) listKeys(w http.ResponseWriter, r *http.Request) {
	now := time.Now()
	only := r.URL.Query().Get("tenant")
	who := callerOf(r)
	views := []adminapi.Key{}
	for _, key := range a.gateway.Snapshot().Keys() {
		if (only == "" || key.Tenant == only) && (who.Role != tenants.RoleKeys || who.Keys(key.Tenant)) {
			views = append(views, a.keyView(key, now))
		}
	}
	respond(w, adminapi.KeyList{Keys: views})
}

func (a *API) keyView(k tenants.KeyInfo, now time.Time) adminapi.Key {
	v := adminapi.Key{
		ID: k.Hash.ID(), Tenant: k.Tenant, Name: k.Name, HashPrefix: k.Hash.String()[len("sha256:"):][:12],
		Source: "policy", Status: string(k.Status), Created: unlessZero(k.Created), Expires: unlessZero(k.Expires), Expired: k.Expired(now),
	}
	if k.Runtime {
		v.Source = "runtime"
	}
	if at, ok := a.gateway.LastUsed(k.Hash); ok {
		v.LastUsedAt = &at
	}
	return v
}

func unlessZero(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// createKey makes a key, and answers once the key is accepted.
func (a *API) createKey(w http.ResponseWriter, r *http.Request) error {
	asked, err := readKeyRequest(w, r, time.Now())
	if err != nil {
		return err
	}
	who := callerOf(r)
	if !who.Keys(asked.Tenant) {
		return notAllowed(who.user + " may not make keys of tenant " + strconv.Quote(text.Brief(asked.Tenant)) + ".")
	}
	a.keys.Lock()
	defer a.keys.Unlock()
	snap := a.gateway.Snapshot()
	file, err := a.keyFile(snap)
	if err != nil {
		return err
	}
	if _, known := snap.TenantByName(asked.Tenant); !known {
		return tenantNotFound(asked.Tenant)
	}
	if owner, _, taken := snap.LookupHash(asked.Hash); taken {
		of := "another tenant"
		if who.Keys(owner.Name) {
			of = "tenant " + owner.Name
		}
		return &adminapi.Fault{Status: http.StatusConflict, Code: "key_exists", Message: "A key of this hash is one of " + of + " already. Make another key."}
	}
	if err := file.Add(asked.Entry); err != nil {
		return keyFileError(err)
	}
	err = a.takeOver(r.Context(), file)
	_, _, opens := a.gateway.Snapshot().LookupHash(asked.Hash)
	a.audit(r, "key.create", keyAttrs(asked.Hash, asked.Tenant, asked.Name, opens)...)
	if !opens {
		return notInForce("The key "+asked.Hash.ID()+" is written", err)
	}
	w.Header().Set("Cache-Control", "no-store")
	respondAs(w, http.StatusCreated, adminapi.CreatedKey{
		ID: asked.Hash.ID(), Key: asked.clear, Hash: asked.Hash.String(), Tenant: asked.Tenant, Name: asked.Name,
		Created: asked.Created, Expires: unlessZero(asked.Expires),
	})
	return nil
}

// revokeKey revokes a key, and answers once the key is not accepted any more.
func (a *API) revokeKey(w http.ResponseWriter, r *http.Request) error {
	a.keys.Lock()
	defer a.keys.Unlock()
	snap := a.gateway.Snapshot()
	file, err := a.keyFile(snap)
	if err != nil {
		return err
	}
	key, err := findKey(snap, file, r.PathValue("id"), callerOf(r))
	if err != nil {
		return err
	}
	since, err := file.Revoke(key.Hash, time.Now())
	if err != nil {
		return keyFileError(err)
	}
	err = a.takeOver(r.Context(), file)
	_, _, opens := a.gateway.Snapshot().LookupHash(key.Hash)
	a.audit(r, "key.revoke", keyAttrs(key.Hash, key.Tenant, key.Name, !opens)...)
	if opens {
		return notInForce("The revocation of "+key.Hash.ID()+" is written", err)
	}
	respond(w, adminapi.RevokedKey{ID: key.Hash.ID(), Tenant: key.Tenant, Name: key.Name, Revoked: since})
	return nil
}

// findKey finds a key by its id or its whole hash: among those in force, else in the file, where
// another process may have just written it. Keys that are not the caller's to revoke are as if they were not there.
func findKey(snap *tenants.Snapshot, file *keyfile.File, ref string, who caller) (tenants.KeyInfo, error) {
	is := func(tenant string, h tenants.KeyHash) bool {
		return (h.ID() == ref || h.String() == ref) && who.Keys(tenant)
	}
	for _, k := range snap.Keys() {
		if is(k.Tenant, k.Hash) {
			return k, nil
		}
	}
	written, err := file.List()
	if err != nil {
		return tenants.KeyInfo{}, keyFileError(err)
	}
	for _, k := range written.Keys {
		if is(k.Tenant, k.Hash) {
			return tenants.KeyInfo{Key: k.Key, Tenant: k.Tenant}, nil
		}
	}
	for _, k := range written.Revoked {
		if is("", k.Hash) { // nobody knows any more whose it was
			return tenants.KeyInfo{Key: tenants.Key{Hash: k.Hash}}, nil
		}
	}
	// The id is not repeated: by mistake it may be a key.
	return tenants.KeyInfo{}, &adminapi.Fault{Status: http.StatusNotFound, Code: "key_not_found", Message: "There is no key of this id or hash. GET /api/v1/keys lists all; the path takes an id such as key_0123456789abcdef, or sha256: and the whole hash."}
}

// keyFile is the file to which changes are written.
func (a *API) keyFile(snap *tenants.Snapshot) (*keyfile.File, error) {
	file := snap.KeyFile()
	if file == nil || a.Policies == nil {
		return nil, &adminapi.Fault{Status: http.StatusConflict, Code: "no_config_file", Message: "Keys are made and revoked at run time only with a config file (llmgov serve -c llmgov.yaml), since they are kept beside it."}
	}
	return file, nil
}

// takeOver puts the key file in force here. If policy files are invalid at the moment, only the key
// file is read, because it must be possible to revoke a key at any time.
func (a *API) takeOver(ctx context.Context, file *keyfile.File) error {
	_, err := a.Policies.Reload(context.WithoutCancel(ctx)) // because the file is written, even if the client has left
	if err == nil {
		return nil
	}
	if errKeys := a.gateway.Rekey(file); errKeys != nil {
		return errors.Join(err, errKeys)
	}
	return nil
}

// keyAttrs describe a key for the audit log; inForce is whether the change is in force here.
func keyAttrs(h tenants.KeyHash, tenant, name string, inForce bool) []slog.Attr {
	return []slog.Attr{slog.String("key", h.ID()), slog.String("tenant", tenant), slog.String("name", name), slog.Bool("in_force", inForce)}
}
