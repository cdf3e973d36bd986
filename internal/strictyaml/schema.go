package strictyaml

// Schema is a JSON Schema, draft 2020-12.
type Schema map[string]any

// Schema is a mapping with the shape's keys and no other. start holds the defaults; nil leaves them out.
func (s Shape[T]) Schema(start *T) Schema {
	properties := Schema{}
	for _, f := range s.Fields {
		if f.Kind != nil {
			properties[f.Name] = f.schema(start)
		}
	}
	out := Schema{"type": "object", "properties": properties, "additionalProperties": false}
	for key, val := range s.Also {
		out[key] = val
	}
	return out
}

func (f Field[T]) schema(start *T) Schema {
	out := f.Kind()
	if f.About != "" {
		out["description"] = f.About
	}
	if f.Start != nil && start != nil {
		out["default"] = f.Start(start)
	}
	return out
}

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
