package strictyaml

import (
	"regexp"

	"go.yaml.in/yaml/v3"
)

// Value is one node of a file together with the path that leads to it. Its readers report a mistake
// and then answer something valid, so that one mistake is not reported again by a later check.
type Value struct {
	Report *Report
	doc    *Document
	node   *yaml.Node
	Path   string
}

// Pair is one key of a mapping and its value.
type Pair struct {
	Key string
	// At is where the key is written.
	At Place
	Value
}

// Root is the mapping a file consists of.
func Root(r *Report, doc *Document) Value {
	return Value{Report: r, doc: doc, node: doc.root}
}

// There reports whether the value is of a file. The zero Value, of a key that is not written, is not.
func (v Value) There() bool { return v.node != nil }

// IsMapping reports whether the value is a mapping.
func (v Value) IsMapping() bool { return v.There() && v.node.Kind == yaml.MappingNode }

// IsList reports whether the value is a list.
func (v Value) IsList() bool { return v.There() && v.node.Kind == yaml.SequenceNode }

// IsScalar reports whether the value is a single one.
func (v Value) IsScalar() bool { return v.There() && v.node.Kind == yaml.ScalarNode }

// Empty reports whether the value holds no entries.
func (v Value) Empty() bool { return len(v.node.Content) == 0 }

// Raw is the text of a single value, whatever it is. It is "" of a mapping or list.
func (v Value) Raw() string { return v.node.Value }

// Problem reports something about the value, starting with its path.
func (v Value) Problem(format string, args ...any) {
	v.Report.Refused[v.Path] = true
	v.Report.At(v.Path, format, args...)
}

// Skip reports whether the value is one that a problem was already reported for.
func (v Value) Skip() bool {
	bad := v.node.Kind == yaml.AliasNode || v.doc.broken[v.node]
	if bad {
		v.Report.Refused[v.Path] = true
	}
	return bad
}

// isNull reports a key with nothing behind it. An expansion to nothing is an empty text, not null.
func (v Value) isNull() bool {
	_, expanded := v.doc.typed[v.node]
	return v.node.Kind == yaml.ScalarNode && v.node.Tag == "!!null" && !expanded
}

// Pairs is the content of a mapping, in the order written. ok is false when the value is none.
func (v Value) Pairs() (list []Pair, ok bool) {
	switch {
	case v.Skip():
		return nil, false
	case v.isNull():
		v.Problem("has no value; write at least {}, or remove the key")
		return nil, false
	case v.node.Kind != yaml.MappingNode:
		if m := keyValue.FindStringSubmatch(v.node.Value); m != nil {
			v.Problem(spaceMissing, Show(m[1]+":"))
			return nil, false
		}
		v.Problem("is a %s; write a mapping %s", kindName(v.node), v.mappingOf())
		return nil, false
	}
	list = make([]Pair, 0, len(v.node.Content)/2)
	for i := 0; i+1 < len(v.node.Content); i += 2 {
		list = append(list, v.pair(v.node.Content[i], v.node.Content[i+1]))
	}
	return list, true
}

// mappingOf is the form of the mapping that is written as something else: by name, if it is a list whose entries have names.
func (v Value) mappingOf() string {
	if v.IsList() && !v.Empty() && v.node.Content[0].Kind == yaml.MappingNode {
		for i, key := range v.node.Content[0].Content {
			if i%2 == 0 && key.Value == "name" {
				return "by name (name: {key: value})"
			}
		}
	}
	return "(key: value)"
}

func (v Value) pair(key, val *yaml.Node) Pair {
	p := Pair{key.Value, v.doc.place(key), Value{v.Report, v.doc, val, Child(v.Path, key.Value)}}
	at := p.At
	if val.Kind == yaml.ScalarNode && !p.isNull() {
		at = v.doc.place(val)
	}
	v.Report.found(p.Path, at, v.doc.typed, val)
	return p
}

// Items is the content of a list. ok is false when the value is none.
func (v Value) Items() (list []Value, ok bool) {
	switch {
	case v.Skip():
		return nil, false
	case v.isNull():
		v.Problem("has no value; write a list, or remove the key")
		return nil, false
	case v.node.Kind != yaml.SequenceNode:
		v.Problem("is a %s; write a list ([a, b])", kindName(v.node))
		return nil, false
	}
	list = make([]Value, 0, len(v.node.Content))
	for i, n := range v.node.Content {
		it := Value{v.Report, v.doc, n, Item(v.Path, i)}
		v.Report.found(it.Path, v.doc.place(n), v.doc.typed, n)
		list = append(list, it)
	}
	return list, true
}

// Scalar is the text of a single value. ok is false when the value is none.
func (v Value) Scalar() (text string, ok bool) {
	switch {
	case v.Skip():
		return "", false
	case v.isNull():
		v.Problem("has no value; write one, or remove the key")
		return "", false
	case v.node.Kind != yaml.ScalarNode:
		v.Problem("is a %s; write a single value", kindName(v.node))
		return "", false
	}
	return v.node.Value, true
}

// Quoted reports whether the text was put between quotes by whoever wrote it. A ${…} must be quoted inside of {…},
// so an expanded value never counts.
func (v Value) Quoted() bool {
	_, expanded := v.doc.typed[v.node]
	return !expanded && v.node.Style&^yaml.TaggedStyle != 0
}

var startsNumber = regexp.MustCompile(`^[-+.]?[0-9][-+.,_%A-Za-z0-9]{0,40}$`)

// Say is text as a message shows it: as it was written, since a variable may hold a secret.
func (v Value) Say(text string) string {
	if typed, expanded := v.doc.typed[v.node]; expanded {
		return sayTyped(typed)
	}
	if !v.Quoted() && startsNumber.MatchString(text) {
		return text // as it stands in the file: quotes would read as part of it
	}
	return Show(text)
}

// Plainly is a complaint about text that repeats nothing of a variable: that of a missing unit quotes the number.
func (v Value) Plainly(text, complaint string) string {
	if _, expanded := v.doc.typed[v.node]; expanded && complaint == noUnit(text) {
		return noUnit("5")
	}
	return complaint
}

// keyValue matches a text that was meant as a key and its value.
var keyValue = regexp.MustCompile(`^([A-Za-z_]+):\S`)

const spaceMissing = "a space is missing after the colon of %s"
