package gateway

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/llmgov/llmgov/internal/admission"
	"github.com/llmgov/llmgov/internal/form"
	"github.com/llmgov/llmgov/internal/gateway/head"
	"github.com/llmgov/llmgov/internal/splice"
)

// A line of a batch file is a call, and is governed like one: its body is read by the same reader, and
// the tenant's max_output_tokens lowers its bounds, or is added, as the file is written anew. Refusing
// lines instead would refuse most files, because few calls name a bound.

// maxCalls bounds a batch, because checking many short lines takes much longer than sending them.
// Providers take 50,000 to 100,000 calls.
const maxCalls = 100_000

// checkCalls checks the lines of each part of the form that may be the file, and lowers their bounds.
func (c *call) checkCalls() *refusal {
	c.batch.size = batchSize{}
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
			f.Param = "file"
			f.Message = "Line " + strconv.Itoa(n) + ": " + f.Message
			return f
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

// checkLine checks one call of a file: its models, and the objects that it refers to. It adds what the
// call may take to the batch, and returns what is to be changed in it.
func (c *call) checkLine(line []byte) ([]splice.Edit, *refusal) {
	if len(line) == 0 {
		return nil, nil
	}
	if bytes.IndexByte(line, '\r') >= 0 { // some readers end lines there
		return nil, invalid("", "A carriage return must stand at a line's end.")
	}
	if err := head.WellFormed(line); err != nil {
		return nil, invalid("", err.Message)
	}
	found, f := c.walkLine(line)
	if f != nil {
		return nil, f
	}
	l, err := head.ReadLine(line, isInference)
	if err != nil {
		return nil, invalid("", err.Message)
	}
	edits, f := c.governLine(&l)
	if f != nil {
		return nil, f
	}
	for _, ref := range found {
		if !c.pin(ref.ID) {
			return nil, noObject(ref.Key, ref.ID)
		}
	}
	if l.Head != nil {
		l.Head.Weigh(found, c.sizeOf)
		c.batch.size.add(c, &l)
	}
	return edits, nil
}

// walkLine walks through a line for ids of objects and, wherever a server may look for them, models.
func (c *call) walkLine(line []byte) (found []head.Reference, f *refusal) {
	found, err := head.Walk(line, func(key, value string, depth int) {
		switch {
		case f != nil || depth > 2: // deeper down keys are the caller's own, as in schemas
		case strings.EqualFold(key, "model") && !c.mayUse(value):
			f = admission.NotGranted(c.Tenant.Name, "", value)
		case strings.EqualFold(key, "model"):
			c.dearer(value)
		case strings.EqualFold(key, "conversation"):
			f = invalid("", "conversation is not supported.")
		}
	})
	if err != nil {
		return nil, unreadable(err)
	}
	return found, f
}

// governLine checks what a line calls, and lowers the bounds of its answer to the tenant's.
func (c *call) governLine(l *head.Line) ([]splice.Edit, *refusal) {
	if l.Head == nil {
		return nil, nil
	}
	for _, o := range l.Head.Others {
		if !c.mayUse(o.Model) {
			return nil, admission.NotGranted(c.Tenant.Name, "", o.Model)
		}
		c.dearer(o.Model)
	}
	if l.Head.FallsBack && len(l.Head.Others) == 0 {
		return nil, invalid("", "route: fallback needs models.")
	}
	most := c.Tenant.MaxOutputTokens
	if most == 0 {
		return nil, nil
	}
	r := calledBy(l)
	if r == nil {
		return nil, invalid("", "A call must name its url.")
	}
	if r.Bounds == nil {
		return nil, nil
	}
	return l.Clamp(r.Bounds, most), nil
}
