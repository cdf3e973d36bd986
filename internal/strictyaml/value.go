package strictyaml

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// report collects what is wrong with one file.
type report struct {
	file     string
	expand   func(string) (string, error)
	problems Problems
}

func (r *report) add(n *yaml.Node, format string, args ...any) {
	r.problems = append(r.problems, Problem{r.file, n.Line, n.Column, fmt.Sprintf(format, args...)})
}

// Value is one node of the file and the path that leads to it. Its readers
// report what is wrong with it and then answer something valid, so that one
// mistake is not reported again by a later check.
type Value struct {
	r    *report
	Node *yaml.Node
	path string
}

// Problem reports something about the value, after its path.
func (v Value) Problem(format string, args ...any) {
	what := fmt.Sprintf(format, args...)
	if v.path != "" {
		what = v.path + ": " + what
	}
	v.r.add(v.Node, "%s", what)
}

func (v Value) child(key string, n *yaml.Node) Value {
	if v.path == "" {
		return Value{v.r, n, key}
	}
	return Value{v.r, n, v.path + "." + key}
}

func kindName(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	default:
		if n.Tag == "!!null" {
			return "empty"
		}
		return Show(n.Value)
	}
}

// Fields reads a mapping, key by key, and returns the values of the keys that
// were there. A key without a reader is a problem, and so is one twice.
func (v Value) Fields(readers map[string]func(Value)) map[string]Value {
	there := map[string]Value{}
	if v.Node.Kind != yaml.MappingNode {
		v.Problem("is %s; write a mapping (key: value)", kindName(v.Node))
		return there
	}
	for i := 0; i+1 < len(v.Node.Content); i += 2 {
		key := v.Node.Content[i]
		val := v.child(v.Node.Content[i].Value, v.Node.Content[i+1])
		read, known := readers[key.Value]
		_, again := there[key.Value]
		switch {
		case key.Kind != yaml.ScalarNode:
			v.r.add(key, "%s is used as a key; write a plain word", kindName(key))
			continue
		case !known:
			v.r.add(key, "unknown key %s; %s", Show(key.Value), Advise(key.Value, slices.Collect(maps.Keys(readers))))
			continue
		case again:
			v.r.add(key, "%s is there twice; remove one", val.path)
			continue
		}
		there[key.Value] = val
		read(val)
	}
	return there
}

// Each reads every entry of a list.
func (v Value) Each(read func(Value)) {
	if v.Node.Kind != yaml.SequenceNode {
		v.Problem("is %s; write a list ([a, b])", kindName(v.Node))
		return
	}
	for i, n := range v.Node.Content {
		read(Value{v.r, n, v.path + "[" + strconv.Itoa(i) + "]"})
	}
}

// Scalar is the text of a single value.
func (v Value) Scalar() (string, bool) {
	if v.Node.Kind != yaml.ScalarNode || v.Node.Tag == "!!null" {
		v.Problem("is %s; write a single value", kindName(v.Node))
		return "", false
	}
	if v.r.expand == nil {
		return v.Node.Value, true
	}
	text, err := v.r.expand(v.Node.Value)
	if err != nil {
		v.Problem("%v", err)
		return "", false
	}
	return text, true
}

// OneOf reads a word of a fixed set.
func OneOf[T any](v Value, into *T, words map[string]T) {
	text, ok := v.Scalar()
	if !ok {
		return
	}
	known, ok := words[text]
	if !ok {
		v.Problem("%s is none of the known words; %s", Show(text), Advise(text, slices.Collect(maps.Keys(words))))
		return
	}
	*into = known
}

func (v Value) Whole(into *int64, least, most int64) {
	text, ok := v.Scalar()
	if !ok {
		return
	}
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil:
		v.Problem("%s is not a plain whole number; write digits, such as 600000", Show(text))
	case n < least || n > most:
		v.Problem("%d is out of range; write %d to %d", n, least, most)
	default:
		*into = n
	}
}

func (v Value) Number(into *float64, least, most float64) {
	text, ok := v.Scalar()
	if !ok {
		return
	}
	n, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil || n != n || strings.ContainsAny(text, "xXpP_"):
		v.Problem("%s is not a number; write one, such as 0.8", Show(text))
	case n < least || n > most:
		v.Problem("%s is out of range; write %g to %g", text, least, most)
	default:
		*into = n
	}
}

func (v Value) Duration(into *time.Duration, least, most time.Duration) {
	if text, ok := v.Scalar(); ok {
		if d, ok := v.ParseDuration(text, least, most); ok {
			*into = d
		}
	}
}

func (v Value) ParseDuration(text string, least, most time.Duration) (time.Duration, bool) {
	d, err := time.ParseDuration(text)
	if err != nil {
		if _, bare := strconv.ParseFloat(text, 64); bare == nil {
			v.Problem("%s has no unit; write %ss or %sms", text, text, text)
		} else {
			v.Problem("%s is not a duration; write a number and a unit, such as 500ms, 5s or 2m", Show(text))
		}
		return 0, false
	}
	if d < least || d > most {
		v.Problem("%s is out of range; write %v to %v", text, least, most)
		return 0, false
	}
	return d, true
}
