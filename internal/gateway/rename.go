package gateway

import (
	"bytes"
	"errors"
	"io"
	"mime/multipart"

	"github.com/tidwall/gjson"
)

// rename replaces the model in the call's body by the name that the upstream knows.
func (c *call) rename(edits []edit, real string) ([]edit, *refusal) {
	switch c.route.body {
	case noBody: // it is in the query
		return edits, nil
	case jsonBody:
		return c.head.rename(edits, real), nil
	}
	at, err := modelInForm(c.body, c.r.Header.Get("Content-Type"))
	if err != nil {
		return nil, invalid(err.param, err.what)
	}
	return append(edits, edit{at.start, at.end, real}), nil
}

// rename replaces the value of model in a JSON body, or adds it.
func (h *head) rename(edits []edit, real string) []edit {
	if h.named {
		return append(edits, edit{h.open, h.open, member("model", string(gjson.AppendJSONString(nil, real)), false)})
	}
	return append(edits, edit{h.modelAt.start, h.modelAt.end, string(gjson.AppendJSONString(nil, real))})
}

// modelInForm finds the value of the part named model in a body that readForm has read. Package
// multipart does not tell where a part is, so the delimiters are searched for again. What is found
// must be what multipart has read, or the body is refused.
func modelInForm(body []byte, contentType string) (field, *badRequest) {
	boundary, problem := plainBoundary(contentType)
	if problem != nil {
		return field{}, problem
	}
	unclear := bad("model", "Where the form's model begins and ends is ambiguous.")
	delimiter := []byte("--" + boundary)
	at := 0
	for parts := multipart.NewReader(bytes.NewReader(body), boundary); ; {
		part, err := parts.NextRawPart()
		if err != nil {
			return field{}, unclear
		}
		value, err := io.ReadAll(part)
		if err != nil && !errors.Is(err, io.EOF) {
			return field{}, unclear
		}
		start := contentAt(body, at, delimiter)
		end := start + len(value)
		if end > len(body) || !bytes.Equal(body[start:end], value) {
			return field{}, unclear
		}
		if part.FormName() == "model" {
			return field{present: true, start: start, end: end}, nil
		}
		at = end
	}
}

// contentAt is where the content of the next part after at begins: after the empty line that
// follows the next delimiter line.
func contentAt(body []byte, at int, delimiter []byte) int {
	inHeader := false
	for at < len(body) {
		end := len(body)
		if i := bytes.IndexByte(body[at:], '\n'); i >= 0 {
			end = at + i + 1
		}
		line := bytes.TrimRight(body[at:end], " \t\r\n")
		at = end
		switch {
		case inHeader && len(line) == 0:
			return at
		case bytes.Equal(line, delimiter):
			inHeader = true
		}
	}
	return at
}
