package tenants

import (
	"errors"
	"testing"

	"github.com/llmgov/llmgov/internal/testkit"
)

// TestAsk finds who calls what, and names what was probably meant.
func TestAsk(t *testing.T) {
	s := testkit.Must(loadSections(map[string]string{
		"llmgov.yaml": `upstreams: {o: {base_url: "http://o"}}
pools:
  main: {models: ["gpt-4o", "gpt-4o-2024-*", {fast: gpt-4o-mini}], rpm: 1}
  side: {models: [other], rpm: 1}
default_pool: main
`,
		"tenants/a.yaml": `tenants:
  acme: {models: ["gpt-4o*", fast], keys: ["` + key1 + `"]}
  idle: {keys: []}
  org:
    teams:
      x: {teams: {y: {keys: ["` + key2 + `"]}}, keys: ["` + key3 + `"]}
`,
	}))(t)
	for _, tc := range []struct {
		tenant, model, pool string
		kind                error
		what                string
	}{
		{"acme", "gpt-4o", "main", nil, ""},
		{"acme", "gpt-4o-2024-11", "main", nil, ""},
		{"acme", "fast", "main", nil, ""},
		{"org/x/y", "other", "side", nil, ""},
		{"acne", "gpt-4o", "", ErrNoTenant, `there is no tenant "acne"; did you mean "acme"?`},
		{"org/x/z", "gpt-4o", "", ErrNoTenant, `there is no tenant "org/x/z"; did you mean "org/x/y"?`},
		{"", "gpt-4o", "", ErrNoTenant, `there is no tenant ""; known are acme, idle, org, org/x, org/x/y`},
		{"acme", "gtp-4o", "", ErrNoModel, `no pool serves the model "gtp-4o"; did you mean "gpt-4o"?`},
		{"acme", "llama", "", ErrNoModel, `no pool serves the model "llama"; known are fast, gpt-4o, gpt-4o-2024-*, other`},
		{"acme", "other", "", ErrNoGrant, `tenant "acme" may not use the model "other"; of its models known are fast, gpt-4o`},
		{"idle", "gpt-4o", "", ErrNoKeys, `tenant "idle" has no keys, so nobody calls in its name; make one with llmgov keys new`},
		{"org", "gpt-4o", "", ErrNoKeys, `tenant "org" has no keys, so nobody calls in its name; its teams do: org/x, org/x/y`},
	} {
		who, pool, err := s.Ask(tc.tenant, tc.model)
		if tc.kind == nil {
			if err != nil || who.Name != tc.tenant || pool.Name != tc.pool {
				t.Errorf("%s of %s: %v %v %v", tc.model, tc.tenant, who, pool, err)
			}
			continue
		}
		if !errors.Is(err, tc.kind) || err.Error() != tc.what {
			t.Errorf("%s of %s: %v", tc.model, tc.tenant, err)
		}
	}
}
