package gateway

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"strings"

	"github.com/llmgov/llmgov/governor/tokens"
)

// readForm reads the governed fields of a multipart body, such as the model, each of which may be
// there at most once. Readers of multipart differ in what they make of unusual headers, so these
// are refused: a part that another reader took for the model would carry a call past its grant.
func readForm(body []byte, contentType string) (*head, *badRequest) {
	boundary, err := plainBoundary(contentType)
	if err != nil {
		return nil, err
	}
	h := &head{copies: 1}
	seen := map[string]bool{}
	for parts := multipart.NewReader(bytes.NewReader(body), boundary); ; {
		part, err := parts.NextRawPart()
		if errors.Is(err, io.EOF) {
			return h, endsThere(body, boundary)
		}
		if err != nil {
			return nil, bad("", "The body is not valid multipart/form-data.")
		}
		if !plainDisposition(part) {
			return nil, bad("", "A part's Content-Disposition must be one line, form-data with a plain name.")
		}
		if err := h.readPart(part, seen); err != nil {
			return nil, err
		}
	}
}

// plainBoundary is the boundary of a Content-Type that has no other parameters.
func plainBoundary(contentType string) (string, *badRequest) {
	kind, params, err := mime.ParseMediaType(contentType)
	if err != nil || kind != "multipart/form-data" || params["boundary"] == "" || len(params) != 1 || strings.ContainsAny(contentType, "*\\") {
		return "", bad("", "The Content-Type must be multipart/form-data with a boundary and nothing else, not %q.", contentType)
	}
	return params["boundary"], nil
}

func plainDisposition(part *multipart.Part) bool {
	lines := part.Header["Content-Disposition"]
	return len(lines) == 1 && part.FormName() != "" && !strings.ContainsAny(lines[0], "*\\")
}

// endsThere refuses anything after the closing boundary.
func endsThere(body []byte, boundary string) *badRequest {
	end := []byte("--" + boundary + "--")
	i := bytes.LastIndex(body, end)
	if i < 0 || len(bytes.TrimSpace(body[i+len(end):])) > 0 {
		return bad("", "The body goes on behind its closing boundary.")
	}
	return nil
}

// readPart takes a governed field over, and weighs the others: texts as they are, files by their
// length.
func (h *head) readPart(part *multipart.Part, seen map[string]bool) *badRequest {
	name := part.FormName()
	switch {
	case formRefers(name):
		return bad(name, "The field %q is not supported in a form.", name)
	case name != "model" && name != "stream" && name != "purpose":
		return h.weighPart(part)
	case seen[name]:
		return bad(name, "The field %q is there twice; which of its values counts is ambiguous.", name)
	}
	seen[name] = true
	value, err := io.ReadAll(io.LimitReader(part, 257))
	if err != nil || len(value) == 0 || len(value) > 256 {
		return bad(name, "%s must be 1 to 256 bytes long.", name)
	}
	switch name {
	case "model":
		h.model = string(value)
	case "purpose":
		h.purpose = string(value)
	default:
		h.stream = string(value) == "true"
	}
	return nil
}

// weighPart weighs a field that decides nothing.
func (h *head) weighPart(part *multipart.Part) *badRequest {
	weigh := func(text []byte) { h.prompt.Size[tokens.Text] += tokens.Weigh(text) }
	if part.FileName() != "" {
		h.files++
		weigh = func(text []byte) { h.bytes += int64(len(text)) }
	}
	var buf [4 << 10]byte
	for {
		n, err := part.Read(buf[:])
		weigh(buf[:n])
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return bad(part.FormName(), "The field %q broke off.", part.FormName())
		}
	}
}

// weighFiles weighs the files of a form as what the route takes them for.
func (h *head) weighFiles(kind tokens.Kind) {
	size := &h.prompt.Size
	switch kind {
	case tokens.Image:
		size[tokens.Image] += tokens.Pictures(h.files)
	case tokens.Sound:
		size[tokens.Sound] += tokens.SoundOf(h.bytes)
	default:
		size[tokens.Text] += tokens.DocumentOf(h.bytes)
	}
}

// formRefers reports whether any element of a field's name, such as image[file_id], refers to an
// object.
func formRefers(name string) bool {
	for _, element := range strings.FieldsFunc(name, func(r rune) bool { return strings.ContainsRune("[].", r) }) {
		if refersTo(element) != none {
			return true
		}
	}
	return false
}
