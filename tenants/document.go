package tenants

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// maxFileBytes is the largest file that is read at all.
const maxFileBytes = 10 << 20

// document is one parsed file: a tree of mappings, lists and scalars that holds no anchor, alias, merge key or tag.
type document struct {
	name string
	root *yaml.Node
	size volume
	// typed is what scalars said before ${…} was expanded in them.
	typed map[*yaml.Node]string
	// broken are the scalars in which that failed. The problem is reported; readers pass over them.
	broken map[*yaml.Node]bool
}

// parse reads one YAML file and expands ${…} in it by env, or refuses ${…} if env is nil. It returns nil after a
// problem that leaves nothing to read on with.
func parse(r *report, name string, data []byte, env map[string]string) *document {
	start := place{name, 1, 1}
	if len(data) > maxFileBytes {
		r.add(start, "file is %d bytes, more than the %d that are read; split it", len(data), maxFileBytes)
		return nil
	}
	if !checkBytes(r, name, data) {
		return nil
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	first, err := decode(dec)
	if errors.Is(err, io.EOF) || (err == nil && isEmpty(first)) {
		r.add(start, "file is empty; write at least one key")
		return nil
	}
	if err != nil {
		syntaxProblem(r, name, data, err)
		return nil
	}
	root := first.Content[0]
	if second, err := decode(dec); err == nil {
		at := place{name, max(second.Line, 1), max(second.Column, 1)}
		r.add(at, "a second YAML document starts here; write one document a file")
		return nil
	} else if !errors.Is(err, io.EOF) {
		syntaxProblem(r, name, data, err)
		return nil
	}
	doc := &document{name: name, root: root, size: volumeOf(data), typed: map[*yaml.Node]string{}, broken: map[*yaml.Node]bool{}}
	p := preparer{r: r, doc: doc, env: env}
	p.prepare(root)
	if root.Kind != yaml.MappingNode {
		if root.Kind != yaml.AliasNode {
			r.add(doc.place(root), "file holds a %s; write a mapping (key: value)", kindName(root))
		}
		return nil
	}
	return doc
}

func (d *document) place(n *yaml.Node) place {
	return place{d.name, max(n.Line, 1), max(n.Column, 1)}
}

// decode reads the next document. The parser panics on what it did not foresee; for a file that is an error too.
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

// checkBytes refuses what no YAML file should hold, before the parser gives it a vaguer name.
func checkBytes(r *report, name string, data []byte) bool {
	for _, bom := range []string{"\xef\xbb\xbf", "\xff\xfe", "\xfe\xff"} {
		if bytes.HasPrefix(data, []byte(bom)) {
			r.add(place{name, 1, 1}, "file starts with a byte order mark; save it as UTF-8 without one")
			return false
		}
	}
	line := 1
	col := 1
	for rest := data; len(rest) > 0; {
		c, size := utf8.DecodeRune(rest)
		switch {
		case c == utf8.RuneError && size == 1:
			r.add(place{name, line, col}, "byte 0x%02x is not UTF-8; save the file as UTF-8", rest[0])
			return false
		case c < ' ' && c != '\n' && c != '\r' && c != '\t', c == 0x7f:
			r.add(place{name, line, col}, "control character %U; remove it", c)
			return false
		case c == '\n':
			line = line + 1
			col = 0
		}
		rest = rest[size:]
		col = col + 1
	}
	return true
}

var (
	errorLine   = regexp.MustCompile(`^line (\d+): `)
	errorAnchor = regexp.MustCompile(`unknown anchor '(.*)' referenced`)
	grammar     = regexp.MustCompile(`^did not find expected (<|node content|'|key)`)
	tabIndent   = regexp.MustCompile(`(?m)^ *\t`)
)

// syntaxProblem gives the parser's error a place and, where the cause is a usual one, its cure.
func syntaxProblem(r *report, name string, data []byte, err error) {
	what := strings.TrimPrefix(err.Error(), "yaml: ")
	line := 1
	if m := errorLine.FindStringSubmatch(what); m != nil {
		line, _ = strconv.Atoi(m[1])
		what = what[len(m[0]):]
		if grammar.MatchString(what) {
			line++ // the library counts these lines from 0
		}
	}
	if m := errorAnchor.FindStringSubmatch(what); m != nil {
		at := placeOf(name, data, bytes.Index(data, []byte("*"+m[1])))
		r.add(at, "alias *%s is not supported; put quotes around a pattern that starts with *", m[1])
		return
	}
	switch {
	case strings.Contains(what, "cannot start any token") && tabIndent.Match(data):
		at := tabIndent.FindIndex(data)
		r.add(placeOf(name, data, at[1]-1), "a tab indents this line; indent with spaces")
	case strings.Contains(what, "mapping values are not allowed") && joinedBefore(data, line) != "":
		r.add(startOf(name, data, line-1), spaceMissing, show(joinedBefore(data, line)))
	case strings.Contains(what, "expected alphabetic or numeric character"):
		r.add(startOf(name, data, line), "YAML syntax: %s; put quotes around a value that starts with * or &", what)
	default:
		r.add(startOf(name, data, line), "YAML syntax: %s; fix this line or the one before", what)
	}
}

// joinedKey matches a line that was meant as a key and its value, and is one text.
var joinedKey = regexp.MustCompile(`^\s*(?:- )?([A-Za-z_]+:)[^\s/]`)

// joinedBefore is the key of the line before that has no space after its colon, or "".
func joinedBefore(data []byte, line int) string {
	lines := bytes.Split(data, []byte("\n"))
	if line < 2 || line > len(lines) {
		return ""
	}
	if m := joinedKey.FindSubmatch(lines[line-2]); m != nil {
		return string(m[1])
	}
	return ""
}

// placeOf is the line and column of a byte offset.
func placeOf(name string, data []byte, offset int) place {
	before := data[:max(offset, 0)]
	line := bytes.Count(before, []byte("\n"))
	col := utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:])
	return place{name, line + 1, col + 1}
}

// startOf is where the text of a line begins.
func startOf(name string, data []byte, line int) place {
	lines := bytes.Split(data, []byte("\n"))
	line = min(max(line, 1), len(lines))
	text := lines[line-1]
	return place{name, line, 1 + len(text) - len(bytes.TrimLeft(text, " \t"))}
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
