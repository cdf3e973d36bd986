package tenants

import (
	"encoding/json"
	"fmt"

	"github.com/llmgov/llmgov/internal/lib/strictyaml"
)

const dialect = "https://json-schema.org/draft/2020-12/schema"

// Schema is the JSON Schema of a kind of file, for editors: "config", "policy", or "" for one that takes both. It is
// made from the tables that the loader reads files by.
func Schema(kind string) ([]byte, error) {
	var root schema
	switch kind {
	case "config":
		root = configSchema()
	case "policy":
		root = policySchema()
	case "":
		root = schema{
			"title": "llmgov: config or policy file",
			"if":    schema{"anyOf": []any{schema{"required": []any{"tiers"}}, schema{"required": []any{"tenants"}}}},
			"then":  policySchema(),
			"else":  configSchema(),
		}
	default:
		return nil, fmt.Errorf("there is no schema of %q; known are config, policy", kind)
	}
	root["$schema"] = dialect
	defs := schema{"variable": schema{
		"description": "${NAME} or ${NAME:-default}: taken from the environment.",
		"type":        "string",
		"pattern":     `\$\{[A-Za-z_][A-Za-z0-9_]*(:-[^}]*)?\}`,
	}}
	if kind != "config" {
		defs["team"] = strictyaml.WithoutVariables(teamShape.Schema(nil))
	}
	if kind == "policy" {
		delete(defs, "variable")
	}
	root["$defs"] = defs
	return json.MarshalIndent(root, "", "  ")
}

func configSchema() schema {
	s := configShape.Schema(&configFile{})
	s["title"] = "llmgov: config file"
	s["required"] = []any{"upstreams", "pools"}
	return s
}

func policySchema() schema {
	s := strictyaml.WithoutVariables(policyShape.Schema(nil)).(schema)
	s["title"] = "llmgov: policy file"
	return s
}
