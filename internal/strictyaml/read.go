package strictyaml

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// File is what is to be read.
type File struct {
	Name string // for messages
	Data []byte
	// Least is what an empty file is told to have, such as "tenants:".
	Least string
	// Expand, unless nil, turns each single value into what it stands for, ${VAR} say.
	Expand func(string) (string, error)
}

// Read hands the one document of a file to read. The error is of type Problems, all of
// them in the order of the file, unless it is nil.
func Read(f File, read func(Value)) error {
	r := &report{file: f.Name, expand: f.Expand}
	if root, ok := decode(r, f); ok {
		read(Value{r, root, ""})
	}
	if len(r.problems) > 0 {
		return r.problems.sorted()
	}
	return nil
}

var yamlLine = regexp.MustCompile(`line (\d+): `)

// decode reads the one document of a file.
func decode(r *report, f File) (*yaml.Node, bool) {
	dec := yaml.NewDecoder(bytes.NewReader(f.Data))
	var doc yaml.Node
	if err := dec.Decode(&doc); err != nil {
		at := &yaml.Node{}
		what := strings.TrimPrefix(err.Error(), "yaml: ")
		if m := yamlLine.FindStringSubmatch(what); m != nil {
			at.Line, _ = strconv.Atoi(m[1])
			at.Column = 1
			what = strings.Replace(what, m[0], "", 1)
		}
		if errors.Is(err, io.EOF) {
			what = "is empty; write at least " + f.Least
		} else {
			what = "is not YAML: " + what + "; mind indentation, quotes and colons"
		}
		r.add(at, "%s", what)
		return nil, false
	}
	var more yaml.Node
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		r.add(&yaml.Node{Line: max(more.Line, 1), Column: 1}, "holds more than one document; write one in a file")
		return nil, false
	}
	return doc.Content[0], true
}

// Name reads a word that can stand in a label and in the name of a file.
func (v Value) Name(into *string) {
	text, ok := v.Scalar()
	if !ok {
		return
	}
	if !nameForm.MatchString(text) {
		v.Problem("%s is not a name; write letters, digits, '.', '_' and '-', beginning with a letter or digit", Show(text))
		return
	}
	*into = text
}

var nameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
