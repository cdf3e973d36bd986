package tenants

import (
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// value is one node of a file together with the path that leads to it. Its readers (fields.go) report what is wrong
// with it and then answer something valid, so that one mistake is not reported again by a later check.
type value struct {
	r    *report
	doc  *document
	node *yaml.Node
	path string
}

// pair is one key of a mapping and its value.
type pair struct {
	key string
	// at is where the key is written.
	at place
	value
}

// field is one key of a mapping: how it is read into a T, and what the schema says of it.
type field[T any] struct {
	name string
	// about says what it is, to who writes it.
	about string
	// kind is what may stand there; nil for a key that is known only to be refused.
	kind kind
	read func(v value, into *T)
	// start is what it is when it is not written, as a file would say it; nil where there is no such thing.
	start func(from *T) any
}

// shape is what may stand in one kind of mapping.
type shape[T any] struct {
	fields []field[T]
	// also is what the schema says of the mapping as a whole.
	also schema
}

// rootOf is the mapping a file consists of.
func rootOf(r *report, doc *document) value {
	return value{r: r, doc: doc, node: doc.root}
}

// problem reports something about the value, starting with its path.
func (v value) problem(format string, args ...any) {
	v.r.refused[v.path] = true
	v.r.at(v.path, format, args...)
}

// skip reports whether the value is one that a problem was already reported for.
func (v value) skip() bool {
	bad := v.node.Kind == yaml.AliasNode || v.doc.broken[v.node]
	if bad {
		v.r.refused[v.path] = true
	}
	return bad
}

// isNull reports a key with nothing behind it. An expansion to nothing is an empty text, not null.
func (v value) isNull() bool {
	_, expanded := v.doc.typed[v.node]
	return v.node.Kind == yaml.ScalarNode && v.node.Tag == "!!null" && !expanded
}

// pairs is the content of a mapping, in the order written. ok is false when the value is none.
func (v value) pairs() (list []pair, ok bool) {
	switch {
	case v.skip():
		return nil, false
	case v.isNull():
		v.problem("has no value; write at least {}, or remove the key")
		return nil, false
	case v.node.Kind != yaml.MappingNode:
		if m := keyValue.FindStringSubmatch(v.node.Value); m != nil {
			v.problem(spaceMissing, show(m[1]+":"))
			return nil, false
		}
		v.problem("is a %s; write a mapping (key: value)", kindName(v.node))
		return nil, false
	}
	for i := 0; i+1 < len(v.node.Content); i += 2 {
		list = append(list, v.pair(v.node.Content[i], v.node.Content[i+1]))
	}
	return list, true
}

func (v value) pair(key, val *yaml.Node) pair {
	p := pair{key.Value, v.doc.place(key), value{v.r, v.doc, val, child(v.path, key.Value)}}
	at := p.at
	if val.Kind == yaml.ScalarNode && !p.isNull() {
		at = v.doc.place(val)
	}
	v.r.found(p.path, at, v.doc.typed, val)
	return p
}

// items is the content of a list. ok is false when the value is none.
func (v value) items() (list []value, ok bool) {
	switch {
	case v.skip():
		return nil, false
	case v.isNull():
		v.problem("has no value; write a list, or remove the key")
		return nil, false
	case v.node.Kind != yaml.SequenceNode:
		v.problem("is a %s; write a list ([a, b])", kindName(v.node))
		return nil, false
	}
	for i, n := range v.node.Content {
		it := value{v.r, v.doc, n, item(v.path, i)}
		v.r.found(it.path, v.doc.place(n), v.doc.typed, n)
		list = append(list, it)
	}
	return list, true
}

// scalar is the text of a single value. ok is false when the value is none.
func (v value) scalar() (text string, ok bool) {
	switch {
	case v.skip():
		return "", false
	case v.isNull():
		v.problem("has no value; write one, or remove the key")
		return "", false
	case v.node.Kind != yaml.ScalarNode:
		v.problem("is a %s; write a single value", kindName(v.node))
		return "", false
	}
	return v.node.Value, true
}

// quoted reports whether the text was put between quotes by whoever wrote it. A ${…} must be quoted inside of {…},
// so what was expanded never counts.
func (v value) quoted() bool {
	_, expanded := v.doc.typed[v.node]
	return !expanded && v.node.Style&^yaml.TaggedStyle != 0
}

var startsNumber = regexp.MustCompile(`^[-+.]?[0-9][-+.,_%A-Za-z0-9]{0,40}$`)

// say is text as a message shows it: as it was written, since a variable may hold a secret.
func (v value) say(text string) string {
	if typed, expanded := v.doc.typed[v.node]; expanded {
		return sayTyped(typed)
	}
	if !v.quoted() && startsNumber.MatchString(text) {
		return text // as it stands in the file: quotes would read as part of it
	}
	return show(text)
}

// plainly is a complaint about text that repeats nothing of a variable: that of a missing unit quotes the number.
func (v value) plainly(text, complaint string) string {
	if _, expanded := v.doc.typed[v.node]; expanded && complaint == noUnit(text) {
		return noUnit("5")
	}
	return complaint
}

// read walks the pairs of v into into and reports keys that have no field.
func read[T any](v value, s shape[T], into *T) {
	list, _ := v.pairs()
	readPairs(list, s, into)
}

// readPairs is read of a mapping that was taken apart. It answers whether all keys have a field.
func readPairs[T any](list []pair, s shape[T], into *T) (known bool) {
	known = true
	for _, p := range list {
		i := slices.IndexFunc(s.fields, func(f field[T]) bool { return f.name == p.key })
		switch {
		case i >= 0:
			s.fields[i].read(p.value, into)
		default:
			known = false
			p.unknown(s.names())
		}
	}
	return known
}

// unknown reports a key that has no field. YAML takes name:value for one text; the value may be a secret.
func (p pair) unknown(fields []string) {
	if name, _, joined := strings.Cut(p.key, ":"); joined && p.isNull() {
		p.r.add(p.at, spaceMissing, show(name+":"))
		return
	}
	p.r.add(p.at, "unknown key %s; %s", show(p.key), advise(p.key, fields))
}

const spaceMissing = "a space is missing after the colon of %s"

// keyValue matches a text that was meant as a key and its value.
var keyValue = regexp.MustCompile(`^([A-Za-z_]+):\S`)

// has reports whether a key was written.
func has(list []pair, key string) bool {
	return slices.ContainsFunc(list, func(p pair) bool { return p.key == key })
}

func (s shape[T]) names() []string {
	names := make([]string, len(s.fields))
	for i, f := range s.fields {
		names[i] = f.name
	}
	return names
}

// adviseWord names the word that was probably meant, or all that may stand there.
func adviseWord(word string, allowed []string) string {
	if near, ok := nearest(word, allowed); ok {
		return "did you mean " + show(near) + "?"
	}
	last := len(allowed) - 1
	return "use " + strings.Join(allowed[:last], ", ") + " or " + allowed[last]
}

// advise names the known word that was probably meant, or all of them.
func advise(word string, known []string) string {
	if near, ok := nearest(word, known); ok {
		return "did you mean " + show(near) + "?"
	}
	const most = 20
	if len(known) > most {
		return "there is nothing of a similar name"
	}
	if len(known) == 0 {
		return "none is defined"
	}
	return "known are " + strings.Join(slices.Sorted(slices.Values(known)), ", ")
}
