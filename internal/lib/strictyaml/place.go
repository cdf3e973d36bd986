package strictyaml

import (
	"strconv"
	"strings"
)

// Place is where something is written.
type Place struct {
	File      string
	Line, Col int
}

// String is "file:line:col", "file" where there is no line, and "" for a place in code.
func (p Place) String() string {
	if p.Line == 0 {
		return p.File
	}
	return p.File + ":" + strconv.Itoa(p.Line) + ":" + strconv.Itoa(p.Col)
}

// Or is the place as words, or instead when the thing was made in code and has none.
func (p Place) Or(instead string) string {
	if p.File == "" {
		return instead
	}
	return p.String()
}

// PathSep joins the keys of a path. It is also the delimiter given to koanf: unlike "." it occurs in no name.
const PathSep = "\x00"

// Child is the path of key below path.
func Child(path, key string) string {
	if path == "" {
		return key
	}
	return path + PathSep + key
}

// Item is the path of the i-th entry of the list at path.
func Item(path string, i int) string {
	return path + PathSep + "[" + strconv.Itoa(i) + "]"
}

// Spell writes a path for a person: pools.gpt-4o.models[0].
func Spell(path string) string {
	return strings.ReplaceAll(strings.ReplaceAll(path, PathSep+"[", "["), PathSep, ".")
}
