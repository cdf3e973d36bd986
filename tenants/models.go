package tenants

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/llmgov/llmgov/internal/strictyaml"
)

// A pattern is a model name in which * stands for any run of characters, also none. Nothing else is special: model
// names hold dots, slashes, colons and brackets of their own.

// isGlob reports whether pattern stands for more than one name.
func isGlob(pattern string) bool {
	return strings.IndexByte(pattern, '*') >= 0
}

// literals counts the characters of pattern that stand for themselves: its specificity.
func literals(pattern string) int {
	return utf8.RuneCountInString(pattern) - strings.Count(pattern, "*")
}

// match reports whether name is one of pattern's. It allocates nothing and takes at most len(pattern)·len(name) steps.
func match(pattern, name string) bool {
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

// overlap reports whether there is a name that both patterns match. For two globs only their ends matter: what
// stands between a glob's stars can always be put into a name one glob after the other.
func overlap(a, b string) bool {
	switch {
	case !isGlob(b):
		return match(a, b)
	case !isGlob(a):
		return match(b, a)
	}
	headA := a[:strings.IndexByte(a, '*')]
	headB := b[:strings.IndexByte(b, '*')]
	tailA := a[strings.LastIndexByte(a, '*')+1:]
	tailB := b[strings.LastIndexByte(b, '*')+1:]
	return (strings.HasPrefix(headA, headB) || strings.HasPrefix(headB, headA)) &&
		(strings.HasSuffix(tailA, tailB) || strings.HasSuffix(tailB, tailA))
}

// checkPattern complains about a pattern that no model name could match.
func checkPattern(pattern string) string {
	if pattern == "" {
		return "is not a model; write a name or a pattern"
	}
	return strictyaml.CheckName(pattern)
}

// plain writes runs of stars as one, so that equal patterns are equal texts.
func plain(pattern string) string {
	for strings.Contains(pattern, "**") {
		pattern = strings.ReplaceAll(pattern, "**", "*")
	}
	return pattern
}

// modelList reads a list of patterns; an entry that is none reads as "".
func readModelList(v value) []string { return atMost(v, v.Texts(readPattern), maxEntries) }

func readPattern(v value) string {
	text, ok := v.Scalar()
	if !ok {
		return ""
	}
	if complaint := checkPattern(text); complaint != "" {
		v.Problem("%s %s", v.Say(text), complaint)
		return ""
	}
	return plain(text)
}

// route leads from a pattern to the index of what lists it, a pool or a price.
type route struct {
	pattern string
	at      int
}

// routes finds what belongs to a model: exact names by map, then globs from the most specific.
type routes struct {
	exact map[string]int
	globs []route
}

func newRoutes(pools []Pool) routes {
	lists := make([][]string, len(pools))
	for i, p := range pools {
		lists[i] = p.Models
	}
	return routesTo(lists)
}

// routesTo leads from the patterns of each list to its index.
func routesTo(lists [][]string) routes {
	rs := routes{exact: map[string]int{}}
	for i, list := range lists {
		for _, m := range list {
			if isGlob(m) {
				rs.globs = append(rs.globs, route{m, i})
				continue
			}
			rs.exact[m] = i
		}
	}
	slices.SortFunc(rs.globs, func(a, b route) int {
		return cmp.Or(cmp.Compare(literals(b.pattern), literals(a.pattern)), strings.Compare(a.pattern, b.pattern))
	})
	return rs
}

func (rs *routes) find(model string) (at int, ok bool) {
	if i, ok := rs.exact[model]; ok {
		return i, true
	}
	for i := range rs.globs {
		if match(rs.globs[i].pattern, model) {
			return rs.globs[i].at, true
		}
	}
	return 0, false
}
