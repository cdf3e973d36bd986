package form

import (
	"bytes"
	"fmt"
	"mime"
	"strings"
	"unicode/utf8"

	"github.com/llmgov/llmgov/internal/lib/splice"
	"github.com/llmgov/llmgov/internal/lib/text"
)

// Part is one field of a form: a text, or a file.
type Part struct {
	Name     string
	Filename string // of a file; empty for a text
	Type     string // the media type of a file
	Content  []byte
	Edits    []splice.Edit // what is sent instead of some of the content; they do not overlap
}

// IsFile reports whether the part is a file.
func (p *Part) IsFile() bool { return p.Filename != "" }

// Form is a form as it was read.
type Form struct{ Parts []Part }

// Text replaces the text of a field.
func (f *Form) Text(name, text string) {
	for i := range f.Parts {
		if p := &f.Parts[i]; p.Name == name && !p.IsFile() {
			p.Content = []byte(text)
		}
	}
}

// Error says what is wrong with a form. Field is the name of the part in which it is, if that is known.
type Error struct{ Field, What string }

func (e *Error) Error() string { return e.What }

func bad(format string, args ...any) *Error { return &Error{What: fmt.Sprintf(format, args...)} }

// maxParts bounds the parts of a form. Servers take a thousand at most.
const maxParts = 1000

var crlf = []byte("\r\n")

// Parse reads a form. The contents of its parts are slices of body.
func Parse(body []byte, contentType string) (*Form, *Error) {
	boundary, problem := boundaryOf(contentType)
	if problem != nil {
		return nil, problem
	}
	delimiter := []byte("--" + boundary)
	preamble, rest, begins := bytes.Cut(body, delimiter)
	if !begins || len(preamble) > 0 && !bytes.HasSuffix(preamble, crlf) {
		return nil, bad("The form must have the boundary %q that the Content-Type names, at its beginning or after CR LF.", "--"+boundary)
	}
	f := &Form{}
	for { // rest is what follows a delimiter
		if tail, closes := bytes.CutPrefix(rest, []byte("--")); closes {
			return f, f.close(tail, delimiter)
		}
		if len(f.Parts) == maxParts {
			return nil, bad("The form has more than %d parts.", maxParts)
		}
		line, ok := bytes.CutPrefix(bytes.TrimLeft(rest, " \t"), crlf)
		if !ok {
			return nil, bad("Each boundary must be a line of its own, ended by CR LF, with nothing but blanks behind it.")
		}
		end := bytes.Index(line, delimiter)
		if end < 0 {
			return nil, bad("The form has no closing boundary.")
		}
		raw, ok := bytes.CutSuffix(line[:end], crlf)
		if !ok {
			return nil, bad("Each boundary must be a line of its own, after CR LF.")
		}
		part, problem := readPart(raw)
		if problem != nil {
			return nil, problem
		}
		f.Parts = append(f.Parts, part)
		rest = line[end+len(delimiter):]
	}
}

// close checks what follows the closing boundary: blanks, and lines that no reader takes for parts.
func (f *Form) close(tail, delimiter []byte) *Error {
	tail = bytes.TrimLeft(tail, " \t")
	if len(tail) > 0 && !bytes.HasPrefix(tail, crlf) || bytes.Contains(tail, delimiter) {
		return bad("The form goes on behind its closing boundary.")
	}
	if len(f.Parts) == 0 {
		return bad("The form has no parts.")
	}
	return nil
}

// boundaryOf is the boundary of a Content-Type that has no other parameters.
func boundaryOf(contentType string) (string, *Error) {
	kind, params, err := mime.ParseMediaType(contentType)
	boundary := params["boundary"]
	if strings.EqualFold(params["charset"], "utf-8") { // as some write who mean the texts
		delete(params, "charset")
	}
	if err != nil || kind != "multipart/form-data" || len(params) != 1 || strings.ContainsAny(contentType, "*\\") || !isBoundary(boundary) {
		return "", bad("The Content-Type must be multipart/form-data with a boundary of 1 to 70 plain characters and nothing else, not %q.", text.Brief(contentType))
	}
	return boundary, nil
}

// isBoundary reports whether a boundary is as RFC 2046 wants it, without spaces.
func isBoundary(s string) bool {
	if s == "" || len(s) > 70 {
		return false
	}
	return strings.IndexFunc(s, func(r rune) bool { return !isAlnum(r) && !strings.ContainsRune("'()+_,-./:=?", r) }) < 0
}

// readPart reads a part: its headers, an empty line, and its content.
func readPart(raw []byte) (Part, *Error) {
	text, content, ok := bytes.Cut(raw, []byte("\r\n\r\n"))
	if !ok || len(text) > maxHeaders {
		return Part{}, bad("A part of the form must begin with headers of at most %d bytes and an empty line, with CR LF.", maxHeaders)
	}
	h, problem := readHeaders(string(text))
	if problem != nil {
		return Part{}, problem
	}
	part := Part{Name: h.name, Filename: h.filename, Content: content}
	if part.IsFile() {
		part.Type = h.fileType()
	} else if !utf8.Valid(content) {
		problem = bad("The field %q is not valid UTF-8.", part.Name)
	}
	if problem == nil {
		problem = h.check(part.IsFile(), content)
	}
	if problem != nil {
		problem.Field = part.Name
	}
	return part, problem
}

func isAlnum(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
}
