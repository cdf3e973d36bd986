package head

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/llmgov/llmgov/governor/tokens"
	"github.com/llmgov/llmgov/internal/lib/form"
)

// readForm reads a multipart body and its governed fields, each of which may be there at most once, and
// under no other name that a server could take for it.
func ReadForm(body []byte, contentType string) (*Head, *form.Form, *Error) {
	f, problem := form.Parse(body, contentType)
	if problem != nil {
		return nil, nil, &Error{problem.Field, problem.What}
	}
	h := &Head{Copies: 1, isForm: true}
	var seen []string
	var texts [][]byte
	for i := range f.Parts {
		part := &f.Parts[i]
		if err := h.readPart(part, &seen); err != nil {
			return nil, nil, err
		}
		if !part.IsFile() {
			texts = append(texts, part.Content)
		}
	}
	h.Excerpt = tokens.ExcerptOfTexts(texts)
	return h, f, nil
}

// readPart takes a governed field over, and weighs the others: texts as they are, files by their
// length.
func (h *Head) readPart(part *form.Part, seen *[]string) *Error {
	if formRefers(part.Name) {
		return bad(part.Name, "The field %q is not supported in a form.", part.Name)
	}
	if known := formGoverned(part.Name); known != "" {
		if naming[known] != nil {
			return bad(part.Name, "The field %q is not supported in a form.", part.Name)
		}
		var err *Error
		*seen, err = oneOf(*seen, part.Name, known)
		if err != nil {
			return err
		}
		if slices.Contains(formFields, known) {
			return h.readFormField(part)
		}
	}
	h.weighPart(part)
	return nil
}

// formFields are the fields of forms that decide about a call.
var formFields = []string{"model", "stream", "purpose", "n"}

// readFormField reads such a field.
func (h *Head) readFormField(part *form.Part) *Error {
	name := part.Name
	value := string(part.Content)
	if part.IsFile() {
		return bad(name, "%s must be a text, not a file.", name)
	}
	if value == "" || len(value) > maxName || !utf8.ValidString(value) || strings.ContainsFunc(value, isControl) {
		return bad(name, "%s must be 1 to 256 bytes of plain text.", name)
	}
	switch name {
	case "model":
		h.Model = value
	case "purpose":
		h.Purpose = value
	case "stream":
		return h.readFormStream(part, value)
	case "n":
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n < 1 || n > maxN || strconv.FormatInt(n, 10) != value {
			return bad(name, "n must be a whole number from 1 to %d, not %s.", maxN, strconv.Quote(value))
		}
		h.Copies = n
	}
	return nil
}

// readFormStream reads true and false as they are written by some languages, and passes on one spelling.
func (h *Head) readFormStream(part *form.Part, value string) *Error {
	value = strings.ToLower(value)
	if value != "true" && value != "false" {
		return bad("stream", "stream must be true or false, not %s.", strconv.Quote(value))
	}
	h.Stream = value == "true"
	part.Content = []byte(value)
	return nil
}

// weighPart weighs a field that decides nothing.
func (h *Head) weighPart(part *form.Part) {
	if part.IsFile() {
		h.files++
		h.bytes += int64(len(part.Content))
		return
	}
	h.Prompt.Size = h.Prompt.Plus(tokens.SizeOf(part.Content))
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

// formGoverned is the governed key for which a server could take a field's name: some ignore case, and
// some read model[] and model.x as model. Of image[] and the like there may be many.
func formGoverned(name string) string {
	base := strings.TrimLeft(name, "[].")
	if i := strings.IndexAny(base, "[]."); i >= 0 {
		base = base[:i]
	}
	known, _ := governedKey(base)
	return known
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
