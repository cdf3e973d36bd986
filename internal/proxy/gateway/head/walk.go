package head

import "github.com/llmgov/llmgov/internal/lib/jsonscan"

// References lists the ids to which the body refers. The error is that of a reference that cannot be read.
func (h *Head) References() ([]Reference, *Error) { return h.references, h.unreferable }

// ForgetReferences drops them, with the files of the prompt, once all are checked and weighed.
func (h *Head) ForgetReferences() {
	h.references = nil
	h.Prompt.Files = nil
}

// NamesDeeper reports whether a member below the top level of the body, which is no reference, names a
// model by a string.
func (h *Head) NamesDeeper() bool { return h.deeper }

// Walk lists the ids to which a JSON document refers, and calls member for each member of an object that
// is no reference, with its depth; 1 is the document itself. A value that is no string is passed as "{".
// The document must be well formed.
func Walk(body []byte, member func(key, text string, depth int)) ([]Reference, *Error) {
	f := finder{member: member}
	f.reset(body)
	s := jsonscan.New(body)
	for t := s.Next(); t.Kind > jsonscan.Invalid; t = s.Next() {
		f.token(t)
		if f.problem != nil {
			return nil, f.problem
		}
	}
	return f.found, nil
}
