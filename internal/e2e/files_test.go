package e2e

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/llmgov/llmgov/internal/admin"
	"github.com/llmgov/llmgov/tenants"
)

// fromFiles reads a policy file as an operator writes it, beside a config whose pool p has
// these limits. KEY(x) stands for the hash of x.
func fromFiles(t *testing.T, limits, policy string) *tenants.Snapshot {
	t.Helper()
	for before, rest, ok := strings.Cut(policy, "KEY("); ok; before, rest, ok = strings.Cut(policy, "KEY(") {
		key, after, _ := strings.Cut(rest, ")")
		policy = before + `"` + tenants.HashKey(key).String() + `"` + after
	}
	config := "upstreams: {mock: {base_url: \"http://mock/v1\"}}\ntimezone: UTC\npools: {p: {models: [\"*\"], headroom: 0, burst: 1m, " + limits + "}}\n"
	snap, err := tenants.LoadFS(fstest.MapFS{
		"llmgov.yaml":       {Data: []byte(config)},
		"tenants/acme.yaml": {Data: []byte(policy)},
	}, "llmgov.yaml", tenants.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return snap
}

// apply puts a policy in force.
func (s *stack) apply(snap *tenants.Snapshot) {
	s.t.Helper()
	if err := s.gateway.Apply(snap); err != nil {
		s.t.Fatal(err)
	}
}

// admin reads what the admin side shows.
func (s *stack) admin(path string, into any) {
	s.t.Helper()
	w := httptest.NewRecorder()
	s.adminAPI(admin.Options{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost"+path, nil))
	if err := json.Unmarshal(w.Body.Bytes(), into); err != nil {
		s.t.Fatalf("%s: %v: %s", path, err, w.Body)
	}
}
