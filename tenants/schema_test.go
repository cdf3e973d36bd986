package tenants

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/presets"
)

// inexpressible are the cases of testdata/bad that a JSON Schema cannot refuse, and why.
var inexpressible = func() map[string]string {
	why := map[string]string{}
	for reason, cases := range map[string]string{
		"names lead to other places and files": "alias_circle pool_default tenant_models tenant_tier tenant_no_tiers tenant_twice " +
			"alias_taken identity_keys price_file_json price_file_missing price_file_none upstream_model_unknown tenant_upstreams pools_unknown pools_unreached upstream_unknown upstream_choice upstreams_unknown price_twice group_weight policy_none policy_glob_config",
		"whether patterns overlap is for the loader": "pool_ambiguous price_ambiguous",
		"prices of all models are looked up":         "budget_usd_many budget_usd_narrow budget_usd_prices teams_budget_usd alias_price",
		"floors are added up over tenants":           "floor_alone floor_inert floor_sum floor_sum_tier teams_floor teams_floor_tier teams_floor_sum",
		"what holds slots back is in the pools":      "priority_inert",
		"upstreams of a pool are compared by name":   "upstreams_twice",
		"keys are compared by hash and by name":      "key_name_twice key_same_mapping teams_same_key",
		"a team is compared with its parent":         "teams_inert teams_routes",
		"two settings are compared":                  "admin_roles_alone concurrency_of_one engine_key listen_same listen_admin_open body_memory expect_nodes_alone",
		"a duration or a size is a text there":       "duration_range size_range size_overflow",
		"a port is a part of a text there":           "upstream_ports",
		"zones are known to the machine":             "timezone_unknown",
		"the environment fills ${…} later":           "expand_bad_number expand_budget expand_unset expand_unset_secrets",
		"the defect is outside of files":             "env_admin_open env_bad env_policies env_state_timezone flag_bad",
		"YAML has taken it before a schema is asked": "teams_name_twice yaml_bom yaml_duplicate_key yaml_duplicate_tenant yaml_second_document yaml_tag",
	} {
		for name := range strings.FieldsSeq(cases) {
			why[name] = reason
		}
	}
	return why
}()

// compiled are the three schemas.
func compiled(t testing.TB) map[string]*jsonschema.Schema {
	t.Helper()
	out := map[string]*jsonschema.Schema{}
	for _, kind := range []string{"config", "policy", ""} {
		text := testkit.Must(Schema(kind))(t)
		doc := testkit.Must(jsonschema.UnmarshalJSON(bytes.NewReader(text)))(t)
		c := jsonschema.NewCompiler()
		c.DefaultDraft(jsonschema.Draft4) // the schema itself must say that it is newer
		testkit.OK(t, c.AddResource("file:///schema.json", doc))
		out[kind] = testkit.Must(c.Compile("file:///schema.json"))(t)
	}
	return out
}

var errNoJSON = errors.New("has no JSON form")

// asJSON is a YAML text as an editor hands it to a schema.
func asJSON(text string) (any, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil || doc.Kind != yaml.DocumentNode {
		return nil, fmt.Errorf("%w: %v", errNoJSON, err)
	}
	return nodeJSON(doc.Content[0])
}

