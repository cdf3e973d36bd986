package tenants

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Problem is one thing that is wrong: where, what, and what to do about it.
type Problem struct {
	// File is the file as the user named it, "environment LLMGOV_X" or "flag --x"; empty for values made in code.
	File string `json:"file,omitempty"`
	// Line and Col count from 1, Col in characters. Both are 0 where there is no line to point at.
	Line int `json:"line,omitempty"`
	Col  int `json:"col,omitempty"`
	// What is the message, without the place.
	What string `json:"what"`
}

// String is "file:line:col: what", without the parts that there are none of.
func (p Problem) String() string {
	if p.File == "" {
		return p.What
	}
	return place{p.File, p.Line, p.Col}.String() + ": " + p.What
}

// OfFlag reports whether it is a flag that is wrong, and no file.
func (p Problem) OfFlag() bool { return strings.HasPrefix(p.File, flagPlace) }

// flagPlace begins the place of what a flag says.
const flagPlace = "flag "

// Problems is everything wrong with one load, sorted by file and position. It is never empty when returned as an error.
type Problems []Problem

// Error is one problem a line.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// place is where something is written.
type place struct {
	file      string
	line, col int
}

// String is "file:line:col", "file" where there is no line, and "" for a place in code.
func (p place) String() string {
	if p.line == 0 {
		return p.file
	}
	return p.file + ":" + strconv.Itoa(p.line) + ":" + strconv.Itoa(p.col)
}

// or is the place as words, or instead when the thing was made in code and has none.
func (p place) or(instead string) string {
	if p.file == "" {
		return instead
	}
	return p.String()
}

// pathSep joins the keys of a path. It is also the delimiter given to koanf: unlike "." it occurs in no name.
const pathSep = "\x00"

// child is the path of key below path.
func child(path, key string) string {
	if path == "" {
		return key
	}
	return path + pathSep + key
}

// item is the path of the i-th entry of the list at path.
func item(path string, i int) string {
	return path + pathSep + "[" + strconv.Itoa(i) + "]"
}

// spell writes a path for a person: pools.gpt-4o.models[0].
func spell(path string) string {
	return strings.ReplaceAll(strings.ReplaceAll(path, pathSep+"[", "["), pathSep, ".")
}

// report collects the problems of one load and remembers where each path was written.
type report struct {
	problems Problems
	places   map[string]place
	// typed is what values said before ${…} was expanded in them, by path.
	typed map[string]string
	// refused are paths of values in whose stead a reader answered something else. Checks of how things fit pass over
	// them.
	refused map[string]bool
}

func newReport() *report {
	return &report{places: map[string]place{}, typed: map[string]string{}, refused: map[string]bool{}}
}

// found remembers where a value is written and, if a variable was expanded in it, as what.
func (r *report) found(path string, at place, typed map[*yaml.Node]string, n *yaml.Node) {
	r.places[path] = at
	if text, expanded := typed[n]; expanded {
		r.typed[path] = text
	}
}

// replaced remembers that a layer above the file says what the value at path is.
func (r *report) replaced(path string, from place) {
	below := path + pathSep
	maps.DeleteFunc(r.places, func(p string, _ place) bool { return strings.HasPrefix(p, below) })
	maps.DeleteFunc(r.typed, func(p, _ string) bool { return p == path || strings.HasPrefix(p, below) })
	r.places[path] = from
}

// shown is the value at path as a message shows it: as it was written, since a variable may hold a secret.
func (r *report) shown(path, text string) string {
	if typed, expanded := r.typed[path]; expanded {
		return sayTyped(typed)
	}
	return show(text)
}

// shownNumber is shown of a number.
func (r *report) shownNumber(path string, n int64) string {
	if typed, expanded := r.typed[path]; expanded {
		return sayTyped(typed)
	}
	return strconv.FormatInt(n, 10)
}

// shownIn is shown of the value at path, or of that of its key, whichever was written with a variable.
func (r *report) shownIn(path, key, text string) string {
	if _, expanded := r.typed[path]; expanded {
		return r.shown(path, text)
	}
	return r.shown(child(path, key), text)
}

func sayTyped(typed string) string { return "the value of " + show(typed) }

// maxProblems is how many problems are reported.
const maxProblems = 1000

// full reports whether no more problems are noted.
func (r *report) full() bool { return len(r.problems) >= maxProblems }

// add notes a problem at a place.
func (r *report) add(at place, format string, args ...any) {
	if r.full() {
		return
	}
	r.problems = append(r.problems, Problem{File: at.file, Line: at.line, Col: at.col, What: fmt.Sprintf(format, args...)})
}

// at notes a problem with the value at path; the message starts with the path.
func (r *report) at(path, format string, args ...any) {
	r.add(r.place(path), "%s: %s", spell(path), fmt.Sprintf(format, args...))
}

// place is where path is written or, for what is absent, the nearest thing around it.
func (r *report) place(path string) place {
	for {
		if p, ok := r.places[path]; ok {
			return p
		}
		cut := strings.LastIndex(path, pathSep)
		if cut < 0 {
			return r.places[""]
		}
		path = path[:cut]
	}
}

// err is the sorted problems, without exact repetitions, or nil.
func (r *report) err() error {
	if len(r.problems) == 0 {
		return nil
	}
	slices.SortFunc(r.problems, func(a, b Problem) int {
		return cmp.Or(
			strings.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col),
			strings.Compare(a.What, b.What))
	})
	list := slices.Compact(r.problems)
	if r.full() {
		last := list[len(list)-1]
		last.What = fmt.Sprintf("these are the first %d problems; fix them to see more", maxProblems)
		list = append(list, last)
	}
	return list
}

// show quotes a value for a message, cut to a length that fits a terminal.
func show(text string) string {
	const most = 60
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most-1]) + "…"
	}
	return strconv.Quote(text)
}
