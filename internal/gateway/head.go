package gateway

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unsafe"

	"github.com/tidwall/gjson"

	"github.com/llmgov/llmgov/governor/tokens"
)

// maxCount bounds numbers that size an answer. Nobody means more than that.
const maxCount = 1_000_000_000

// badRequest is what is wrong with a body. param names the field, for the error's param.
type badRequest struct{ param, what string }

func (e *badRequest) Error() string { return e.what }

func bad(param, format string, args ...any) *badRequest {
	return &badRequest{param, fmt.Sprintf(format, args...)}
}

// field is a governed value of the body, and where it stands there.
type field struct {
	present    bool // also when null
	value      int64
	start, end int
}

// bound is one of the names by which bodies bound the length of an answer.
type bound int

const (
	maxTokens bound = iota
	maxCompletionTokens
	maxOutputTokens
	numBounds
)

var boundKeys = [numBounds]string{"max_tokens", "max_completion_tokens", "max_output_tokens"}

// maxN bounds n and best_of.
const maxN = 1024

// maxCopies bounds how many answers a call may ask for: n or best_of, times the prompts of a
// completions call.
const maxCopies = 4096

// head is what the gateway needs to know of a body, and where to edit it.
type head struct {
	model    string
	modelAt  field // of its value in a JSON body
	named    bool  // the model was named by the path alone
	stream   bool
	bounds   [numBounds]field
	copies   int64 // how many answers are produced: n or best_of, for each prompt
	prompts  int64
	prompt   tokens.Body // how large it is, but for what it refers to,
	referred referred
	// and for the files of a form:
	files   int64 // how many there are,
	bytes   int64 // and how long they are together
	purpose string
	// endpoint is the route that a batch calls.
	endpoint string
	// unstored answers are not kept by the upstream.
	unstored bool
	// background answers come later, when they are asked for. A backdrop is what images call by the
	// same name: a text that says what is to be behind the image.
	background bool
	backdrop   bool
	audio      bool // the answer may be sound, to which later calls can refer
	others     []other
	falls      bool // where this model fails, the provider may choose another

	streamOptions struct {
		field              // of the whole value; null counts as absent
		includeUsage bool  // what the client asked for
		usageField   field // of the include_usage value
		open         int   // just behind the {
		empty        bool  // {}
	}

	open  int  // just behind the body's {
	empty bool // the body is {}

	scanned int // bytes that were read to find all this, those that were read twice counted twice
}

// governed are the top-level keys that decide. Every JSON reader must see the same value for them.
// A key that occurs twice, of which readers take one or the other, or a key in another case, which
// Go's own reader accepts, could let the upstream see another value than the gateway did.
var governed = map[string]func(*head, gjson.Result) *badRequest{
	"model":                 (*head).readModel,
	"stream":                (*head).readStream,
	"stream_options":        (*head).readStreamOptions,
	"max_tokens":            func(h *head, v gjson.Result) *badRequest { return h.readBound(maxTokens, v) },
	"max_completion_tokens": func(h *head, v gjson.Result) *badRequest { return h.readBound(maxCompletionTokens, v) },
	"max_output_tokens":     func(h *head, v gjson.Result) *badRequest { return h.readBound(maxOutputTokens, v) },
	"n":                     func(h *head, v gjson.Result) *badRequest { return h.readCopies("n", v) },
	"best_of":               func(h *head, v gjson.Result) *badRequest { return h.readCopies("best_of", v) },
	"prompt":                (*head).readPrompt,
	"background":            (*head).readBackground,
	"store":                 (*head).readStore,
	"conversation":          (*head).readConversation,
	"purpose":               (*head).readPurpose,
	"endpoint":              (*head).readEndpoint,
	"integrations":          (*head).readIntegrations,
	"audio":                 func(h *head, v gjson.Result) *badRequest { h.audio = v.IsObject(); return nil },
}

// governedKeys are those keys as a list, which is walked much faster than a map.
var governedKeys = slices.Collect(maps.Keys(governed))

// readHead reads the governed fields of a JSON body, strictly. It does not keep body.
func readHead(body []byte) (*head, *badRequest) {
	if err := wellFormed(body); err != nil {
		return nil, err
	}
	h := &head{}
	if err := h.read(body); err != nil {
		return nil, err
	}
	h.prompt = tokens.Measure(body)
	return h, nil
}

// read reads the governed fields of a JSON body that is well formed.
func (h *head) read(body []byte) *badRequest {
	// gjson wants a string; the body is not changed while the strings live, and
	// none of them is kept but the model, which is copied.
	root := gjson.Parse(unsafe.String(unsafe.SliceData(body), len(body)))
	if !root.IsObject() {
		return bad("", "The body must be a JSON object.")
	}
	h.copies = 1
	h.prompts = 1
	h.empty = true
	h.open = bytes.IndexByte(body, '{') + 1
	var problem *badRequest
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
	h.copies *= h.prompts
	if h.copies > maxCopies {
		return bad("n", "The call asks for %d answers, more than %d.", h.copies, maxCopies)
	}
	return nil
}

// oneOf adds a governed key to those that were seen. It refuses a key that is there already, or differs
// from its name by case.
func oneOf(seen []string, key, name string) ([]string, *badRequest) {
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
func governedKey(key string) (string, func(*head, gjson.Result) *badRequest) {
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
