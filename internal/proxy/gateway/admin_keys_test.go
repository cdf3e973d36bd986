package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/internal/ops/admin"
	"github.com/llmgov/llmgov/internal/ops/adminapi"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/internal/test/testkit/admissiontest"
	"github.com/llmgov/llmgov/tenants"
)

const keysConfig = `
upstreams: {u: {base_url: "http://127.0.0.1:1/v1"}}
pools: {p: {models: [m], rpm: 100}}
`

// keysSite is a gateway over real files, and its two sides.
type keysSite struct {
	t           *testing.T
	dir         string
	gateway     *Gateway
	data, admin http.Handler
	log         *bytes.Buffer
	reloads     int
}

// newKeysSite serves the tenants acme and bob, whose keys are their names.
func newKeysSite(t *testing.T, token string) *keysSite {
	t.Helper()
	s := &keysSite{t: t, dir: t.TempDir(), log: &bytes.Buffer{}}
	s.write("llmgov.yaml", keysConfig)
	s.write("tenants/a.yaml", fmt.Sprintf("tenants: {acme: {keys: [%q]}, bob: {keys: [%q]}}\n", tenants.HashKey("acme"), tenants.HashKey("bob")))
	snap := testkit.Must(tenants.Load(filepath.Join(s.dir, "llmgov.yaml"), tenants.Options{}))(t)
	gw := keysGateway(t, snap, s.log)
	s.gateway = gw
	s.data, s.admin = gw, adminSide(gw, admin.Options{Token: token, Policies: s})
	return s
}

func (s *keysSite) Reload(context.Context) (adminapi.Reloaded, error) {
	s.reloads++
	snap, err := tenants.Load(filepath.Join(s.dir, "llmgov.yaml"), tenants.Options{})
	if err != nil {
		return adminapi.Reloaded{}, err
	}
	return adminapi.Reloaded{}, s.gateway.Apply(snap)
}

func (s *keysSite) Status() adminapi.PolicyStatus { return adminapi.PolicyStatus{} }

func keysGateway(t *testing.T, snap *tenants.Snapshot, log *bytes.Buffer) *Gateway {
	t.Helper()
	gw := testkit.Must(New(Options{Admission: admissiontest.New(t, snap), Log: slog.New(slog.NewJSONHandler(log, nil))}))(t)
	return gw
}

func (s *keysSite) write(name, text string) {
	s.t.Helper()
	full := filepath.Join(s.dir, name)
	testkit.OK(s.t, os.MkdirAll(filepath.Dir(full), 0o755))
	testkit.OK(s.t, os.WriteFile(full, []byte(text), 0o600))
}

// askMeanwhile sends a request to the admin side. header is pairs of names and values.
func (s *keysSite) ask(method, path, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://localhost"+path, strings.NewReader(body))
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	s.admin.ServeHTTP(w, r)
	return w
}

// must is ask, of what has to come out with a status; the answer goes into v.
func (s *keysSite) must(status int, v any, method, path, body string) {
	s.t.Helper()
	w := s.ask(method, path, body)
	if w.Code != status {
		s.t.Fatalf("%s %s %s: status %d, want %d: %s", method, path, body, w.Code, status, w.Body)
	}
	if err := json.Unmarshal(w.Body.Bytes(), v); err != nil {
		s.t.Fatalf("%s: %v", w.Body, err)
	}
}

// opens is the status of a call with a key.
func (s *keysSite) opens(key string) int {
	r := httptest.NewRequest(http.MethodGet, "/v1/models", nil)
	r.Header.Set("Authorization", "Bearer "+key)
	w := httptest.NewRecorder()
	s.data.ServeHTTP(w, r)
	return w.Code
}

func (s *keysSite) list(query string) []adminapi.Key {
	s.t.Helper()
	var v adminapi.KeyList
	s.must(http.StatusOK, &v, http.MethodGet, "/api/v1/keys"+query, "")
	return v.Keys
}

