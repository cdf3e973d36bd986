package strictyaml

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Problem is one mistake: its place, and a message that says how to fix it.
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
	return Place{p.File, p.Line, p.Col}.String() + ": " + p.What
}

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

// Report collects the problems of one load and remembers where each path was written.
type Report struct {
	Problems Problems
	Places   map[string]Place
	// More finds places that are not in Places, if it is not nil.
	More func(path string) (Place, bool)
	// Typed holds the texts of values before ${…} was expanded in them, by path.
	Typed map[string]string
	// Refused are paths of values in whose stead a reader answered something else. Checks of how things fit pass over
	// them.
	Refused map[string]bool
}

// NewReport is a report without problems.
func NewReport() *Report {
	return &Report{Places: map[string]Place{}, Typed: map[string]string{}, Refused: map[string]bool{}}
}

// found remembers where a value is written and, if a variable was expanded in it, the text before that.
func (r *Report) found(path string, at Place, typed map[*yaml.Node]string, n *yaml.Node) {
	r.Places[path] = at
	if text, expanded := typed[n]; expanded {
		r.Typed[path] = text
	}
}

// Replaced remembers that a layer above the file gives the value at path.
func (r *Report) Replaced(path string, from Place) {
	below := path + PathSep
	maps.DeleteFunc(r.Places, func(p string, _ Place) bool { return strings.HasPrefix(p, below) })
	maps.DeleteFunc(r.Typed, func(p, _ string) bool { return p == path || strings.HasPrefix(p, below) })
	r.Places[path] = from
}

// Shown is the value at path as a message shows it: as it was written, since a variable may hold a secret.
func (r *Report) Shown(path, text string) string {
	if typed, expanded := r.Typed[path]; expanded {
		return sayTyped(typed)
	}
	return Show(text)
}

// ShownNumber is Shown of a number.
func (r *Report) ShownNumber(path string, n int64) string {
	if typed, expanded := r.Typed[path]; expanded {
		return sayTyped(typed)
	}
	return strconv.FormatInt(n, 10)
}

// ShownIn is Shown of the value at path, or of that of its key, whichever was written with a variable.
func (r *Report) ShownIn(path, key, text string) string {
	if _, expanded := r.Typed[path]; expanded {
		return r.Shown(path, text)
	}
	return r.Shown(Child(path, key), text)
}

func sayTyped(typed string) string { return "the value of " + Show(typed) }

// maxProblems is how many problems are reported.
const maxProblems = 1000

// Full reports whether no more problems are noted.
func (r *Report) Full() bool { return len(r.Problems) >= maxProblems }

// Add notes a problem at a place.
func (r *Report) Add(at Place, format string, args ...any) {
	r.note(Problem{File: at.File, Line: at.Line, Col: at.Col, What: fmt.Sprintf(format, args...)})
}

// At notes a problem with the value at path; the message starts with the path.
func (r *Report) At(path, format string, args ...any) { r.note(r.Describe(path, format, args...)) }

func (r *Report) note(p Problem) {
	if !r.Full() {
		r.Problems = append(r.Problems, p)
	}
}

// Describe is what At notes, for a value that is good but worth a word.
func (r *Report) Describe(path, format string, args ...any) Problem {
	what := fmt.Sprintf(format, args...)
	if path != "" {
		what = Spell(path) + ": " + what
	}
	at := r.Place(path)
	return Problem{File: at.File, Line: at.Line, Col: at.Col, What: what}
}

// Written is where path is written; ok is false if it is not.
func (r *Report) Written(path string) (at Place, ok bool) {
	at, ok = r.Places[path]
	if !ok && r.More != nil {
		return r.More(path)
	}
	return at, ok
}

// Place is where path is written or, if it is absent, the nearest path around it.
func (r *Report) Place(path string) Place {
	for {
		if p, ok := r.Written(path); ok {
			return p
		}
		cut := strings.LastIndex(path, PathSep)
		if cut < 0 {
			return r.Places[""]
		}
		path = path[:cut]
	}
}

// Err is the sorted problems, without exact repetitions, or nil.
func (r *Report) Err() error {
	if len(r.Problems) == 0 {
		return nil
	}
	slices.SortFunc(r.Problems, func(a, b Problem) int {
		return cmp.Or(
			strings.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col),
			strings.Compare(a.What, b.What))
	})
	list := slices.Compact(r.Problems)
	if r.Full() {
		last := list[len(list)-1]
		last.What = fmt.Sprintf("these are the first %d problems; fix them to see more", maxProblems)
		list = append(list, last)
	}
	return list
}

// Show quotes a value for a message, cut to a length that fits a terminal.
func Show(text string) string {
	const most = 60
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most-1]) + "…"
	}
	return strconv.Quote(text)
}
