package tenants

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

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
		text, err := Schema(c.kind)
		if err != nil {
			t.Fatal(err)
		}
		var at any
		if err := json.Unmarshal(text, &at); err != nil {
			t.Fatal(err)
		}
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

// TestSchema_Describes: each key says what it is; those of token_weights are named by what they weigh.
func TestSchema_Describes(t *testing.T) {
	for _, kind := range []string{"config", "policy"} {
		text, _ := Schema(kind)
		var root map[string]any
		if err := json.Unmarshal(text, &root); err != nil {
			t.Fatal(err)
		}
		n := 0
		describes(root, "", func(path string, property map[string]any) {
			n++
			about, _ := property["description"].(string)
			if !strings.HasSuffix(about, ".") && !strings.Contains(path, "token_weights.") {
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