func TestKeys_Life(t *testing.T) {
	s := newKeysSite(t, "")
	var made adminapi.CreatedKey
	s.must(http.StatusCreated, &made, http.MethodPost, "/api/v1/keys", `{"tenant":"acme","name":"ci","expires_in":"720h"}`)
	if !strings.HasPrefix(made.Key, "llmg_ci_") || made.Hash != tenants.HashKey(made.Key).String() || made.Tenant != "acme" || made.ID != tenants.HashKey(made.Key).ID() {
		t.Errorf("made %+v", made)
	}
	if left := time.Until(*made.Expires); left > 720*time.Hour || left < 719*time.Hour {
		t.Errorf("it ends in %v", left)
	}
	if got := s.opens(made.Key); got != http.StatusOK {
		t.Errorf("the new key gets %d", got)
	}
	s.must(http.StatusCreated, &struct{}{}, http.MethodPost, "/api/v1/keys", `{"tenant":"bob","hash":"`+tenants.HashKey("own").String()+`"}`)
	if got := s.opens("own"); got != http.StatusOK {
		t.Errorf("a key that was brought gets %d", got)
	}

	list := s.list("?tenant=acme")
	if len(list) != 2 || len(s.list("")) != 4 || len(s.list("?tenant=x")) != 0 {
		t.Fatalf("listed: %+v", list)
	}
	for _, k := range list {
		used := k.Name == "ci"
		runtime := k.Name == "ci"
		if (k.LastUsedAt != nil) != used || (k.Source == "runtime") != runtime || k.Expired || k.Status != string(tenants.KeyOpens) || len(k.HashPrefix) != 12 {
			t.Errorf("listed: %+v", k)
		}
	}

	var gone adminapi.RevokedKey
	s.must(http.StatusOK, &gone, http.MethodDelete, "/api/v1/keys/"+made.ID, "")
	if got := s.opens(made.Key); got != http.StatusUnauthorized || gone.Tenant != "acme" || gone.Name != "ci" {
		t.Errorf("after %+v the key gets %d", gone, got)
	}
	again := gone
	s.must(http.StatusOK, &again, http.MethodDelete, "/api/v1/keys/"+made.Hash, "")
	if !again.Revoked.Equal(gone.Revoked) {
		t.Errorf("revoked at %v, and again at %v", gone.Revoked, again.Revoked)
	}
	if got := s.list("?tenant=acme"); len(got) != 1 {
		t.Errorf("listed after it was revoked: %+v", got)
	}
}

// A key of a policy file is revoked by its id or hash, stays listed as long as it is there, and leaves its tenant's
// other keys alone.
func TestKeys_RevokeOfPolicy(t *testing.T) {
	for name, ref := range map[string]string{"acme": tenants.HashKey("acme").ID(), "bob": tenants.HashKey("bob").String()} {
		s := newKeysSite(t, "")
		var other adminapi.CreatedKey
		s.must(http.StatusCreated, &other, http.MethodPost, "/api/v1/keys", `{"tenant":"`+name+`"}`)
		s.must(http.StatusOK, &struct{}{}, http.MethodDelete, "/api/v1/keys/"+ref, "")
		if s.opens(name) != http.StatusUnauthorized || s.opens(other.Key) != http.StatusOK {
			t.Errorf("%s: the revoked key gets %d, the other %d", name, s.opens(name), s.opens(other.Key))
		}
		i := slices.IndexFunc(s.list(""), func(k adminapi.Key) bool { return k.ID == tenants.HashKey(name).ID() })
		if i < 0 || s.list("")[i].Status != string(tenants.KeyRevoked) {
			t.Errorf("%s: listed as %+v", name, s.list(""))
		}
	}
}

