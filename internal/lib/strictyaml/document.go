package strictyaml

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"
)

// MaxBytes is the largest file that is read at all.
const MaxBytes = 10 << 20

// File is a text to read.
type File struct {
	Name string // for messages
	Data []byte
	// Least is the least that an empty file should say, such as "tenants:".
	Least string
	// Expand, unless nil, turns each single value into the one that it stands for, ${VAR} say.
	Expand func(text string) (string, error)
	// Spared are keys whose values may lack the variables that they name: readers pass over them, as if they were not there.
	Spared []string
}

// Document is one parsed file: a tree of mappings, lists and scalars that holds no anchor, alias, merge key or tag.
type Document struct {
	Name string
	root *yaml.Node
	// typed holds the texts of scalars before ${…} was expanded in them.
	typed map[*yaml.Node]string
	// broken are the scalars in which that failed. The problem is reported, unless they are spared; readers pass over them.
	broken map[*yaml.Node]bool
}

// Parse reads the one document of a file. It returns nil after a problem that leaves nothing to read on with.
func Parse(r *Report, f File) *Document {
	name := f.Name
	data := f.Data
	start := Place{name, 1, 1}
	if len(data) > MaxBytes {
		r.Add(start, "file is %d bytes, more than the %d that are read; split it", len(data), MaxBytes)
		return nil
	}
	if !checkBytes(r, name, data) {
		return nil
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	first, err := decode(dec)
	if errors.Is(err, io.EOF) || (err == nil && isEmpty(first)) {
		r.Add(start, "file is empty; write at least %s", cmp.Or(f.Least, "one key"))
		return nil
	}
	if err != nil {
		syntaxProblem(r, name, data, err)
		return nil
	}
	root := first.Content[0]
	if second, err := decode(dec); err == nil {
		at := Place{name, max(second.Line, 1), max(second.Column, 1)}
		r.Add(at, "a second YAML document starts here; write one document a file")
		return nil
	} else if !errors.Is(err, io.EOF) {
		syntaxProblem(r, name, data, err)
		return nil
	}
	doc := &Document{Name: name, root: root, typed: map[*yaml.Node]string{}, broken: map[*yaml.Node]bool{}}
	p := preparer{r: r, doc: doc, expand: f.Expand, spared: f.Spared}
	p.prepare(root, "")
	if root.Kind != yaml.MappingNode {
		if root.Kind != yaml.AliasNode {
			r.Add(doc.place(root), "file holds a %s; write a mapping (key: value)", kindName(root))
		}
		return nil
	}
	return doc
}

func (d *Document) place(n *yaml.Node) Place {
	return Place{d.Name, max(n.Line, 1), max(n.Column, 1)}
}

// decode reads the next document. The parser panics on input that it did not foresee; for a file that is an error too.
func decode(dec *yaml.Decoder) (n *yaml.Node, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("yaml: the parser gave up: %v", p)
		}
	}()
	n = new(yaml.Node)
	if err := dec.Decode(n); err != nil {
		return nil, err
	}
	if n.Kind != yaml.DocumentNode || len(n.Content) != 1 {
		return nil, errors.New("yaml: no document")
	}
	return n, nil
}

// isEmpty reports whether a document has nothing but its marker.
func isEmpty(doc *yaml.Node) bool {
	root := doc.Content[0]
	return root.Kind == yaml.ScalarNode && root.Style == 0 && root.Value == "" && root.Anchor == ""
}

func kindName(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "mapping"
	case yaml.SequenceNode:
		return "list"
	}
	return "single value"
}
