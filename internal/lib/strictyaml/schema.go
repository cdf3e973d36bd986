package strictyaml

// Schema is a JSON Schema, draft 2020-12.
type Schema map[string]any

// WithoutVariables is s without the forms in which ${…} stands for a value: only the config file may have variables.
// The kinds of values are the same in both files.
func WithoutVariables(s any) any {
	switch s := s.(type) {
	case Schema:
		out := Schema{}
		for key, val := range s {
			out[key] = WithoutVariables(val)
		}
		return unwrapped(out)
	case []any:
		var list []any
		for _, one := range s {
			if ref, ok := one.(Schema); ok && ref["$ref"] == variableRef {
				continue
			}
			list = append(list, WithoutVariables(one))
		}
		return list
	}
	return s
}

// unwrapped puts the only form that is left of anyOf in its place.
func unwrapped(s Schema) Schema {
	forms, ok := s["anyOf"].([]any)
	if !ok || len(forms) != 1 {
		return s
	}
	delete(s, "anyOf")
	for key, val := range forms[0].(Schema) {
		s[key] = val
	}
	return s
}

// Kind is the JSON Schema of a key's value. It sees values as YAML makes them, so it takes all that the loader takes and
// cannot refuse all that the loader refuses, because it does not see how a number is spelled, or where a name leads.
type Kind func() Schema

const variableRef = "#/$defs/variable"
