package strictyaml

import (
	"errors"
	"slices"

	"go.yaml.in/yaml/v3"
)

// preparer makes a parsed tree plain: it reports YAML that is not supported and expands ${…} in scalar values.
type preparer struct {
	r   *Report
	doc *Document
	// expand turns the text of a scalar into the value that it stands for; nil leaves texts as they are.
	expand func(text string) (string, error)
	spared []string // see File
}

// prepare visits n, the value of a key, or an entry of it, unless that is "", and everything below it. It never follows an alias, so a bomb of aliases is no larger than its text.
func (p *preparer) prepare(n *yaml.Node, key string) {
	at := p.doc.place(n)
	if n.Kind == yaml.AliasNode {
		p.r.Add(at, "alias *%s is not supported; write the value out", n.Value)
		return
	}
	if n.Anchor != "" {
		p.r.Add(at, "anchor &%s is not supported; write the value out where it is needed", n.Anchor)
	}
	if n.Style&yaml.TaggedStyle != 0 {
		p.r.Add(at, "tag %s is not supported; remove it", n.Tag)
	}
	switch n.Kind {
	case yaml.ScalarNode:
		p.expandNode(n, key)
	case yaml.SequenceNode:
		for _, c := range n.Content {
			p.prepare(c, key)
		}
	case yaml.MappingNode:
		p.prepareMapping(n)
	}
}

// prepareMapping leaves in n only pairs with a usable key, each key once.
func (p *preparer) prepareMapping(n *yaml.Node) {
	seen := make(map[string]*yaml.Node, len(n.Content)/2)
	kept := n.Content[:0]
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		val := n.Content[i+1]
		p.prepare(val, key.Value)
		if !p.checkKey(key) {
			continue
		}
		if first, dup := seen[key.Value]; dup {
			p.r.Add(p.doc.place(key), "duplicate key %s; it is first written at %s, remove one",
				Show(key.Value), p.doc.place(first))
			continue
		}
		seen[key.Value] = key
		kept = append(kept, key, val)
	}
	n.Content = kept
}

func (p *preparer) checkKey(key *yaml.Node) bool {
	at := p.doc.place(key)
	switch {
	case key.Kind == yaml.AliasNode:
		p.r.Add(at, "alias *%s is not supported; write the key out", key.Value)
	case key.Kind != yaml.ScalarNode:
		p.r.Add(at, "a %s is written where a key belongs; write a name", kindName(key))
	case key.Tag == "!!merge":
		p.r.Add(at, "merge key << is not supported; write the keys out")
	case key.Anchor != "":
		p.r.Add(at, "anchor &%s is not supported; write the key without it", key.Anchor)
	case key.Style&yaml.TaggedStyle != 0:
		p.r.Add(at, "tag %s is not supported; remove it", key.Tag)
	case key.Tag == "!!null" || key.Value == "":
		p.r.Add(at, "key is empty; write a name before the colon")
	default:
		return true
	}
	return false
}

// expandNode expands a scalar, the value of a key unless that is "".
func (p *preparer) expandNode(n *yaml.Node, key string) {
	if p.expand == nil {
		return
	}
	text, err := p.expand(n.Value)
	if err != nil {
		_, unset := errors.AsType[unsetError](err)
		if !unset || !slices.Contains(p.spared, key) {
			p.r.Add(p.doc.place(n), "%v", err)
		}
		p.doc.broken[n] = true
		return
	}
	if text == n.Value {
		return
	}
	p.doc.typed[n] = n.Value
	n.Value = text
}
