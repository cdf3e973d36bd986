package head

import (
	"github.com/tidwall/gjson"

	"github.com/llmgov/llmgov/governor/tokens"
	"github.com/llmgov/llmgov/internal/lib/splice"
)

const (
	// maxCount bounds numbers that size an answer. Nobody means more than that: clients write the largest number that they know for no
	// bound, which is noBound here.
	maxCount = 1_000_000_000
	noBound  = maxCount + 1
	// maxN bounds n and best_of.
	maxN = 1024
	// maxCopies bounds how many answers a call may ask for: n or best_of, times the prompts of a
	// completions call.
	maxCopies = 4096
	// maxName bounds names of models and purposes, in bytes.
	maxName = 256
)

// field is a governed value of a body, and where it stands there.
type field struct {
	present    bool // also when null
	value      int64
	start, end int
}

// fieldAt is the place of a value.
func fieldAt(v gjson.Result) field {
	return field{present: true, start: v.Index, end: v.Index + len(v.Raw)}
}

// Head is the part of a body that decides about a call, and where to edit it.
type Head struct {
	Model    string
	Deployed bool    // the model is named by the path alone
	Others   []Other // further models
	// FallsBack means that the provider may choose another model if this one fails.
	FallsBack bool
	Stream    bool
	Tier      string // of service, if it is another than the usual one
	// Asked is the last of the tiers of service that it names, by whichever key; nil is none.
	Asked  *ServiceTier
	Copies int64 // how many answers are produced: n or best_of, for each prompt

	Prompt   tokens.Body    // its size, except for the objects to which it refers
	Referred Referred       // the size of these; see Weigh
	Excerpt  tokens.Excerpt // of the texts of a form

	Conversation Conversation // of a JSON body
	User         string       // who makes the call

	Purpose  string // of a file
	Endpoint string // the route that a batch calls
	Unstored bool   // the upstream does not keep the answer
	// Background answers come later, when they are asked for.
	Background bool
	// Backdrop means that images call something else background: a text that describes the background
	// of the image.
	Backdrop bool
	Audio    bool // the answer may be sound, to which later calls can refer

	modelAt       field // of its value in a JSON body
	bounds        [numBounds]field
	prompts       int64
	streamOptions streamOptions
	open          int  // just behind the body's {
	empty         bool // the body is {}

	isForm bool
	files  int64 // of a form
	bytes  int64 // of these files

	references  []Reference
	unreferable *Error // why there are none
	deeper      bool   // see NamesDeeper

	scanned int // bytes of values that were read again by their rules
}

// Referred is the part of a prompt that a body has by reference.
type Referred struct {
	Size   tokens.Size // of files, by their length
	Tokens int64       // as the upstream counted them
	Unseen int64       // things of which nothing is known
}

// Other is a model that a body names besides the one that it asks for.
type Other struct {
	Model   string
	Param   string // the key under which it stands
	Instead bool   // it may answer the call in place of the model that was asked for
}

// ServiceTier is a tier of service, the key under which it stands, and one that a body names before it.
type ServiceTier struct {
	Param, Name string
	Before      *ServiceTier

	at      field
	asks    string // "" if it asks for nothing else than a call that names no tier
	lowered bool
	usual   string // what is written in its place if it is lowered; "" takes its member out

	members    int         // before its own
	out, first splice.Edit // take its member out, if others stay before it and if not
}

// Reference is an id to which a body refers, and the key under which it does.
type Reference struct{ Key, ID string }

// streamOptions are the stream_options of a body.
type streamOptions struct {
	field              // of the whole value; null counts as absent
	includeUsage bool  // the client asks for usage
	usageField   field // of the include_usage value
	open         int   // just behind the {
	empty        bool  // {}
}

// Bound is one of the names by which bodies bound the length of an answer.
type Bound int

// The names of bounds.
const (
	MaxTokens Bound = iota
	MaxCompletionTokens
	MaxOutputTokens
	numBounds
)

var boundKeys = [numBounds]string{"max_tokens", "max_completion_tokens", "max_output_tokens"}

// AnyBound has all names of bounds.
var AnyBound = []Bound{MaxTokens, MaxCompletionTokens, MaxOutputTokens}
