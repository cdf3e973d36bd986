package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/llmgov/llmgov/internal/adminapi"
	"github.com/llmgov/llmgov/tenants"
)

// adminKeys is the part of the admin API that lists, makes and revokes API keys. A change is
// written to the key file and taken over from there, as it is by every process that watches the
// file.
type adminKeys struct {
	g        *Gateway
	policies Policies
	mu       sync.Mutex // one change at a time, so that none is taken over before an older one
}

func (g *Gateway) handleKeys(mux *http.ServeMux, opt AdminOptions) {
	k := &adminKeys{g: g, policies: opt.Policies}
	mux.HandleFunc("GET /api/v1/keys", k.list)
	mux.HandleFunc("POST /api/v1/keys", answering(k.create))
	mux.HandleFunc("DELETE /api/v1/keys/{id}", answering(k.revoke))
}

func (k *adminKeys) list(w http.ResponseWriter, r *http.Request) {
	now, only := time.Now(), r.URL.Query().Get("tenant")
	views := []adminapi.Key{}
	for _, key := range k.g.world.Load().snap.Keys() {
		if only == "" || key.Tenant == only {
			views = append(views, k.g.keyView(key, now))
		}
	}
	respond(w, adminapi.KeyList{Keys: views})
}

func (g *Gateway) keyView(k tenants.KeyInfo, now time.Time) adminapi.Key {
	v := adminapi.Key{
		ID: k.Hash.ID(), Tenant: k.Tenant, Name: k.Name, HashPrefix: k.Hash.String()[len("sha256:"):][:12],
		Source: "policy", Status: string(k.Status), Created: unlessZero(k.Created), Expires: unlessZero(k.Expires), Expired: k.Expired(now),
	}
	if k.Runtime {
		v.Source = "runtime"
	}
	if at, ok := g.used.last(k.Hash); ok {
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

// create makes a key, and answers once the key is accepted.
func (k *adminKeys) create(w http.ResponseWriter, r *http.Request) error {
	asked, err := readKeyRequest(w, r, time.Now())
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	snap := k.g.world.Load().snap
	file, err := k.file(snap)
	if err != nil {
		return err
	}
	if _, known := snap.TenantByName(asked.Tenant); !known {
		return &adminError{http.StatusNotFound, "tenant_not_found", "There is no tenant " + quoted(asked.Tenant) + " in the policy. GET /api/v1/tenants lists all."}
	}
	if owner, _, taken := snap.LookupHash(asked.Hash); taken {
		return &adminError{http.StatusConflict, "key_exists", "A key of this hash is one of tenant " + owner.Name + " already. Make another key."}
	}
	if err := file.Add(asked.RuntimeKey); err != nil {
		return keyFileError(err)
	}
	err = k.takeOver(r.Context(), file)
	_, _, opens := k.g.world.Load().snap.LookupHash(asked.Hash)
	k.g.audit(r, "key.create", keyAttrs(asked.Hash, asked.Tenant, asked.Name, opens)...)
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

// revoke revokes a key, and answers once the key is not accepted any more.
func (k *adminKeys) revoke(w http.ResponseWriter, r *http.Request) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	snap := k.g.world.Load().snap
	file, err := k.file(snap)
	if err != nil {
		return err
	}
	key, err := findKey(snap, file, r.PathValue("id"))
	if err != nil {
		return err
	}
	since, err := file.Revoke(key.Hash, time.Now())
	if err != nil {
		return keyFileError(err)
	}
	err = k.takeOver(r.Context(), file)
	_, _, opens := k.g.world.Load().snap.LookupHash(key.Hash)
	k.g.audit(r, "key.revoke", keyAttrs(key.Hash, key.Tenant, key.Name, !opens)...)
	if opens {
		return notInForce("The revocation of "+key.Hash.ID()+" is written", err)
	}
	respond(w, adminapi.RevokedKey{ID: key.Hash.ID(), Tenant: key.Tenant, Name: key.Name, Revoked: since})
	return nil
}

// findKey finds a key by its id or its whole hash: among those in force, else in the file, where
// another process may have just written it.
func findKey(snap *tenants.Snapshot, file *tenants.KeyFile, ref string) (tenants.KeyInfo, error) {
	is := func(h tenants.KeyHash) bool { return h.ID() == ref || h.String() == ref }
	for _, k := range snap.Keys() {
		if is(k.Hash) {
			return k, nil
		}
	}
	written, err := file.List()
	if err != nil {
		return tenants.KeyInfo{}, keyFileError(err)
	}
	for _, k := range written.Keys {
		if is(k.Hash) {
			return tenants.KeyInfo{Key: k.Key, Tenant: k.Tenant}, nil
		}
	}
	for _, k := range written.Revoked {
		if is(k.Hash) {
			return tenants.KeyInfo{Key: tenants.Key{Hash: k.Hash}}, nil
		}
	}
	// The id is not repeated: by mistake it may be a key.
	return tenants.KeyInfo{}, &adminError{http.StatusNotFound, "key_not_found", "There is no key of this id or hash. GET /api/v1/keys lists all; the path takes an id such as key_0123456789abcdef, or sha256: and the whole hash."}
}

// file is the file to which changes are written.
func (k *adminKeys) file(snap *tenants.Snapshot) (*tenants.KeyFile, error) {
	file := snap.KeyFile()
	if file == nil || k.policies == nil {
		return nil, &adminError{http.StatusConflict, "no_config_file", "Keys are made and revoked at run time only with a config file (llmgov serve -c llmgov.yaml), since they are kept beside it."}
	}
	return file, nil
}

// takeOver puts what was written in force here. If policy files are bad at the moment, only the key
// file is taken over: it must be possible to revoke a key at any time.
func (k *adminKeys) takeOver(ctx context.Context, file *tenants.KeyFile) error {
	_, err := k.policies.Reload(context.WithoutCancel(ctx)) // it is written, even if the client has gone
	if err == nil {
		return nil
	}
	if errKeys := k.g.rekey(file); errKeys != nil {
		return errors.Join(err, errKeys)
	}
	return nil
}

// keyAttrs describe a key for the audit log; inForce says whether the change counts here already.
func keyAttrs(h tenants.KeyHash, tenant, name string, inForce bool) []slog.Attr {
	return []slog.Attr{slog.String("key", h.ID()), slog.String("tenant", tenant), slog.String("name", name), slog.Bool("in_force", inForce)}
}
