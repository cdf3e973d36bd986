package head

import (
	"maps"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/llmgov/llmgov/governor/tokens"
)

const (
	// maxCount bounds numbers that size an answer. Nobody means more than that.
	maxCount = 1_000_000_000
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
	Copies    int64 // how many answers are produced: n or best_of, for each prompt

	Prompt   tokens.Body // its size, except for the objects to which it refers
	Referred Referred    // the size of these; see Weigh

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

// governed are the top-level keys that decide. Every JSON reader must see the same value for them.
// A key that occurs twice, of which readers take one or the other, or a key in another case, which
// Go's own reader accepts, could let the upstream see another value than the gateway did.
var governed = map[string]func(*Head, gjson.Result) *Error{
	"model":                 (*Head).readModel,
	"stream":                (*Head).readStream,
	"stream_options":        (*Head).readStreamOptions,
	"max_tokens":            func(h *Head, v gjson.Result) *Error { return h.readBound(MaxTokens, v) },
	"max_completion_tokens": func(h *Head, v gjson.Result) *Error { return h.readBound(MaxCompletionTokens, v) },
	"max_output_tokens":     func(h *Head, v gjson.Result) *Error { return h.readBound(MaxOutputTokens, v) },
	"n":                     func(h *Head, v gjson.Result) *Error { return h.readCopies("n", v) },
	"best_of":               func(h *Head, v gjson.Result) *Error { return h.readCopies("best_of", v) },
	"prompt":                func(*Head, gjson.Result) *Error { return nil }, // topLevel counts the prompts
	"background":            (*Head).readBackground,
	"store":                 (*Head).readStore,
	"conversation":          (*Head).readConversation,
	"purpose":               (*Head).readPurpose,
	"endpoint":              (*Head).readEndpoint,
	"integrations":          (*Head).readIntegrations,
	"audio":                 func(h *Head, v gjson.Result) *Error { h.Audio = v.IsObject(); return nil },
}

// governedKeys are those keys as a list, which is walked much faster than a map.
var governedKeys = slices.Collect(maps.Keys(governed))

// oneOf adds a governed key to those that were seen. It refuses a key that is there already, or differs
// from its name by case.
func oneOf(seen []string, key, name string) ([]string, *Error) {
	if name != key {
		return seen, bad(name, "The key %q differs from %q only by case, which servers read differently. Write %q.", key, name, name)
	}
	if slices.Contains(seen, name) {
		return seen, bad(name, "The key %q is there twice; which of its values counts is ambiguous.", name)
	}
	return append(seen, name), nil
}

// governedKey returns the governed key that a reader ignoring case would take key for, and its
// reader; or "" and nil.
func governedKey(key string) (string, func(*Head, gjson.Result) *Error) {
	if len(key) > 40 { // longer than any fold of a governed key
		return "", nil
	}
	plain := isASCII(key) // other keys may fold to a name of another length
	for _, name := range governedKeys {
		if plain && len(name) != len(key) {
			continue
		}
		if strings.EqualFold(name, key) {
			return name, governed[name]
		}
	}
	return "", nil
}

// isASCII reports whether a text has no byte beyond ASCII.
func isASCII[T string | []byte](text T) bool {
	for i := 0; i < len(text); i++ {
		if text[i] >= 0x80 {
			return false
		}
	}
	return true
}