// While a policy file is bad, keys are made and revoked all the same.
func TestKeys_WhilePolicyIsBad(t *testing.T) {
	s := newKeysSite(t, "")
	s.write("tenants/b.yaml", "nonsense: 1\n")
	var made adminapi.CreatedKey
	s.must(http.StatusCreated, &made, http.MethodPost, "/api/v1/keys", `{"tenant":"acme"}`)
	s.must(http.StatusOK, &struct{}{}, http.MethodDelete, "/api/v1/keys/"+tenants.HashKey("bob").String(), "")
	if s.opens(made.Key) != http.StatusOK || s.opens("bob") != http.StatusUnauthorized || s.opens("acme") != http.StatusOK {
		t.Errorf("new %d, revoked %d, left alone %d", s.opens(made.Key), s.opens("bob"), s.opens("acme"))
	}
}

func TestKeys_Expiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newKeysSite(t, "")
		end := time.Now().Add(time.Hour)
		var made adminapi.CreatedKey
		s.must(http.StatusCreated, &made, http.MethodPost, "/api/v1/keys", `{"tenant":"acme","name":"z","expires":"`+end.Format(time.RFC3339)+`"}`)
		time.Sleep(time.Hour - time.Second)
		if got := s.opens(made.Key); got != http.StatusOK || s.list("?tenant=acme")[1].Expired {
			t.Errorf("before its end it gets %d and is listed as %+v", got, s.list("?tenant=acme")[1])
		}
		time.Sleep(time.Second)
		if got := s.opens(made.Key); got != http.StatusUnauthorized || !s.list("?tenant=acme")[1].Expired {
			t.Errorf("after its end it gets %d and is listed as %+v", got, s.list("?tenant=acme")[1])
		}
	})
}

func TestKeys_Refused(t *testing.T) {
	s := newKeysSite(t, "")
	var made adminapi.CreatedKey
	s.must(http.StatusCreated, &made, http.MethodPost, "/api/v1/keys", `{"tenant":"acme"}`)
	var gone adminapi.CreatedKey
	s.must(http.StatusCreated, &gone, http.MethodPost, "/api/v1/keys", `{"tenant":"acme"}`)
	s.must(http.StatusOK, &struct{}{}, http.MethodDelete, "/api/v1/keys/"+gone.ID, "")
	before := s.reloads
	for _, c := range []struct {
		method, path, body string
		status             int
		code, says         string
	}{
		{"POST", "", ``, 400, "invalid_request_error", "Send {"},
		{"POST", "", `[]`, 400, "invalid_request_error", "cannot unmarshal"},
		{"POST", "", `{"tenant":"acme"} {}`, 400, "invalid_request_error", "more after the JSON object"},
		{"POST", "", `{"tenant":"acme","owner":"x"}`, 400, "invalid_request_error", `unknown field "owner"`},
		{"POST", "", `{"tenant":"acme","Tenant":"bob"}`, 400, "invalid_request_error", `"Tenant" differs from its name by case`},
		{"POST", "", `{"tenant":"acme","name":"a","name":"b"}`, 400, "invalid_request_error", `"name" is there twice`},
		{"POST", "", `{"tenant":"acme","name":"` + strings.Repeat("x", 64<<10) + `"}`, 400, "invalid_request_error", "too large"},
		{"POST", "", `{"name":"ci"}`, 400, "invalid_request_error", "tenant is missing"},
		{"POST", "", `{"tenant":"acme","name":"a b"}`, 400, "invalid_request_error", `"a b" holds spaces`},
		{"POST", "", `{"tenant":"acme","expires":"2020-01-01T00:00:00Z"}`, 400, "invalid_request_error", "would have expired at 2020-01-01T00:00:00Z"},
		{"POST", "", `{"tenant":"acme","expires":"tomorrow"}`, 400, "invalid_request_error", "tomorrow"},
		{"POST", "", `{"tenant":"acme","expires_in":"30d"}`, 400, "invalid_request_error", "720h"},
		{"POST", "", `{"tenant":"acme","expires_in":"-1h"}`, 400, "invalid_request_error", "a time in the future"},
		{"POST", "", `{"tenant":"acme","expires_in":"1h","expires":"2099-01-01T00:00:00Z"}`, 400, "invalid_request_error", "one of them"},
		{"POST", "", `{"tenant":"acme","expires":"9999-12-31T23:59:59-10:00"}`, 400, "invalid_request_error", "after the year 9999"},
		{"POST", "", `{"tenant":"acme","hash":"` + made.Key + `"}`, 400, "invalid_request_error", "hash (not shown)"},
		{"POST", "", `{"tenant":"nobody"}`, 404, "tenant_not_found", `"nobody"`},
		{"POST", "", `{"tenant":"bob","hash":"` + made.Hash + `"}`, 409, "key_exists", "tenant acme"},
		{"POST", "", `{"tenant":"bob","hash":"` + tenants.HashKey("bob").String() + `"}`, 409, "key_exists", "tenant bob"},
		{"POST", "", `{"tenant":"bob","hash":"` + gone.Hash + `"}`, 409, "key_revoked", "stays so"},
		{"DELETE", "/key_0000000000000000", ``, 404, "key_not_found", "lists all"},
		{"DELETE", "/" + made.Key, ``, 404, "key_not_found", "lists all"},
	} {
		w := s.ask(c.method, "/api/v1/keys"+c.path, c.body)
		var e struct {
			Error struct{ Message, Code string }
		}
		if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil || w.Code != c.status || e.Error.Code != c.code || !strings.Contains(e.Error.Message, c.says) {
			t.Errorf("%s %s %.80s: %d %s, want %d %s with %q", c.method, c.path, c.body, w.Code, w.Body, c.status, c.code, c.says)
		}
		if strings.Contains(w.Body.String(), made.Key) {
			t.Errorf("%s %s shows a key: %s", c.method, c.path, w.Body)
		}
	}
	if s.reloads != before || s.opens(made.Key) != http.StatusOK {
		t.Errorf("what was refused has reloaded %d times, and the key gets %d", s.reloads-before, s.opens(made.Key))
	}
	if n := strings.Count(s.log.String(), `"msg":"audit"`); n != 3 {
		t.Errorf("%d audit lines for three changes", n)
	}
}

