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

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/llmgov/llmgov/internal/testkit"
	"github.com/llmgov/llmgov/presets"
)

// inexpressible are the cases of testdata/bad that a JSON Schema cannot refuse, and why.
var inexpressible = func() map[string]string {
	why := map[string]string{}
	for reason, cases := range map[string]string{
		"names lead to other places and files": "alias_circle pool_default tenant_models tenant_tier tenant_no_tiers tenant_twice " +
			"alias_taken upstream_model_unknown tenant_upstreams pools_unknown pools_unreached upstream_unknown upstream_choice upstreams_unknown price_twice group_weight policy_none policy_glob_config",
		"whether patterns overlap is for the loader": "pool_ambiguous price_ambiguous",
		"prices of all models are looked up":         "budget_usd_many budget_usd_narrow budget_usd_prices teams_budget_usd alias_price",
		"floors are added up over tenants":           "floor_alone floor_inert floor_sum floor_sum_tier teams_floor teams_floor_tier teams_floor_sum",
		"what holds slots back is in the pools":      "priority_inert",
		"upstreams of a pool are compared by name":   "upstreams_twice",
		"keys are compared by hash and by name":      "key_name_twice key_same_mapping teams_same_key",
		"a team is compared with its parent":         "teams_inert teams_routes",
		"two settings are compared":                  "concurrency_of_one engine_key listen_same listen_admin_open body_memory expect_nodes_alone",
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
