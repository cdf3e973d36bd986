package strictyaml

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Problem is one thing that is wrong with a file: where, what, and
// what to do about it.
type Problem struct {
	File string
	// Line and Col count from 1; 0 where there is no line to point at.
	Line, Col int
	What      string
}

// String is "file:line:col: what".
func (p Problem) String() string {
	if p.Line == 0 {
		return p.File + ": " + p.What
	}
	return fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Col, p.What)
}

// Problems is everything wrong with one file, in the order of its lines.
type Problems []Problem

// Error is one problem a line.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

func (ps Problems) sorted() Problems {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col), cmp.Compare(a.What, b.What))
	})
	return slices.Compact(ps)
}

// Show quotes a value for a message, cut to a length that fits a terminal.
func Show(text string) string {
	const most = 60
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most-1]) + "…"
	}
	return strconv.Quote(text)
}

// Advise names the known word that was probably meant, or all of them.
func Advise(word string, known []string) string {
	known = slices.Sorted(slices.Values(known))
	best := ""
	least := len(word)/2 + 1
	for _, k := range known {
		d := distance(word, k)
		if len(word) > 2 && strings.HasPrefix(k, word) {
			d = 0
		}
		if d < least {
			best = k
			least = d
		}
	}
	if best != "" {
		return "did you mean " + Show(best) + "?"
	}
	return "known are " + strings.Join(known, ", ")
}

// distance is how many letters must be changed, added, removed or swapped with
// their neighbour to make b of a. Long words are not compared: nobody misspells
// by that much.
func distance(a, b string) int {
	if len(a) > 40 {
		return len(a)
	}
	before := make([]int, len(b)+1)
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		next := make([]int, len(b)+1)
		next[0] = i + 1
		for j := range len(b) {
			change := row[j]
			if a[i] != b[j] {
				change++
			}
			next[j+1] = min(change, row[j+1]+1, next[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before = row
		row = next
	}
	return row[len(b)]
}
