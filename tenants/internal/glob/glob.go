// Package glob matches names of models with patterns. In a pattern, * stands for any run of characters, also none. Nothing else
// is special: model names hold dots, slashes, colons and brackets of their own.
package glob

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Is reports whether pattern stands for more than one name.
func Is(pattern string) bool {
	return strings.IndexByte(pattern, '*') >= 0
}

// Literals counts the characters of pattern that stand for themselves: its specificity.
func Literals(pattern string) int {
	return utf8.RuneCountInString(pattern) - strings.Count(pattern, "*")
}

// Match reports whether name is one of pattern's. It allocates nothing and takes at most len(pattern)·len(name) steps.
func Match(pattern, name string) bool {
	p := 0
	n := 0
	star := -1
	resume := 0
	for n < len(name) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star = p
			resume = n
			p++
		case p < len(pattern) && pattern[p] == name[n]:
			p++
			n++
		case star >= 0: // let the last star take one character more
			resume++
			p = star + 1
			n = resume
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// Overlap reports whether there is a name that both patterns match. For two globs only their ends matter, because
// the texts between a glob's stars can always be put into a name one glob after the other.
func Overlap(a, b string) bool {
	switch {
	case !Is(b):
		return Match(a, b)
	case !Is(a):
		return Match(b, a)
	}
	headA := a[:strings.IndexByte(a, '*')]
	headB := b[:strings.IndexByte(b, '*')]
	tailA := a[strings.LastIndexByte(a, '*')+1:]
	tailB := b[strings.LastIndexByte(b, '*')+1:]
	return (strings.HasPrefix(headA, headB) || strings.HasPrefix(headB, headA)) &&
		(strings.HasSuffix(tailA, tailB) || strings.HasSuffix(tailB, tailA))
}

// Plain writes runs of stars as one, so that equal patterns are equal texts.
func Plain(pattern string) string {
	for strings.Contains(pattern, "**") {
		pattern = strings.ReplaceAll(pattern, "**", "*")
	}
	return pattern
}

// Narrow lists patterns of the names that both lists match, each once. It stops beyond most of them.
func Narrow(list, by []string, most int) []string {
	var out []string
	for _, a := range list {
		for _, b := range by {
			if len(out) > most {
				return out
			}
			if a == "" || b == "" || !Overlap(a, b) {
				continue
			}
			for _, both := range common(a, b) {
				if !slices.Contains(out, both) {
					out = append(out, both)
				}
			}
		}
	}
	return out
}

// common are patterns of the names that two overlapping patterns share.
func common(a, b string) []string {
	switch {
	case Match(b, a): // b covers a: its stars stand for those of a as for any character
		return []string{a}
	case Match(a, b):
		return []string{b}
	}
	head := a[:strings.IndexByte(a, '*')]
	tail := a[strings.LastIndexByte(a, '*')+1:]
	if other := b[:strings.IndexByte(b, '*')]; len(other) > len(head) {
		head = other
	}
	if other := b[strings.LastIndexByte(b, '*')+1:]; len(other) > len(tail) {
		tail = other
	}
	all := []string{head + "*" + tail}
	for n := 1; n <= min(len(head), len(tail)); n++ { // names so short that one letter is of both
		if strings.HasSuffix(head, tail[:n]) {
			all = append(all, head+tail[n:])
		}
	}
	return all
}
