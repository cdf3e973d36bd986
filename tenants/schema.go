package tenants

import (
	"encoding/json"
	"fmt"
)

// schema is a JSON Schema, draft 2020-12.
type schema map[string]any

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
		defs["team"] = withoutVariables(teamShape.schema(nil))
	}
	if kind == "policy" {
		delete(defs, "variable")
	}
	root["$defs"] = defs
	return json.MarshalIndent(root, "", "  ")
}

func configSchema() schema {
	s := configShape.schema(&configFile{})
	s["title"] = "llmgov: config file"
	s["required"] = []any{"upstreams", "pools"}
	return s
}

func policySchema() schema {
	s := withoutVariables(policyShape.schema(nil)).(schema)
	s["title"] = "llmgov: policy file"
	return s
}

// schema is a mapping with the shape's keys and no other. start holds the defaults; nil leaves them out.
func (s shape[T]) schema(start *T) schema {
	properties := schema{}
	for _, f := range s.fields {
		if f.kind != nil {
			properties[f.name] = f.schema(start)
		}
	}
	out := schema{"type": "object", "properties": properties, "additionalProperties": false}
	for key, val := range s.also {
		out[key] = val
	}
	return out
}

func (f field[T]) schema(start *T) schema {
	out := f.kind()
	if f.about != "" {
		out["description"] = f.about
	}
	if f.start != nil && start != nil {
		out["default"] = f.start(start)
	}
	return out
}

// withoutVariables is s without the forms in which ${…} stands for a value: only the config file may have variables.
// The kinds of values are the same in both files.
func withoutVariables(s any) any {
	switch s := s.(type) {
	case schema:
		out := schema{}
		for key, val := range s {
			out[key] = withoutVariables(val)
		}
		return unwrapped(out)
	case []any:
		var list []any
		for _, one := range s {
			if ref, ok := one.(schema); ok && ref["$ref"] == variableRef {
				continue
			}
			list = append(list, withoutVariables(one))
		}
		return list
	}
	return s
}

// unwrapped puts the only form that is left of anyOf in its place.
func unwrapped(s schema) schema {
	forms, ok := s["anyOf"].([]any)
	if !ok || len(forms) != 1 {
		return s
	}
	delete(s, "anyOf")
	for key, val := range forms[0].(schema) {
		s[key] = val
	}
	return s
}
