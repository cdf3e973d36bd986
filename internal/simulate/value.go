package simulate

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
	problems Problems
}

func (r *report) add(n *yaml.Node, format string, args ...any) {
	r.problems = append(r.problems, Problem{r.file, n.Line, n.Column, fmt.Sprintf(format, args...)})
}

// value is one node of the file and the path that leads to it. Its readers
// report what is wrong with it and then answer something valid, so that one
// mistake is not reported again by a later check.
type value struct {
	r    *report
	node *yaml.Node
	path string
}

// problem reports something about the value, after its path.
func (v value) problem(format string, args ...any) {
	v.r.add(v.node, "%s: %s", v.path, fmt.Sprintf(format, args...))
}

func (v value) child(key string, n *yaml.Node) value {
	if v.path == "" {
		return value{v.r, n, key}
	}
	return value{v.r, n, v.path + "." + key}
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
		return show(n.Value)
	}
}

// fields reads a mapping, key by key, and returns the values of the keys that
// were there. A key without a reader is a problem, and so is one twice.
func (v value) fields(readers map[string]func(value)) map[string]value {
	there := map[string]value{}
	if v.node.Kind != yaml.MappingNode {
		v.problem("is %s; write a mapping (key: value)", kindName(v.node))
		return there
	}
	for i := 0; i+1 < len(v.node.Content); i += 2 {
		key, val := v.node.Content[i], v.child(v.node.Content[i].Value, v.node.Content[i+1])
		read, known := readers[key.Value]
		_, again := there[key.Value]
		switch {
		case key.Kind != yaml.ScalarNode:
			v.r.add(key, "%s is used as a key; write a plain word", kindName(key))
			continue
		case !known:
			v.r.add(key, "unknown key %s; %s", show(key.Value), advise(key.Value, slices.Collect(maps.Keys(readers))))
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

// each reads every entry of a list.
func (v value) each(read func(value)) {
	if v.node.Kind != yaml.SequenceNode {
		v.problem("is %s; write a list ([a, b])", kindName(v.node))
		return
	}
	for i, n := range v.node.Content {
		read(value{v.r, n, v.path + "[" + strconv.Itoa(i) + "]"})
	}
}

// scalar is the text of a single value.
func (v value) scalar() (string, bool) {
	if v.node.Kind != yaml.ScalarNode || v.node.Tag == "!!null" {
		v.problem("is %s; write a single value", kindName(v.node))
		return "", false
	}
	return v.node.Value, true
}

// oneOf reads a word of a fixed set.
func oneOf[T any](v value, into *T, words map[string]T) {
	text, ok := v.scalar()
	if !ok {
		return
	}
	known, ok := words[text]
	if !ok {
		v.problem("%s is none of the known words; %s", show(text), advise(text, slices.Collect(maps.Keys(words))))
		return
	}
	*into = known
}

func (v value) whole(into *int64, least, most int64) {
	text, ok := v.scalar()
	if !ok {
		return
	}
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil:
		v.problem("%s is not a plain whole number; write digits, such as 600000", show(text))
	case n < least || n > most:
		v.problem("%d is out of range; write %d to %d", n, least, most)
	default:
		*into = n
	}
}

func (v value) number(into *float64, least, most float64) {
	text, ok := v.scalar()
	if !ok {
		return
	}
	n, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil || n != n || strings.ContainsAny(text, "xXpP_"):
		v.problem("%s is not a number; write one, such as 0.8", show(text))
	case n < least || n > most:
		v.problem("%s is out of range; write %g to %g", text, least, most)
	default:
		*into = n
	}
}

func (v value) duration(into *time.Duration, least, most time.Duration) {
	if text, ok := v.scalar(); ok {
		if d, ok := v.parseDuration(text, least, most); ok {
			*into = d
		}
	}
}

func (v value) parseDuration(text string, least, most time.Duration) (time.Duration, bool) {
	d, err := time.ParseDuration(text)
	if err != nil {
		if _, bare := strconv.ParseFloat(text, 64); bare == nil {
			v.problem("%s has no unit; write %ss or %sms", text, text, text)
		} else {
			v.problem("%s is not a duration; write a number and a unit, such as 500ms, 5s or 2m", show(text))
		}
		return 0, false
	}
	if d < least || d > most {
		v.problem("%s is out of range; write %v to %v", text, least, most)
		return 0, false
	}
	return d, true
}

// span reads one time, or two with ".." between them.
func (v value) span(into *Span, least, most time.Duration) {
	text, ok := v.scalar()
	if !ok {
		return
	}
	from, to, ranged := strings.Cut(text, "..")
	a, ok := v.parseDuration(from, least, most)
	if !ok {
		return
	}
	b := a
	if ranged {
		if b, ok = v.parseDuration(to, least, most); !ok {
			return
		}
	}
	if b < a {
		v.problem("%s ends before it begins; write the earlier time first", show(text))
		return
	}
	*into = Span{a, b}
}
