package litellm

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

// maxIncluded bounds how many files a config may include.
const maxIncluded = 100

// include takes in the files that the config includes, as LiteLLM does: lists are put together, and all other keys of an
// included file replace those that were there. Like LiteLLM, it does not follow the includes of included files.
func (n node) include(read func(name string) ([]byte, error)) error {
	list := n.get("include")
	for i, it := range list.items() {
		n.taken[it.val] = true
		if i == maxIncluded {
			it.lost("is more than %d files, so the rest is left out", maxIncluded)
			return nil
		}
		data, err := read(it.text())
		if err != nil {
			return fmt.Errorf("%s:%d:%d: cannot read the included file %s: %w", n.files[it.at], it.at.Line, it.at.Column, it.text(), err)
		}
		var doc yaml.Node
		if err := yaml.Unmarshal(data, &doc); err != nil {
			return fmt.Errorf("%s: %w", it.text(), err)
		}
		if doc.Kind != yaml.DocumentNode || content(doc.Content[0]).Kind != yaml.MappingNode {
			return fmt.Errorf("%s: holds no mapping, and is included at %s:%d:%d", it.text(), n.files[it.at], it.at.Line, it.at.Column)
		}
		n.stand(doc.Content[0], it.text())
		put(content(n.val), content(doc.Content[0]))
	}
	return nil
}

// put adds the entries of another mapping to m, as include describes.
func put(m, other *yaml.Node) {
	for i := 0; i+1 < len(other.Content); i += 2 {
		key := other.Content[i]
		val := other.Content[i+1]
		at := -1
		for j := 0; j+1 < len(m.Content); j += 2 {
			if m.Content[j].Value == key.Value {
				at = j
			}
		}
		switch {
		case at < 0:
			m.Content = append(m.Content, key, val)
		case content(val).Kind == yaml.SequenceNode && content(m.Content[at+1]).Kind == yaml.SequenceNode:
			there := content(m.Content[at+1])
			there.Content = append(there.Content, content(val).Content...)
		default:
			m.Content[at] = key
			m.Content[at+1] = val
		}
	}
}

// stand notes the file of a node and of all nodes below it.
func (t *tree) stand(n *yaml.Node, file string) {
	if _, seen := t.files[n]; seen {
		return
	}
	t.files[n] = file
	for _, below := range n.Content {
		t.stand(below, file)
	}
}
