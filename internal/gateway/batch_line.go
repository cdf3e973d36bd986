package gateway

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/llmgov/llmgov/internal/form"
)

// A line of a batch file is a call, and is governed like one: its body is read by the same reader, and
// the tenant's max_output_tokens lowers its bounds, or is added, as the file is written anew. Refusing
// lines instead would refuse most files, because few calls name a bound.

// maxCalls bounds a batch, because checking many short lines takes much longer than sending them.
// Providers take 50,000 to 100,000 calls.
const maxCalls = 100_000

// batchLine is one line as it was read.
type batchLine struct {
	route *route // that it calls; nil if it does not say
	head  *head  // of its body; nil without one
	at    int    // where the body begins in the line
}

// lineKeys are the keys of a line that decide.
var lineKeys = []string{"method", "url", "body"}

// readLine reads a line that is well-formed JSON.
func readLine(line []byte) (l batchLine, problem *badRequest) {
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
					problem = l.read(name, value, line)
				}
			}
		}
		return problem == nil
	})
	return l, problem
}

// read takes one member of the line over.
func (l *batchLine) read(name string, v gjson.Result, line []byte) *badRequest {
	switch name {
	case "body":
		l.head = &head{}
		l.at = v.Index
		return l.head.read(line[v.Index : v.Index+len(v.Raw)])
	case "url":
		l.route = routes[strings.TrimPrefix(v.Str, "/v1")]
		if l.route == nil {
			return bad("url", "A batch cannot call %s.", show(v))
		}
	case "method":
		if v.Str != http.MethodPost {
			return bad("method", "method must be POST, not %s.", show(v))
		}
	}
	return nil
}

// checkCalls checks the lines of each part of the form that may be the file, and lowers their bounds.
func (c *call) checkCalls() *refusal {
	c.batch = batchSize{}
	for i := range c.form.Parts {
		part := &c.form.Parts[i]
		if !part.IsFile() && !strings.EqualFold(part.Name, "file") {
			continue
		}
		if f := c.checkLines(part); f != nil {
			return f
		}
	}
	return nil
}

func (c *call) checkLines(part *form.Part) *refusal {
	n := 0
	at := 0
	for line := range bytes.Lines(part.Content) {
		n++
		if n > maxCalls {
			return invalid("file", "The file has more than "+strconv.Itoa(maxCalls)+" lines.")
		}
		text := bytes.TrimLeft(line, " \t\r\n")
		edits, f := c.checkLine(bytes.TrimRight(text, " \t\r\n"))
		if f != nil {
			f.param = "file"
			f.message = "Line " + strconv.Itoa(n) + ": " + f.message
			return f
		}
		begins := at + len(line) - len(text)
		for _, e := range edits {
			part.Edits = append(part.Edits, form.Edit{Start: begins + e.start, End: begins + e.end, Text: e.text})
		}
		at += len(line)
	}
	return nil
}

// checkLine checks one call of a file: its models, and the objects that it refers to. It adds what the
// call may take to the batch, and returns what is to be changed in it.
func (c *call) checkLine(line []byte) ([]edit, *refusal) {
	if len(line) == 0 {
		return nil, nil
	}
	if bytes.IndexByte(line, '\r') >= 0 { // some readers end lines there
		return nil, invalid("", "A carriage return must stand at a line's end.")
	}
	if err := wellFormed(line); err != nil {
		return nil, invalid("", err.what)
	}
	found, f := c.walkLine(line)
	if f != nil {
		return nil, f
	}
	l, err := readLine(line)
	if err != nil {
		return nil, invalid("", err.what)
	}
	edits, f := c.governLine(&l)
	if f != nil {
		return nil, f
	}
	for _, ref := range found {
		if !c.pin(ref.id) {
			return nil, noObject(ref.key, ref.id)
		}
	}
	if l.head != nil {
		c.weighReferences(l.head, found)
		c.batch.add(c, &l)
	}
	return edits, nil
}

// walkLine walks through a line for ids of objects and, wherever a server may look for them, models.
func (c *call) walkLine(line []byte) (found []reference, f *refusal) {
	w := walk{body: line}
	w.member = func(key, value string, depth int) {
		switch {
		case f != nil || depth > 2: // deeper down keys are the caller's own, as in schemas
		case strings.EqualFold(key, "model") && !c.mayUse(value):
			f = mayNot(c.tenant.Name, "", value)
		case strings.EqualFold(key, "model"):
			c.dearer(value)
		case strings.EqualFold(key, "conversation"):
			f = invalid("", "conversation is not supported.")
		}
	}
	if err := w.run(); err != nil {
		return nil, invalid(err.param, err.what)
	}
	return w.found, f
}

// governLine checks what a line calls, and lowers the bounds of its answer to the tenant's.
func (c *call) governLine(l *batchLine) ([]edit, *refusal) {
	if l.head == nil {
		return nil, nil
	}
	for _, o := range l.head.others {
		if !c.mayUse(o.model) {
			return nil, mayNot(c.tenant.Name, "", o.model)
		}
		c.dearer(o.model)
	}
	if l.head.falls && len(l.head.others) == 0 {
		return nil, invalid("", "route: fallback needs models.")
	}
	most := c.tenant.MaxOutputTokens
	if most == 0 {
		return nil, nil
	}
	if l.route == nil {
		return nil, invalid("", "A call must name its url.")
	}
	if l.route.bounds == nil {
		return nil, nil
	}
	edits := l.head.clamp(nil, l.route, most)
	for i := range edits {
		edits[i].start += l.at
		edits[i].end += l.at
	}
	return edits, nil
}
