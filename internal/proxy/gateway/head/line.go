package head

import (
	"net/http"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/llmgov/llmgov/internal/lib/splice"
)

// Line is one line of a batch file, which is a call. Its body is read as that of any other call.
type Line struct {
	URL  string // that it calls; "" if it does not say
	Head *Head  // of its body; nil without one
	at   int    // the beginning of the body in the line
}

// lineKeys are the keys of a line that decide.
var lineKeys = []string{"method", "url", "body"}

// ReadLine reads a line that is well-formed JSON. mayCall reports whether a batch can call a url.
func ReadLine(line []byte, mayCall func(url string) bool) (l Line, problem *Error) {
	root := gjson.ParseBytes(line)
	if !root.IsObject() {
		return l, bad("", "A call must be a JSON object.")
	}
	var seen []string
	root.ForEach(func(key, value gjson.Result) bool {
		for _, name := range lineKeys {
			if strings.EqualFold(name, key.Str) {
				seen, problem = oneOf(seen, key.Str, name)
				if problem == nil {
					problem = l.read(name, value, line, mayCall)
				}
			}
		}
		return problem == nil
	})
	return l, problem
}

// read takes one member of the line over.
func (l *Line) read(name string, v gjson.Result, line []byte, mayCall func(url string) bool) (problem *Error) {
	switch name {
	case "body":
		l.at = v.Index
		l.Head, problem = Read(line[v.Index : v.Index+len(v.Raw)])
		return problem
	case "url":
		l.URL = v.Str
		if !mayCall(v.Str) {
			return bad("url", "A batch cannot call %s.", show(v))
		}
	case "method":
		if v.Str != http.MethodPost {
			return bad("method", "method must be POST, not %s.", show(v))
		}
	}
	return nil
}

// Edits lower the tiers of the line's body, and cut its bounds to most, if that is not 0, as [Head.Clamp] does. They are of the line.
func (l *Line) Edits(names []Bound, most int64) []splice.Edit {
	edits := l.Head.Lowered(nil)
	if names != nil && most > 0 {
		edits = l.Head.Clamp(edits, names, most)
	}
	for i := range edits {
		edits[i].Start += l.at
		edits[i].End += l.at
	}
	return edits
}
