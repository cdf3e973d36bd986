package tenants

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

// limitLines are limits, one a line, as "key value from".
func limitLines(list []Limit) string {
	var b strings.Builder
	for _, l := range list {
		fmt.Fprintln(&b, l.Key, l.Value, l.From)
	}
	return b.String()
}

// TestLimits names for each effective value the line that it is from.
func TestLimits(t *testing.T) {
	s := testkit.Must(loadSections(map[string]string{
		"llmgov.yaml": `upstreams: {o: {base_url: "http://o"}}
pools:
  main:
    models: [m]
    tpm: 1000
    concurrency:
      max: 8
      interactive_reserve: 2
      adaptive: aimd
    budgets:
      - {tokens: 7, per: hour}
      - {requests: 8, per: day}
  side:
    models: [s]
    rpm: {min: 1, max: 3, adaptive: throttles}
    concurrency: {max: 4, soft_cap: 0.5}
default_pool: main
`,
		"tenants/a.yaml": `tenants:
  acme:
    tier: pro
    keys: ["` + key1 + `"]
    rpm: 61
    max_wait: 2m
    pools: {main: {tpm: 50, rpm: 4}}
    budgets: [{tokens: 5, per: day}]
  beta: {tier: pro, routes: [files, inference], keys: ["` + key2 + `"]}
  cape: {keys: ["` + key3 + `"]}
  dove: {tier: many, tenant_weight: 2, keys: ["sha256:` + strings.Repeat("4", 64) + `"]}
`,
		"tenants/b.yaml": `tiers:
  many: {group: true, weight: 0.5}
  pro:
    weight: 2
    rpm: 60
    tpm: 70
    floor_tpm: 5
    priority: background
    credit: 500ms
    pools: {main: {tpm: 55, rpm: 6, itpm: 7, otpm: 8, concurrency: 9}, side: {rpm: 1}}
    budgets:
      - {requests: 9, per: week}
      - {requests: 10, per: month}
`,
	}))(t)
	var got strings.Builder
	got.WriteString(limitLines(s.PoolLimits(&s.Pools()[0])))
	got.WriteString(limitLines(s.PoolLimits(&s.Pools()[1])))
	for i := range s.Tenants() {
		fmt.Fprintf(&got, "%s\n%s", s.Tenants()[i].Name, limitLines(s.Limits(&s.Tenants()[i], &s.Pools()[0])))
	}
	want := `tpm 1000 llmgov.yaml:5:10
concurrency 8 llmgov.yaml:6:5
adaptive aimd llmgov.yaml:9:17
min 4 
interactive_reserve 2 llmgov.yaml:8:28
headroom 0.01 
accounting admit_max 
budgets[0] 7 tokens per hour llmgov.yaml:11:9
budgets[1] 8 requests per day llmgov.yaml:12:9
rpm 1 llmgov.yaml:15:5
rpm.max 3 llmgov.yaml:15:24
rpm.adaptive throttles llmgov.yaml:15:37
concurrency 4 llmgov.yaml:16:5
soft_cap 0.5 llmgov.yaml:16:37
headroom 0.01 
accounting admit_max 
acme
weight 2 tenants/b.yaml:4:13
floor_tpm 5 tenants/b.yaml:7:16
rpm 61 tenants/a.yaml:5:10
tpm 70 tenants/b.yaml:6:10
pools.main.rpm 4 tenants/a.yaml:7:34
pools.main.tpm 50 tenants/a.yaml:7:25
pools.main.itpm 7 tenants/b.yaml:10:43
pools.main.otpm 8 tenants/b.yaml:10:52
pools.main.concurrency 9 tenants/b.yaml:10:68
max_wait 2m tenants/a.yaml:6:15
priority background tenants/b.yaml:8:15
credit 500ms tenants/b.yaml:9:13
budgets[0] 5 tokens per day tenants/a.yaml:8:15
beta
weight 2 tenants/b.yaml:4:13
floor_tpm 5 tenants/b.yaml:7:16
rpm 60 tenants/b.yaml:5:10
tpm 70 tenants/b.yaml:6:10
pools.main.rpm 6 tenants/b.yaml:10:34
pools.main.tpm 55 tenants/b.yaml:10:25
pools.main.itpm 7 tenants/b.yaml:10:43
pools.main.otpm 8 tenants/b.yaml:10:52
pools.main.concurrency 9 tenants/b.yaml:10:68
max_wait 0s 
priority background tenants/b.yaml:8:15
credit 500ms tenants/b.yaml:9:13
routes inference, files tenants/a.yaml:9:21
budgets[0] 9 requests per week tenants/b.yaml:12:9
budgets[1] 10 requests per month tenants/b.yaml:13:9
cape
weight 1 
max_wait 0s 
priority interactive 
dove
group_weight 0.5 tenants/b.yaml:2:31
tenant_weight 2 tenants/a.yaml:11:37
max_wait 0s 
priority interactive 
`
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
}