// A damaged file is not written over, and says so.
func TestKeys_Damaged(t *testing.T) {
	s := newKeysSite(t, "")
	const text = "keys: [{id: 1}]\n"
	s.write("llmgov.keys.yaml", text)
	for _, c := range [][2]string{{"POST", ""}, {"DELETE", "/" + tenants.HashKey("bob").ID()}} {
		w := s.ask(c[0], "/api/v1/keys"+c[1], `{"tenant":"acme"}`)
		if w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), "llmgov.keys.yaml:1:") || !strings.Contains(w.Body.String(), "keys_file_damaged") {
			t.Errorf("%s: %d %s", c[0], w.Code, w.Body)
		}
	}
	if got, _ := os.ReadFile(filepath.Join(s.dir, "llmgov.keys.yaml")); string(got) != text {
		t.Errorf("the file was changed to %s", got)
	}
}

// Without a config file there is nothing to keep keys beside; those there are can be listed.
func TestKeys_Quickstart(t *testing.T) {
	cfg := tenants.DefaultConfig()
	cfg.Upstreams = []tenants.Upstream{{Name: "u", BaseURL: "http://127.0.0.1:1/v1"}}
	p := tenants.DefaultPool("p", "*")
	p.RPM = 1
	cfg.Pools = []tenants.Pool{p}
	snap := testkit.Must(tenants.Build(cfg, []tenants.Tenant{{Name: "free", Keys: []tenants.Key{{Hash: tenants.HashKey("free")}}}}))(t)
	gw := keysGateway(t, snap, &bytes.Buffer{})
	s := &keysSite{t: t, data: gw, admin: adminSide(gw, admin.Options{})}
	if got := s.list(""); len(got) != 1 || got[0].Tenant != "free" {
		t.Errorf("listed: %+v", got)
	}
	for _, c := range [][2]string{{"POST", ""}, {"DELETE", "/" + tenants.HashKey("free").ID()}} {
		if w := s.ask(c[0], "/api/v1/keys"+c[1], `{"tenant":"free"}`); w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), "no_config_file") {
			t.Errorf("%s: %d %s", c[0], w.Code, w.Body)
		}
	}
}

