package head

import (
	"bytes"

	"github.com/llmgov/llmgov/governor/tokens"
	"github.com/llmgov/llmgov/internal/lib/jsonscan"
)

// Reader reads bodies, one after the other, each once for all that is to be known of it. Its memory is
// used again.
type Reader struct {
	top  topLevel
	refs finder
	size tokens.Measurer
	conv conversing
}

// byteOrderMark is the mark with which some writers of .NET and PowerShell begin a JSON body. Some servers refuse a body because of it.
var byteOrderMark = []byte("\ufeff")

// Unmarked is a JSON body without its byte order mark, as it is to be read and sent on.
func Unmarked(body []byte) []byte { return bytes.TrimPrefix(body, byteOrderMark) }

// Read is [Reader.Read] of a new Reader into a new Head.
func Read(body []byte) (*Head, *Error) {
	h := &Head{}
	if err := new(Reader).Read(h, body); err != nil {
		return nil, err
	}
	return h, nil
}

// Read reads the governed fields of a JSON body, its references and its size, strictly, into h, which is
// empty. It does not keep the body.
func (r *Reader) Read(h *Head, body []byte) *Error {
	r.reset(body)
	defer r.reset(nil)
	if !r.pass(body) {
		return malformed(body)
	}
	h.Prompt = r.size.Body()
	h.Conversation = r.conv.out
	h.references = r.refs.found
	h.unreferable = r.refs.problem
	h.deeper = r.refs.deeper
	return r.top.read(h)
}

// reset begins with another body.
func (r *Reader) reset(body []byte) {
	r.top.reset(body)
	r.refs.reset(body)
	r.size.Reset(body)
	r.conv.reset(body)
}

// pass reads a body from front to back, and reports whether it is well formed.
func (r *Reader) pass(body []byte) bool {
	s := jsonscan.New(body)
	for {
		t := s.Next()
		switch t.Kind {
		case jsonscan.End:
			return true
		case jsonscan.Invalid:
			return false
		}
		r.token(t)
	}
}

// token takes in the next token.
func (r *Reader) token(t jsonscan.Token) {
	r.conv.token(t, r.top.depth)
	r.top.token(t)
	r.refs.token(t)
	r.size.Token(t)
}
