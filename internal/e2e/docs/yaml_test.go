package docs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// node is a place in a YAML document.
type node struct {
	*testing.T
	value any
}

// yamlDocs are the documents of a file, by kind and name.
func yamlDocs(t *testing.T, file string) map[string]node {
	t.Helper()
	in := yaml.NewDecoder(bytes.NewReader([]byte(read(t, file))))
	docs := map[string]node{}
	for {
		var head struct {
			Kind     string
			Metadata struct{ Name string }
		}
		var all yaml.Node
		if err := in.Decode(&all); errors.Is(err, io.EOF) {
			return docs
		} else if err != nil {
			t.Fatal(err)
		}
		n := node{T: t}
		if err := errors.Join(all.Decode(&head), all.Decode(&n.value)); err != nil {
			t.Fatal(err)
		}
		docs[head.Kind+" "+head.Metadata.Name] = n
	}
}

// at is what is at a path of keys and numbers.
func (n node) at(path string) node {
	n.Helper()
	for part := range strings.SplitSeq(path, ".") {
		var next any
		switch in := n.value.(type) {
		case map[string]any:
			next = in[part]
		case []any:
			if i, err := strconv.Atoi(part); err == nil && i < len(in) {
				next = in[i]
			}
		}
		if next == nil {
			n.Fatalf("there is no %s of %s in %v", part, path, n.value)
		}
		n.value = next
	}
	return n
}

func (n node) text() string { return fmt.Sprint(n.value) }

func (n node) number() int {
	n.Helper()
	number, ok := n.value.(int)
	if !ok {
		n.Fatalf("%v is no number", n.value)
	}
	return number
}

func (n node) list() []node {
	n.Helper()
	values, ok := n.value.([]any)
	if !ok {
		n.Fatalf("%v is no list", n.value)
	}
	var out []node
	for _, v := range values {
		out = append(out, node{n.T, v})
	}
	return out
}