// Nobody gets at keys past the guards of the admin side.
func TestKeys_Guarded(t *testing.T) {
	for _, c := range []struct {
		token  string
		header []string
		want   int
	}{
		{"", nil, http.StatusCreated},
		{"", []string{"Sec-Fetch-Site", "cross-site"}, http.StatusForbidden},
		{"", []string{"Origin", "http://evil.example"}, http.StatusForbidden},
		{"t0k", nil, http.StatusUnauthorized},
		{"t0k", []string{"Authorization", "Bearer nope"}, http.StatusUnauthorized},
		{"t0k", []string{"Authorization", "Bearer acme"}, http.StatusUnauthorized}, // a tenant's key
		{"t0k", []string{"Authorization", "Bearer t0k", "Sec-Fetch-Site", "cross-site"}, http.StatusForbidden},
		{"t0k", []string{"Authorization", "Bearer t0k"}, http.StatusCreated},
	} {
		s := newKeysSite(t, c.token)
		if w := s.ask(http.MethodPost, "/api/v1/keys", `{"tenant":"acme"}`, c.header...); w.Code != c.want {
			t.Errorf("token %q, %q: status %d, want %d: %s", c.token, c.header, w.Code, c.want, w.Body)
		}
	}
	s := newKeysSite(t, "")
	r := httptest.NewRequest(http.MethodGet, "http://rebound.example/api/v1/keys", nil)
	w := httptest.NewRecorder()
	s.admin.ServeHTTP(w, r)
	if w.Code != http.StatusForbidden {
		t.Errorf("under another name: %d", w.Code)
	}
}

// Whoever has the role keys sees, makes and revokes those of its tenants and their teams, and learns nothing of others'.
func TestKeys_OfRole(t *testing.T) {
	s := newKeysSite(t, "the-admin-token-0")
	s.write("tenants/b.yaml", fmt.Sprintf("tenants: {team-a: {keys: [], teams: {x: {keys: [%q]}}}}\n", tenants.HashKey("x")))
	s.write("llmgov.yaml", keysConfig+`admin: {token: the-admin-token-0, roles: [{name: portal, role: keys, tenants: [acme, "team-*"], token: the-portal-token-0}]}`)
	testkit.Must(s.Reload(t.Context()))(t)
	auth := []string{"Authorization", "Bearer the-portal-token-0"}
	id := func(key string) string { return "/" + tenants.HashKey(key).ID() }
	for _, c := range []struct{ method, path, body, want string }{
		{"GET", "", "", `200 acme team-a/x`},
		{"GET", "?tenant=bob", "", `200`},
		{"POST", "", `{"tenant":"bob"}`, `403 role_not_allowed`},
		{"POST", "", `{"tenant":"nobody"}`, `403 role_not_allowed`}, // whether there is one is not said
		{"POST", "", `{"tenant":"team-b"}`, `404 tenant_not_found`},
		{"POST", "", `{"tenant":"acme","hash":"` + tenants.HashKey("bob").String() + `"}`, `409 key_exists another tenant`},
		{"POST", "", `{"tenant":"acme","hash":"` + tenants.HashKey("x").String() + `"}`, `409 key_exists team-a/x`},
		{"POST", "", `{"tenant":"team-a/x"}`, `201`},
		{"DELETE", id("bob"), "", `404 key_not_found`},
		{"DELETE", id("acme"), "", `200 acme`},
		{"DELETE", id("acme"), "", `200 acme`},
	} {
		w := s.ask(c.method, "/api/v1/keys"+c.path, c.body, auth...)
		got := fmt.Sprint(w.Code)
		for _, word := range []string{"role_not_allowed", "tenant_not_found", "key_not_found", "key_exists", "another tenant", "acme", "bob", "team-a/x"} {
			if w.Code != http.StatusCreated && strings.Contains(w.Body.String(), word) && !strings.Contains(c.body+c.path, word) {
				got += " " + word
			}
		}
		if got != c.want {
			t.Errorf("%s %s %s: %s, want %s: %s", c.method, c.path, c.body, got, c.want, w.Body)
		}
	}
	if s.opens("bob") != http.StatusOK || s.opens("acme") != http.StatusUnauthorized {
		t.Error("another key was revoked than was named")
	}
}

