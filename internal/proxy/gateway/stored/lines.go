package stored

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/llmgov/llmgov/internal/lib/form"
	"github.com/llmgov/llmgov/internal/lib/splice"
	"github.com/llmgov/llmgov/internal/proxy/gateway/head"
	"github.com/llmgov/llmgov/internal/proxy/gateway/route"
	"github.com/llmgov/llmgov/internal/run/admission/ask"
)

// maxCalls bounds a batch, because checking many short lines takes much longer than sending them.
// Providers take 50,000 to 100,000 calls.
const maxCalls = 100_000

// Checker is the call by which a file of calls is uploaded.
type Checker interface {
	// CheckModel refuses a model that the tenant may not use. Otherwise the batch asks for it.
	CheckModel(model string) *ask.Refusal
	// CheckTiers refuses a call that names a tier of service for which the tenant may not ask, or lowers that. The path of its route is "" if it names none.
	CheckTiers(path string, h *head.Head) *ask.Refusal
	// CheckReference refuses an object that the tenant may not see.
	CheckReference(head.Reference) *ask.Refusal
	// AddCall adds a call to the batch, which refers to objects. Its route is nil if it names none.
	AddCall(h *head.Head, to *route.Route, found []head.Reference)
}

// File checks a file of calls. A line of it is a call, and is governed like one: its body is read by the same
// reader, and the tenant's max_output_tokens lowers its bounds, or is added, as the file is written anew.
// Refusing lines instead would refuse most files, because few calls name a bound.
type File struct {
	By        Checker
	MaxOutput int64 // the tenant's; 0 is no limit
}

// Check checks the lines of each part of a form that may be the file, and lowers their bounds.
func (f File) Check(sent *form.Form) *ask.Refusal {
	for i := range sent.Parts {
		part := &sent.Parts[i]
		if !part.IsFile() && !strings.EqualFold(part.Name, "file") {
			continue
		}
		if refusal := f.checkLines(part); refusal != nil {
			return refusal
		}
	}
	return nil
}

func (f File) checkLines(part *form.Part) *ask.Refusal {
	n := 0
	at := 0
	for line := range bytes.Lines(part.Content) {
		n++
		if n > maxCalls {
			return invalid("file", "The file has more than "+strconv.Itoa(maxCalls)+" lines.")
		}
		text := bytes.TrimLeft(line, " \t\r\n")
		edits, refusal := f.checkLine(bytes.TrimRight(text, " \t\r\n"))
		if refusal != nil {
			refusal.Param = "file"
			refusal.Message = "Line " + strconv.Itoa(n) + ": " + refusal.Message
			return refusal
		}
		begins := at + len(line) - len(text)
		for _, e := range edits {
			e.Start += begins
			e.End += begins
			part.Edits = append(part.Edits, e)
		}
		at += len(line)
	}
	return nil
}

// checkLine checks one call of a file: its models, and the objects that it refers to. It returns its edits.
func (f File) checkLine(line []byte) ([]splice.Edit, *ask.Refusal) {
	if len(line) == 0 {
		return nil, nil
	}
	if bytes.IndexByte(line, '\r') >= 0 { // some readers end lines there
		return nil, invalid("", "A carriage return must stand at a line's end.")
	}
	if err := head.WellFormed(line); err != nil {
		return nil, invalid("", err.Message)
	}
	found, refusal := f.walk(line)
	if refusal != nil {
		return nil, refusal
	}
	l, err := head.ReadLine(line, IsInference)
	if err != nil {
		return nil, invalid("", err.Message)
	}
	edits, refusal := f.govern(&l)
	if refusal != nil {
		return nil, refusal
	}
	for _, ref := range found {
		if refusal := f.By.CheckReference(ref); refusal != nil {
			return nil, refusal
		}
	}
	if l.Head != nil {
		f.By.AddCall(l.Head, route.Inference(l.URL), found)
	}
	return edits, nil
}

// walk walks through a line for ids of objects and, wherever a server may look for them, models.
func (f File) walk(line []byte) (found []head.Reference, refusal *ask.Refusal) {
	found, err := head.Walk(line, func(key, value string, depth int) {
		switch {
		case refusal != nil || depth > 2: // deeper down keys are the caller's own, as in schemas
		case strings.EqualFold(key, "model"):
			refusal = f.By.CheckModel(value)
		case strings.EqualFold(key, "conversation"):
			refusal = invalid("", "conversation is not supported.")
		}
	})
	if err != nil {
		return nil, invalid(err.Param, err.Message)
	}
	return found, refusal
}

// govern checks the call of a line, and lowers the bounds of its answer to the tenant's.
func (f File) govern(l *head.Line) ([]splice.Edit, *ask.Refusal) {
	if l.Head == nil {
		return nil, nil
	}
	r := route.Inference(l.URL)
	path := ""
	if r != nil {
		path = r.Path
	}
	if refusal := f.By.CheckTiers(path, l.Head); refusal != nil {
		return nil, refusal
	}
	for _, o := range l.Head.Others {
		if refusal := f.By.CheckModel(o.Model); refusal != nil {
			return nil, refusal
		}
	}
	if l.Head.FallsBack && len(l.Head.Others) == 0 {
		return nil, invalid("", "route: fallback needs models.")
	}
	switch {
	case r != nil:
		return l.Edits(r.Bounds, f.MaxOutput), nil
	case f.MaxOutput > 0:
		return nil, invalid("", "A call must name its url.")
	}
	return l.Edits(nil, 0), nil
}

// IsInference reports whether a call of a batch is to a route of inference, which upstreams need not check.
func IsInference(url string) bool { return route.Inference(url) != nil }
