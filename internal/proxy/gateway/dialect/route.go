package dialect

import (
	"github.com/llmgov/llmgov/governor/tokens"
	"github.com/llmgov/llmgov/internal/proxy/gateway/head"
)

// Body is how the body of a route carries the model.
type Body int

// The kinds of bodies.
const (
	JSON Body = iota
	Form      // multipart/form-data
	None      // none, or one that says nothing
)

// Route is a route of inference, which is a POST.
type Route struct {
	Path string // below /v1
	Body Body
	// Bounds are the names by which its bodies bound the length of an answer, the one to add first; none if
	// it produces no tokens, or is open. Other names bound nothing here.
	Bounds []head.Bound
	// Chunked routes have stream_options, and its extra usage chunk.
	Chunked bool
	// Open routes produce tokens, and nothing in a call bounds how many.
	Open bool
	// Sounds means that its calls ask for sound, or for its text, in other forms than JSON, too.
	Sounds bool
	// Files is the kind of the files of a form.
	Files tokens.Kind
	// Free routes take no tokens: they only count them.
	Free bool
	// AnyModel routes do not require a model; without one the tenant's default pool serves them.
	AnyModel bool
	// Stores means that its answers are objects of the upstream, to which later calls can refer.
	Stores bool
	// Backdrop means that its background is a text, and not whether the answer comes later.
	Backdrop bool
	// Operation is its name in the conventions for spans; "" if these have none.
	Operation string
}
