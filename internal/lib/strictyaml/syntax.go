package strictyaml

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// checkBytes refuses bytes that no YAML file should hold, before the parser reports them in vaguer words.
func checkBytes(r *Report, name string, data []byte) bool {
	for _, bom := range []string{"\xef\xbb\xbf", "\xff\xfe", "\xfe\xff"} {
		if bytes.HasPrefix(data, []byte(bom)) {
			r.Add(Place{name, 1, 1}, "file starts with a byte order mark; save it as UTF-8 without one")
			return false
		}
	}
	line := 1
	col := 1
	for rest := data; len(rest) > 0; {
		c, size := utf8.DecodeRune(rest)
		switch {
		case c == utf8.RuneError && size == 1:
			r.Add(Place{name, line, col}, "byte 0x%02x is not UTF-8; save the file as UTF-8", rest[0])
			return false
		case c < ' ' && c != '\n' && c != '\r' && c != '\t', c == 0x7f:
			r.Add(Place{name, line, col}, "control character %U; remove it", c)
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
func syntaxProblem(r *Report, name string, data []byte, err error) {
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
		r.Add(at, "alias *%s is not supported; put quotes around a pattern that starts with *", m[1])
		return
	}
	switch {
	case strings.Contains(what, "cannot start any token") && tabIndent.Match(data):
		at := tabIndent.FindIndex(data)
		r.Add(placeOf(name, data, at[1]-1), "a tab indents this line; indent with spaces")
	case strings.Contains(what, "mapping values are not allowed") && joinedBefore(data, line) != "":
		r.Add(startOf(name, data, line-1), spaceMissing, Show(joinedBefore(data, line)))
	case strings.Contains(what, "expected alphabetic or numeric character"):
		r.Add(startOf(name, data, line), "YAML syntax: %s; put quotes around a value that starts with * or &", what)
	default:
		r.Add(startOf(name, data, line), "YAML syntax: %s; fix this line or the one before", what)
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
func placeOf(name string, data []byte, offset int) Place {
	before := data[:max(offset, 0)]
	line := bytes.Count(before, []byte("\n"))
	col := utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:])
	return Place{name, line + 1, col + 1}
}

// startOf is where the text of a line begins.
func startOf(name string, data []byte, line int) Place {
	lines := bytes.Split(data, []byte("\n"))
	line = min(max(line, 1), len(lines))
	text := lines[line-1]
	return Place{name, line, 1 + len(text) - len(bytes.TrimLeft(text, " \t"))}
}
