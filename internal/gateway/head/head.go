package head

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"unsafe"

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

	scanned int // bytes that were read to find all this, those that were read twice counted twice
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
	"prompt":                (*Head).readPrompt,
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

// readHead reads the governed fields of a JSON body, strictly. It does not keep body.
func Read(body []byte) (*Head, *Error) {
	if err := WellFormed(body); err != nil {
		return nil, err
	}
	h := &Head{}
	if err := h.read(body); err != nil {
		return nil, err
	}
	h.Prompt = tokens.Measure(body)
	return h, nil
}

// read reads the governed fields of a JSON body that is well formed.
func (h *Head) read(body []byte) *Error {
	// gjson wants a string; the body is not changed while the strings live, and
	// none of them is kept but the model, which is copied.
	root := gjson.Parse(unsafe.String(unsafe.SliceData(body), len(body)))
	if !root.IsObject() {
		return bad("", "The body must be a JSON object.")
	}
	h.Copies = 1
	h.prompts = 1
	h.empty = true
	h.open = bytes.IndexByte(body, '{') + 1
	var problem *Error
	var seen [16]string
	names := seen[:0]
	h.each(root, func(key, value gjson.Result) bool {
		h.empty = false
		name, read := governedKey(key.Str)
		if read == nil {
			return true
		}
		names, problem = oneOf(names, key.Str, name)
		if problem == nil {
			problem = read(h, value)
		}
		return problem == nil
	})
	if problem != nil {
		return problem
	}
	h.Copies *= h.prompts
	if h.Copies > maxCopies {
		return bad("n", "The call asks for %d answers, more than %d.", h.Copies, maxCopies)
	}
	return nil
}

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
	if read, ok := governed[key]; ok {
		return key, read
	}
	if len(key) > 40 { // longer than any fold of a governed key
		return "", nil
	}
	plain := isASCII(key) // what is not may fold to a name of another length
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

func isASCII(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}
