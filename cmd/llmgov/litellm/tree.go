package litellm

import (
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Weight says how much a note matters.
type Weight int

// The weights, the heaviest first.
const (
	Lost    Weight = iota // limits, models and keys that the new files do not have
	Differs               // something works in another way
	Harmless
)

// Note is something that has no counterpart, or another meaning.
type Note struct {
	Weight    Weight
	File      string
	Line, Col int
	// Path is where it stands: litellm_settings.cache.
	Path string
	What string
}

// tree is the config, and which of its values were understood.
type tree struct {
	taken map[*yaml.Node]bool
	files map[*yaml.Node]string // where nodes stand
	notes []Note
}

// node is one value of the config; the zero node is one that is not there.
type node struct {
	*tree
	val  *yaml.Node
	path string
	at   *yaml.Node // its key, or itself
}

func (n node) there() bool { return n.val != nil }

// content is the node itself, or the node that an alias stands for.
func content(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode && n.Alias != nil {
		n = n.Alias
	}
	return n
}

// pairs are the entries of a mapping with those of its merge keys; others are written later and lose.
func (n node) pairs() (list []node, keys []string) {
	if !n.there() || content(n.val).Kind != yaml.MappingNode {
		return nil, nil
	}
	m := content(n.val)
	var merged []*yaml.Node
	add := func(key, val *yaml.Node) {
		if key.Tag == "!!merge" {
			merged = append(merged, val)
			return
		}
		if slices.Contains(keys, key.Value) {
			return
		}
		path := strings.TrimPrefix(n.path+"."+key.Value, ".")
		list = append(list, node{n.tree, val, path, key})
		keys = append(keys, key.Value)
	}
	for i := 0; i+1 < len(m.Content); i += 2 {
		add(m.Content[i], m.Content[i+1])
	}
	for i := 0; i < len(merged) && i < 1000; i++ { // some merge themselves
		from := content(merged[i])
		if from.Kind == yaml.SequenceNode {
			merged = append(merged, from.Content...)
			continue
		}
		for j := 0; j+1 < len(from.Content); j += 2 {
			add(from.Content[j], from.Content[j+1])
		}
	}
	return list, keys
}

// get is the value of a key, which counts as understood.
func (n node) get(key string) node {
	list, keys := n.pairs()
	if i := slices.Index(keys, key); i >= 0 {
		n.taken[list[i].val] = true
		return list[i]
	}
	return node{tree: n.tree}
}

// items are the entries of a list.
func (n node) items() []node {
	if !n.there() || content(n.val).Kind != yaml.SequenceNode {
		return nil
	}
	var list []node
	for i, v := range content(n.val).Content {
		list = append(list, node{n.tree, v, n.path + "[" + strconv.Itoa(i) + "]", v})
	}
	return list
}

// text is a single value, "" when there is none.
func (n node) text() string {
	if !n.there() || content(n.val).Kind != yaml.ScalarNode || content(n.val).Tag == "!!null" {
		return ""
	}
	return content(n.val).Value
}

// amount is a whole number above 0; 0 when there is none.
func (n node) amount() int64 {
	if n.text() == "" {
		return 0
	}
	r, ok := new(big.Rat).SetString(strings.ReplaceAll(n.text(), "_", ""))
	if !ok || !r.IsInt() || !r.Num().IsInt64() || r.Sign() <= 0 {
		n.lost("is not a whole number above 0, and is left out")
		return 0
	}
	return r.Num().Int64()
}

// lost, differs and harmless put the value on the list.
func (n node) lost(format string, args ...any)     { n.note(Lost, format, args...) }
func (n node) differs(format string, args ...any)  { n.note(Differs, format, args...) }
func (n node) harmless(format string, args ...any) { n.note(Harmless, format, args...) }

func (n node) note(weight Weight, format string, args ...any) {
	note := Note{Weight: weight, Path: n.path, What: fmt.Sprintf(format, args...)}
	if n.at != nil {
		note.File = n.tree.files[n.at]
		note.Line = n.at.Line
		note.Col = n.at.Column
	}
	n.tree.notes = append(n.tree.notes, note)
}

// takeAll counts everything below as understood, because a part that is left out as a whole is one entry of the list.
func (n node) takeAll() { n.takeBelow(map[*yaml.Node]bool{}) }

func (n node) takeBelow(seen map[*yaml.Node]bool) {
	if !n.there() || seen[n.val] {
		return
	}
	seen[n.val] = true
	n.taken[n.val] = true
	list, _ := n.pairs()
	for _, p := range append(list, n.items()...) {
		p.takeBelow(seen)
	}
}

// rest puts the keys that nobody has taken on the list, at the highest place.
func (n node) rest() { n.restBelow(map[*yaml.Node]bool{}) }

func (n node) restBelow(seen map[*yaml.Node]bool) {
	if !n.there() || seen[content(n.val)] {
		return // an alias, maybe inside of its own node
	}
	seen[content(n.val)] = true
	list, _ := n.pairs()
	for _, p := range list {
		if n.taken[p.val] {
			p.restBelow(seen)
			continue
		}
		p.note(weightOfKey(p.path), "%s", why(p.path))
	}
	for _, it := range n.items() {
		it.restBelow(seen)
	}
}