// TestMore loads policy files that no glob finds, beside those that one does.
func TestMore(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for name, text := range map[string]string{
		"llmgov.yaml":    goodConfig,
		"tenants/a.yaml": goodPolicy,
		"new/b.yaml":     "tenants: {beta: {keys: [\"" + key2 + "\"], tier: none}}\n",
		"new/c.yaml":     "tiers: {none: {weight: 2}}\n",
	} {
		testkit.OK(t, os.MkdirAll(filepath.Dir(name), 0o755))
		testkit.OK(t, os.WriteFile(name, []byte(text), 0o644))
	}
	s := testkit.Must(Load("llmgov.yaml", Options{More: []string{filepath.Join(dir, "new/c.yaml"), "./new/b.yaml", "tenants/a.yaml"}}))(t)
	if len(s.Tenants()) != 2 || s.Tenants()[1].Source != "./new/b.yaml:1:11" || s.Tenants()[1].Weight != 2 {
		t.Errorf("tenants %+v", s.Tenants())
	}
	for _, more := range []string{"new/b.yaml", "absent.yaml"} {
		_, err := Load("llmgov.yaml", Options{More: []string{more}})
		if err == nil || !strings.HasPrefix(err.Error(), more+":") {
			t.Errorf("with %s: %v; want a problem in it", more, err)
		}
	}
}

// TestAlone reads policy files without a config.
func TestAlone(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	write := func(name, text string) string {
		t.Helper()
		testkit.OK(t, os.WriteFile(name, []byte(text), 0o644))
		return name
	}
	a := write("a.yaml", "tenants: {acme: {tier: elsewhere, models: [anything], default_pool: any}}\n")
	b := write("b.yaml", "tiers: {pro: {rpm: 1}, x: {}}\n")
	if tiers, list, err := Alone([]string{a, b}, Options{}); err != nil || tiers != 2 || list != 1 {
		t.Errorf("tiers %d, tenants %d, error %v; want 2, 1, none", tiers, list, err)
	}
	c := write("c.yaml", "tenants:\n  acme: {rmp: 5}\n")
	_, _, err := Alone([]string{a, c, "absent.yaml"}, Options{})
	want := "absent.yaml: cannot be read: no such file or directory; name a policy file\n" +
		"c.yaml:2:3: tenant \"acme\" is defined twice; the other is at a.yaml:1:11, remove one\n" +
		"c.yaml:2:10: unknown key \"rmp\"; did you mean \"rpm\"?"
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
	text := "tenants: {beta: {keys: [], teams: {x: {keys: []}}}}\n"
	_, _, err = Alone([]string{write("d.yaml", text), write("e.yaml", text)}, Options{})
	want = "e.yaml:1:11: tenant \"beta\" is defined twice; the other is at d.yaml:1:11, remove one" // which says enough of its teams
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

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