func nodeJSON(n *yaml.Node) (any, error) {
	switch n.Kind {
	case yaml.MappingNode:
		m := map[string]any{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			v, err := nodeJSON(n.Content[i+1])
			if err != nil {
				return nil, err
			}
			m[n.Content[i].Value] = v
		}
		return m, nil
	case yaml.SequenceNode:
		list := []any{}
		for _, c := range n.Content {
			v, err := nodeJSON(c)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		return list, nil
	case yaml.ScalarNode:
		return scalarJSON(n)
	}
	return nil, errNoJSON
}

func scalarJSON(n *yaml.Node) (any, error) {
	switch n.Tag {
	case "!!null":
		return nil, nil
	case "!!bool":
		return n.Value == "true", nil
	case "!!int":
		if i, ok := new(big.Int).SetString(n.Value, 0); ok {
			return json.Number(i.String()), nil
		}
		return nil, errNoJSON
	case "!!float":
		if json.Valid([]byte(n.Value)) {
			return json.Number(n.Value), nil
		}
		var f float64
		if err := n.Decode(&f); err != nil {
			return nil, errNoJSON
		}
		text, err := json.Marshal(f)
		if err != nil {
			return nil, errNoJSON // infinite
		}
		return json.Number(text), nil
	}
	return n.Value, nil
}

// refusals are what the schemas say of each YAML section of a case.
func refusals(t testing.TB, schemas map[string]*jsonschema.Schema, sections map[string]string) (said []string, noJSON bool) {
	t.Helper()
	for name, text := range sections {
		if !strings.HasSuffix(name, ".yaml") {
			continue
		}
		kind := "policy"
		if name == "llmgov.yaml" {
			kind = "config"
		}
		v, err := asJSON(text)
		if errors.Is(err, errNoJSON) {
			noJSON = true
			continue
		}
		for _, k := range []string{kind, ""} {
			if err := schemas[k].Validate(v); err != nil {
				said = append(said, fmt.Sprintf("%s by schema %q: %v", name, k, err))
			}
		}
	}
	return said, noJSON
}

// TestSchema_GoodCorpus: what the loader takes, the schema takes.
func TestSchema_GoodCorpus(t *testing.T) {
	schemas := compiled(t)
	check := func(name string, sections map[string]string) {
		t.Helper()
		if said, noJSON := refusals(t, schemas, sections); len(said) > 0 || noJSON {
			t.Errorf("%s is good, but %s", name, said)
		}
	}
	check("the good files", map[string]string{"llmgov.yaml": goodConfig, "a.yaml": goodPolicy})
	for _, p := range presets.All() {
		name := map[string]string{"governor": "llmgov.yaml", "tiers": "a.yaml"}[p.Kind]
		check("preset "+p.Name, map[string]string{name: p.YAML})
	}
	check("the full files", map[string]string{"llmgov.yaml": fullConfig, "a.yaml": fullPolicy})
	cases, _ := filepath.Glob("testdata/good/*.txt")
	for _, file := range cases {
		_, sections := split(t, file)
		check(file, sections)
	}
}

// TestSchema_BadCorpus: what the loader refuses, the schema refuses, but for what no schema can say.
func TestSchema_BadCorpus(t *testing.T) {
	schemas := compiled(t)
	cases, _ := filepath.Glob("testdata/bad/*.txt")
	seen := map[string]bool{}
	for _, file := range cases {
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		seen[name] = true
		_, sections := split(t, file)
		said, noJSON := refusals(t, schemas, sections)
		reason, excused := inexpressible[name]
		switch {
		case excused && len(said) > 0:
			t.Errorf("%s is excused (%s), but the schema says %s", name, reason, said)
		case !excused && len(said) == 0 && !noJSON:
			t.Errorf("%s passes the schema; the loader says\n%s", name, sections["want"])
		case noJSON && len(said) == 0 && !strings.HasPrefix(name, "yaml_") && name != "number_odd_forms":
			t.Errorf("%s is no YAML, so no schema was asked", name)
		}
	}
	for name := range inexpressible {
		if !seen[name] {
			t.Errorf("%s is excused and not in the corpus", name)
		}
	}
}

// TestSchema_Parts looks at what editors show: descriptions, defaults that are the loader's own, words and bounds.
func TestSchema_Parts(t *testing.T) {
	for _, c := range []struct {
		kind string
		path []string
		want any
	}{
		{"config", []string{"$schema"}, "https://json-schema.org/draft/2020-12/schema"},
		{"config", []string{"properties", "listen", "default"}, ":8080"},
		{"config", []string{"properties", "timeouts", "properties", "stream_idle", "default"}, "2m"},
		{"config", []string{"properties", "policies", "default"}, []any{"tenants/*.yaml"}},
		{"config", []string{"properties", "pools", "additionalProperties", "properties", "headroom", "default"}, 0.01},
		{"config", []string{"properties", "pools", "additionalProperties", "properties", "burst", "default"}, "10s"},
		{"config", []string{"properties", "pools", "additionalProperties", "properties", "accounting", "default"}, "admit_max"},
		{"config", []string{"properties", "pools", "additionalProperties", "properties", "token_weights", "properties", "audio", "default"}, 1.0},
		{"policy", []string{"properties", "tiers", "additionalProperties", "properties", "weight", "default"}, 1.0},
		{"policy", []string{"properties", "tiers", "additionalProperties", "properties", "priority", "default"}, "interactive"},
		{"policy", []string{"properties", "tenants", "additionalProperties", "properties", "weight", "default"}, nil}, // its tier's
		{"policy", []string{"properties", "tenants", "additionalProperties", "properties", "group"}, nil},
	} {
		text := testkit.Must(Schema(c.kind))(t)
		var at any
		testkit.OK(t, json.Unmarshal(text, &at))
		for _, key := range c.path {
			m, _ := at.(map[string]any)
			at = m[key]
		}
		if diff := cmp.Diff(c.want, at); diff != "" {
			t.Errorf("%s %v (-want +got):\n%s", c.kind, c.path, diff)
		}
	}
	if _, err := Schema("tenant"); err == nil {
		t.Error("there is a schema of tenant")
	}
}

// TestSchema_Describes: each key says what it is.
func TestSchema_Describes(t *testing.T) {
	for _, kind := range []string{"config", "policy"} {
		text, _ := Schema(kind)
		var root map[string]any
		testkit.OK(t, json.Unmarshal(text, &root))
		n := 0
		describes(root, "", func(path string, property map[string]any) {
			n++
			if about, _ := property["description"].(string); !strings.HasSuffix(about, ".") {
				t.Errorf("%s%s has the description %q", kind, path, about)
			}
		})
		if n < 15 {
			t.Errorf("%s has %d keys", kind, n)
		}
	}
}

// describes calls f for every property below a schema.
func describes(at any, path string, f func(path string, property map[string]any)) {
	switch at := at.(type) {
	case []any:
		for _, v := range at {
			describes(v, path, f)
		}
	case map[string]any:
		_, isMapping := at["additionalProperties"]
		for key, v := range at {
			properties, ok := v.(map[string]any)
			if key != "properties" || !isMapping || !ok {
				describes(v, path, f)
				continue
			}
			for name, p := range properties {
				f(path+"."+name, p.(map[string]any))
				describes(p, path+"."+name, f)
			}
		}
	}
}

// TestSchema_OneDefect: the corpus has cases with several defects, so each that a schema can see is here alone. The
// loader refuses them too.
func TestSchema_OneDefect(t *testing.T) {
	schemas := compiled(t)
	tier := func(text string) map[string]string {
		return map[string]string{"tenants/a.yaml": "tiers: {t: {" + text + "}}\n" + goodPolicy}
	}
	member := func(text string) map[string]string {
		return map[string]string{"tenants/a.yaml": "tenants: {a: {keys: [\"" + key1 + "\"], " + text + "}}\n"}
	}
	pool := func(text string) map[string]string {
		return map[string]string{"llmgov.yaml": "upstreams: {o: {base_url: http://o}}\npools: {main: {models: [gpt-4o], " + text + "}}\n"}
	}
	root := func(text string) map[string]string { return map[string]string{"llmgov.yaml": goodConfig + text + "\n"} }
	for what, sections := range map[string]map[string]string{
		"a mapping of concurrency without max": pool("rpm: 1, concurrency: {interactive_reserve: 1}"),
		"a max of 0":                           pool("concurrency: {max: 0}"),
		"a law of adaptive limits":             pool("concurrency: {adaptive: vegas, max: 8}"),
		"a min of a fixed limit":               pool("concurrency: {min: 2, max: 8}"),
		"an unknown key of a pool":             pool("rpm: 1, tmp: 1"),
		"a rule of accounting":                 pool("rpm: 1, accounting: sometimes"),
		"headroom":                             pool("rpm: 1, headroom: 0.5"),
		"all token weights 0":                  pool("rpm: 1, token_weights: {input: 0, cached_input: 0, output: 0, reasoning: 0, audio: 0}"),
		"a header that is not ours to set":     pool("rpm: 1, headers: {authorization: x}"),
		"a queue of 0":                         pool("rpm: 1, max_queue: 0"),
		"a name with a space":                  pool("rpm: 1, upstream: \"o o\""),
		"a share without a group":              tier("tenant_weight: 2"),
		"a share where group is false":         tier("tenant_weight: 2, group: false"),
		"a weight of 0":                        tier("weight: 0"),
		"a number in quotes":                   tier("rpm: \"60\""),
		"a number with decimals":               tier("rpm: 1.5"),
		"a wait without a unit":                tier("max_wait: 5"),
		"a negative wait":                      tier("max_wait: -5s"),
		"a priority":                           tier("priority: high"),
		"teams of a tier":                      tier("teams: {s: {keys: [\"" + key1 + "\"]}}"),
		"teams that are none":                  member("teams: {}"),
		"a team without keys":                  member("teams: {s: {rpm: 1}}"),
		"a team of a team without keys":        member("teams: {s: {teams: {r: {}}}}"),
		"a team with a slash":                  member("teams: {s/r: {keys: [\"" + key2 + "\"]}}"),
		"a team that weighs as a member":       member("teams: {s: {tenant_weight: 1, keys: [\"" + key2 + "\"]}}"),
		"a key that only tenants have":         tier("models: [gpt-4o]"),
		"no value":                             tier("rpm: "),
		"a budget without a period":            tier("budgets: [{tokens: 5}]"),
		"a budget without an amount":           tier("budgets: [{per: day}]"),
		"a budget of two amounts":              tier("budgets: [{tokens: 5, requests: 5, per: day}]"),
		"a budget per year":                    tier("budgets: [{tokens: 5, per: year}]"),
		"a budget that does what":              tier("budgets: [{tokens: 5, per: day, then: queue}]"),
		"service tiers that are none":          tier("service_tiers: []"),
		"service tiers without a list":         tier("service_tiers: {else: lower}"),
		"service tiers that are raised":        tier("service_tiers: {only: [flex], else: raise}"),
		"a budget of 0":                        tier("budgets: [{tokens: 0, per: day}]"),
		"the same budget twice":                tier("budgets: [{tokens: 5, per: day}, {tokens: 5, per: day}]"),
		"a limit without a time":               tier("limits: [{tokens: 5}]"),
		"a limit without an amount":            tier("limits: [{per: 5h}]"),
		"a limit of two amounts":               tier("limits: [{tokens: 5, requests: 5, per: 5h}]"),
		"a limit of dollars":                   tier("limits: [{usd: 5, per: 5h}]"),
		"a shape of limits":                    tier("limits: [{tokens: 5, per: 5h, shape: leaky}]"),
		"a burst of a window":                  tier("limits: [{tokens: 5, per: 5h, burst: 5}]"),
		"a burst of a fixed window":            tier("limits: [{tokens: 5, per: 5h, shape: fixed_window, burst: 5}]"),
		"five limits":                          tier("limits: [{tokens: 1, per: 1h}, {tokens: 1, per: 2h}, {tokens: 1, per: 3h}, {tokens: 1, per: 4h}, {tokens: 1, per: 5h}]"),
		"an unknown route":                     tier("routes: [inference, file]"),
		"a route twice":                        member("routes: [files, files]"),
		"no routes":                            member("routes: []"),
		"a key without a hash":                 {"tenants/a.yaml": "tenants: {a: {keys: [{name: ci}]}}\n"},
		"a key with an end that is no date":    {"tenants/a.yaml": "tenants: {a: {keys: [{hash: \"" + key1 + "\", expires: soon}]}}\n"},
		"a key named with a space":             {"tenants/a.yaml": "tenants: {a: {keys: [{hash: \"" + key1 + "\", name: \"a b\"}]}}\n"},
		"limits by pool of none":               member("pools: {}"),
		"no limit in a pool":                   tier("pools: {main: {}}"),
		"an unknown limit in a pool":           tier("pools: {main: {max_wait: 1s}}"),
		"a limit in a pool below 0":            member("pools: {main: {rpm: -1}}"),
		"a shadow that is a word":              member("shadow: dry"),
		"a shadow of a file that is a text":    {"tenants/a.yaml": "shadow: \"true\"\n" + goodPolicy},
		"a group that is a tenant":             member("group: true"),
		"models of none":                       member("models: []"),
		"a key of another form":                {"tenants/a.yaml": "tenants: {a: {keys: [sk-1]}}\n"},
		"no keys":                              {"tenants/a.yaml": "tenants: {a: {rpm: 1}}\n"},
		"a tenant with a slash":                {"tenants/a.yaml": "tenants: {a/b: {keys: [\"" + key1 + "\"]}}\n"},
		"an unknown key of a policy":           {"tenants/a.yaml": goodPolicy + "teams: {}\n"},
		"an alias that is a pattern":           {"llmgov.yaml": "upstreams: {o: {base_url: http://o}}\npools: {main: {models: [{\"f*\": gpt-4o}], rpm: 1}}\n"},
		"an alias of a pattern":                {"llmgov.yaml": "upstreams: {o: {base_url: http://o}}\npools: {main: {models: {fast: \"gpt-*\"}, rpm: 1}}\n"},
		"two aliases in one entry":             {"llmgov.yaml": "upstreams: {o: {base_url: http://o}}\npools: {main: {models: [{a: m, b: m}], rpm: 1}}\n"},
		"an alias of nothing":                  {"llmgov.yaml": "upstreams: {o: {base_url: http://o}}\npools: {main: {models: {fast: }, rpm: 1}}\n"},
		"an alias in a grant":                  {"tenants/a.yaml": "tenants: {a: {models: [{fast: gpt-4o}], keys: [\"" + key1 + "\"]}}\n"},
		"no upstreams":                         {"llmgov.yaml": "pools: {main: {models: [gpt-4o], rpm: 1}}\n"},
		"an upstream without an address":       {"llmgov.yaml": "upstreams: {o: {}}\npools: {main: {models: [gpt-4o], rpm: 1}}\n"},
		"no pools":                             {"llmgov.yaml": "upstreams: {o: {base_url: http://o}}\n"},
		"an empty mapping of pools":            {"llmgov.yaml": "upstreams: {o: {base_url: http://o}}\npools: {}\n"},
		"a price of one side":                  root("prices: {gpt-4o: {input: 1}}"),
		"a negative price":                     root("prices: {gpt-4o: {input: -1, output: 1}}"),
		"a store of an unknown kind":           root("store: etcd://r"),
		"the local zone":                       root("timezone: Local"),
		"an address without a port":            root("listen: localhost"),
		"a port that is none":                  root("listen: \":080\""),
		"a size of an unknown unit":            root("max_body: 5XB"),
		"a size that is too small":             root("max_body: 10"),
		"a switch that is a number":            root("h2c: 1"),
		"hardly any connections":               root("max_connections: 3"),
		"a short admin token":                  root("admin: {token: abc}"),
		"a short admission token":              root("admission: {token: abc}"),
		"an admission listener without a port": root("admission: {listen: localhost}"),
		"no open reservations":                 root("admission: {most_open: 0}"),
		"descriptors without names":            root("admission: {descriptors: tenant}"),
		"a tenant in a cookie":                 root("admission: {tenant: cookie team}"),
		"an unknown key of the body memory":    root("body_memory: {all: 1GiB}"),
		"a decision log of nothing":            root("decision_log: {max_size: 10}"),
		"an unknown key of the decision log":   root("decision_log: {file: x}"),
		"an unknown key of admin":              root("admin: {lisen: \":1\"}"),
		"a folder with a space at its end":     root("state_dir: \"x \""),
	} {
		if _, err := loadSections(sections); err == nil {
			t.Errorf("%s: the loader takes it", what)
		}
		if said, noJSON := refusals(t, schemas, sections); len(said) < 2 || noJSON { // by its own schema and by the common one
			t.Errorf("%s: the schemas say only %q", what, said)
		}
	}
}