// Each change has one line, which says who, what and whose, and no key.
func TestKeys_Audit(t *testing.T) {
	s := newKeysSite(t, "t0k")
	auth := []string{"Authorization", "Bearer t0k"}
	w := s.ask(http.MethodPost, "/api/v1/keys", `{"tenant":"acme","name":"ci"}`, auth...)
	var made adminapi.CreatedKey
	testkit.OK(t, json.Unmarshal(w.Body.Bytes(), &made))
	s.ask(http.MethodDelete, "/api/v1/keys/"+made.ID, "", auth...)
	var got []string
	for line := range strings.Lines(s.log.String()) {
		var l struct{ Msg, Level, Action, Actor, Remote, Key, Tenant, Name string }
		testkit.OK(t, json.Unmarshal([]byte(line), &l))
		got = append(got, fmt.Sprint(l))
	}
	want := []string{
		"{audit INFO key.create admin token 192.0.2.1:1234 " + made.ID + " acme ci}",
		"{audit INFO key.revoke admin token 192.0.2.1:1234 " + made.ID + " acme ci}",
	}
	if !slices.Equal(got, want) {
		t.Errorf("audit lines %q, want %q", got, want)
	}
	for _, secret := range []string{made.Key, made.Hash, "t0k"} {
		if strings.Contains(s.log.String(), secret) {
			t.Errorf("the log has %s", secret)
		}
	}
}

// The time of the last use costs no allocation, is not lost by a reload, and is safe from many calls at once.
func TestKeys_LastUse(t *testing.T) {
	s := newKeysSite(t, "")
	gw := s.data.(*Gateway)
	now := time.Unix(1000, 5)
	h := tenants.HashKey("acme")
	if _, ok := gw.LastUsed(h); ok {
		t.Error("used before the first use")
	}
	if n := testkit.Allocs(t, 100, func() { now = now.Add(time.Second); gw.admission.MarkUsed(h, now) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() { gw.admission.MarkUsed(h, now.Add(time.Duration(i)*time.Second)) })
		wg.Go(func() { gw.admission.MarkUsed(tenants.HashKey("nobody"), now) })
	}
	wg.Wait()
	s.must(http.StatusCreated, &struct{}{}, http.MethodPost, "/api/v1/keys", `{"tenant":"acme"}`)
	if at, ok := gw.LastUsed(h); !ok || at.Before(now.Truncate(time.Second)) {
		t.Errorf("after a reload it was last used at %v, %v; want %v", at, ok, now)
	}
}

// What is written has its audit line, whether it counts here or not.
func TestKeys_AuditNotInForce(t *testing.T) {
	s := newKeysSite(t, "")
	s.write("tenants/a.yaml", fmt.Sprintf("tenants: {bob: {keys: [%q]}}\n", tenants.HashKey("bob"))) // acme is going
	if w := s.ask(http.MethodPost, "/api/v1/keys", `{"tenant":"acme"}`); w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), "not_in_force") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if got := s.log.String(); strings.Count(got, `"action":"key.create"`) != 1 || !strings.Contains(got, `"in_force":false`) {
		t.Errorf("logged: %s", got)
	}
}
