package strictyaml

import (
	"maps"
	"slices"
	"strings"
)

// Field is one key of a mapping: how it is read into a T, and its part of the schema.
type Field[T any] struct {
	Name string
	// About describes the key to the authors of files.
	About string
	// Kind is the schema of its value; nil for a key that is known only to be refused.
	Kind Kind
	Read func(v Value, into *T)
	// Need says what to write if the key is missing, which is a problem then; "" for a key that may be left out.
	Need string
	// Start is the value if the key is not written, as a file would say it; nil if there is none.
	Start func(from *T) any
	// Check is the complaint about a value that was made in code; nil if there is nothing to check. A zero is a value that is left out.
	Check func(from *T) string
}

// Check reports values, made in code, that are out of the bounds of their fields.
func (s Shape[T]) Check(r *Report, path string, from *T) {
	for _, f := range s.Fields {
		if f.Check == nil {
			continue
		}
		if complaint := f.Check(from); complaint != "" {
			r.At(Child(path, f.Name), "%s", complaint)
		}
	}
}

// outside complains about a value that is out of its bounds.
func outside(n, least, most int64, spell func(int64) string) string {
	if n == 0 || n >= least && n <= most {
		return ""
	}
	return spell(n) + " is out of range; use " + spell(least) + " to " + spell(most)
}

// Shape is a kind of mapping: the keys that it may have.
type Shape[T any] struct {
	Fields []Field[T]
	// Short is the key that says enough alone: its value may be written in place of the mapping. "" is none.
	Short string
	// Also is the schema's part about the mapping as a whole.
	Also Schema
}

// Read reads v, a mapping or the value of Short, into into. It reports keys that have no field, and those that are needed and missing,
// and answers the mapping's content, and whether it is a mapping of which all keys have a field.
func (s Shape[T]) Read(v Value, into *T) (list []Pair, known bool) {
	if s.isShort(v) {
		s.Fields[s.index(s.Short)].Read(v, into)
		return nil, false
	}
	list, known = v.Pairs()
	if known = s.ReadPairs(list, into) && known; !known {
		return list, false // the key that is unknown may be the one that is missing
	}
	for _, f := range s.Fields {
		if f.Need != "" && !Has(list, f.Name) {
			v.Problem("has no %s; %s", f.Name, f.Need)
		}
	}
	return list, true
}

// isShort reports whether v is the value of Short, and neither a mapping nor one that lacks a space.
func (s Shape[T]) isShort(v Value) bool {
	joined := keyValue.FindStringSubmatch(v.node.Value)
	return s.Short != "" && !v.IsMapping() && !v.isNull() && (joined == nil || s.index(joined[1]) < 0)
}

// ReadPairs reads a mapping that was taken apart. It answers whether all keys have a field.
func (s Shape[T]) ReadPairs(list []Pair, into *T) (known bool) {
	known = true
	for _, p := range list {
		i := s.index(p.Key)
		switch {
		case i < 0:
			known = false
			p.unknown(s.names())
		case p.IsList() && s.index(p.Key+"s") >= 0:
			p.Problem("is a list; write it as %ss, or a single value", p.Key)
		default:
			s.Fields[i].Read(p.Value, into)
		}
	}
	return known
}

// index is the place of a key in Fields, or -1.
func (s Shape[T]) index(key string) int {
	return slices.IndexFunc(s.Fields, func(f Field[T]) bool { return f.Name == key })
}

func (s Shape[T]) names() []string {
	names := make([]string, len(s.Fields))
	for i, f := range s.Fields {
		names[i] = f.Name
	}
	return names
}

// unknown reports a key that has no field. YAML takes name:value for one text; the value may be a secret.
func (p Pair) unknown(fields []string) {
	if name, _, joined := strings.Cut(p.Key, ":"); joined && p.isNull() {
		p.Report.Add(p.At, spaceMissing, Show(name+":"))
		return
	}
	p.Report.Add(p.At, "unknown key %s; %s", Show(p.Key), Advise(p.Key, fields))
}

// Has reports whether a key was written.
func Has(list []Pair, key string) bool {
	return slices.ContainsFunc(list, func(p Pair) bool { return p.Key == key })
}

// Schema is a mapping with the shape's keys and no other, or the value of Short. start holds the defaults; nil leaves them out.
func (s Shape[T]) Schema(start *T) Schema {
	properties := Schema{}
	var needed []any
	for _, f := range s.Fields {
		if f.Kind != nil {
			properties[f.Name] = f.schema(start)
		}
		if f.Need != "" {
			needed = append(needed, f.Name)
		}
	}
	out := Schema{"type": "object", "properties": properties, "additionalProperties": false}
	if needed != nil {
		out["required"] = needed
	}
	maps.Copy(out, s.Also)
	if s.Short == "" {
		return out
	}
	short := s.Fields[s.index(s.Short)].Kind()
	if forms, several := short["anyOf"].([]any); several {
		return Schema{"anyOf": append(forms, out)}
	}
	return Schema{"anyOf": []any{short, out}}
}

func (f Field[T]) schema(start *T) Schema {
	out := f.Kind()
	of, _ := out["description"].(string) // of all values of its kind
	if about := strings.TrimSpace(f.About + " " + of); about != "" {
		out["description"] = about
	}
	if f.Start != nil && start != nil {
		if val := f.Start(start); val != nil {
			out["default"] = val
		}
	}
	return out
}
