package gateway

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
	"unsafe"

	"github.com/tidwall/gjson"

	"github.com/llmgov/llmgov/governor/tokens"
)

// maxDepth and the number of brackets that can make it bound how deeply a body
// may nest: JSON readers recurse, and Go cannot recover from a full stack.
const maxDepth = 1000

// maxCount bounds numbers that size an answer. Nobody means more.
const maxCount = 1_000_000_000

// badRequest is what is wrong with a body. Param names the field, for the
// error's param.
type badRequest struct{ param, what string }

func (e *badRequest) Error() string { return e.what }

func bad(param, format string, args ...any) *badRequest {
	return &badRequest{param, fmt.Sprintf(format, args...)}
}

// field is a governed number of the body and where it stands.
type field struct {
	present    bool // also when null
	value      int64
	start, end int
}

// bound is one of the names of the bound on an answer's length.
type bound int

const (
	maxTokens bound = iota
	maxCompletionTokens
	maxOutputTokens
	numBounds
)

var boundKeys = [numBounds]string{"max_tokens", "max_completion_tokens", "max_output_tokens"}

// maxCopies bounds how many answers one call may ask for: n, times the prompts of
// a completions call.
const maxCopies = 4096

// head is what the gateway needs to know of a body, and where to splice.
type head struct {
	model   string
	modelAt field // of its value in a JSON body
	named   bool  // the model by the path alone
	stream  bool
	bounds  [numBounds]field
	copies  int64 // how many answers are produced: n or best_of, for each prompt
	prompts int64
	weight  int64 // of what may be prompt, for estimating it; see package tokens
	purpose string
	// endpoint is what a batch calls.
	endpoint string
	// unstored answers are not kept by the upstream.
	unstored bool
	// background answers come later, to who asks for them. A backdrop is a text by the
	// same name: what is to be behind an image.
	background bool
	backdrop   bool
	audio      bool // the answer may be sound, to which later calls can refer
	others     []other
	falls      bool // the provider is to choose a model where this one fails

	streamOptions struct {
		field              // of the whole value; null counts as absent
		includeUsage bool  // what the client asked for
		usageField   field // of the include_usage value
		open         int   // just behind the {
		empty        bool  // {}
	}

	open  int  // just behind the body's {
	empty bool // the body is {}
}

// governed are the top-level keys that decide. Their value must be unambiguous
// to every JSON reader: a second occurrence, which some readers take and others
// leave, or another spelling by case, which Go's own reader accepts, would let
// the upstream see another value than the gateway did.
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

// governedKeys are those keys: a list is walked in a fraction of the time that a map takes.
var governedKeys = slices.Collect(maps.Keys(governed))

// readHead reads the governed fields of a JSON body, strictly. body is not kept.
func readHead(body []byte) (*head, *badRequest) {
	if err := wellFormed(body); err != nil {
		return nil, err
	}
	// gjson wants a string; the body is not changed while the strings live, and
	// none of them is kept but the model, which is copied.
	root := gjson.Parse(unsafe.String(unsafe.SliceData(body), len(body)))
	if !root.IsObject() {
		return nil, bad("", "The body must be a JSON object.")
	}
	h := &head{copies: 1, prompts: 1, empty: true, open: bytes.IndexByte(body, '{') + 1}
	var problem *badRequest
	var seen [16]string
	names := seen[:0]
	root.ForEach(func(key, value gjson.Result) bool {
		h.empty = false
		name, read := governedKey(key.Str)
		if read == nil {
			return true
		}
		if name != key.Str {
			problem = bad(name, "The key %q differs from %q only by case, which servers read differently. Write %q.", key.Str, name, name)
			return false
		}
		for _, n := range names {
			if n == name {
				problem = bad(name, "The key %q is there twice; which of its values counts is ambiguous.", name)
				return false
			}
		}
		names = append(names, name)
		problem = read(h, value)
		return problem == nil
	})
	if problem != nil {
		return nil, problem
	}
	if h.copies *= h.prompts; h.copies > maxCopies {
		return nil, bad("n", "The call asks for %d answers, more than %d.", h.copies, maxCopies)
	}
	h.weight = tokens.Weigh(body)
	return h, nil
}

// governedKey finds the governed key that a reader which ignores case would
// take key for.
func governedKey(key string) (string, func(*head, gjson.Result) *badRequest) {
	if read, ok := governed[key]; ok {
		return key, read
	}
	if len(key) > 40 { // longer than any fold of a governed key
		return "", nil
	}
	for _, name := range governedKeys {
		if strings.EqualFold(name, key) {
			return name, governed[name]
		}
	}
	return "", nil
}

// wellFormed refuses what JSON readers disagree on or cannot bear.
func wellFormed(body []byte) *badRequest {
	if !utf8.Valid(body) {
		return bad("", "The body is not valid UTF-8.")
	}
	if bytes.Count(body, []byte{'['})+bytes.Count(body, []byte{'{'}) > maxDepth && depth(body) > maxDepth {
		return bad("", "The body nests deeper than %d levels.", maxDepth)
	}
	if !gjson.ValidBytes(body) {
		return bad("", "The body is not valid JSON.")
	}
	return nil
}

// depth is how deeply brackets nest outside of strings.
func depth(body []byte) int {
	deepest, now := 0, 0
	inString := false
	for i := 0; i < len(body); i++ {
		switch b := body[i]; {
		case inString && b == '\\':
			i++
		case b == '"':
			inString = !inString
		case inString:
		case b == '[' || b == '{':
			if now++; now > deepest {
				deepest = now
			}
		case b == ']' || b == '}':
			now--
		}
	}
	return deepest
}

func (h *head) readModel(v gjson.Result) *badRequest {
	if v.Type != gjson.String || v.Str == "" || len(v.Str) > 256 {
		return bad("model", "model must be a string of 1 to 256 bytes, not %s.", show(v))
	}
	h.model = strings.Clone(v.Str)
	h.modelAt = field{present: true, start: v.Index, end: v.Index + len(v.Raw)}
	return nil
}

func (h *head) readStream(v gjson.Result) *badRequest {
	if v.Type != gjson.True && v.Type != gjson.False && v.Type != gjson.Null {
		return bad("stream", "stream must be true or false, not %s.", show(v))
	}
	h.stream = v.Type == gjson.True
	return nil
}

func (h *head) readBound(b bound, v gjson.Result) *badRequest {
	f, err := readCount(boundKeys[b], v)
	h.bounds[b] = f
	return err
}

// readPrompt counts the prompts of a completions call: an array of texts or of
// token lists gets an answer each.
func (h *head) readPrompt(v gjson.Result) *badRequest {
	if !v.IsArray() {
		return nil
	}
	n := int64(0)
	v.ForEach(func(_, item gjson.Result) bool {
		if item.Type == gjson.Number { // one prompt, as tokens
			n = 1
			return false
		}
		n++
		return true
	})
	h.prompts = max(1, n)
	return nil
}

func (h *head) readBackground(v gjson.Result) *badRequest {
	if h.backdrop = v.Type == gjson.String; h.backdrop {
		return nil
	}
	if v.Type != gjson.True && v.Type != gjson.False && v.Type != gjson.Null {
		return bad("background", "background must be true or false, not %s.", show(v))
	}
	h.background = v.Type == gjson.True
	return nil
}

func (h *head) readStore(v gjson.Result) *badRequest {
	if v.Type != gjson.True && v.Type != gjson.False && v.Type != gjson.Null {
		return bad("store", "store must be true or false, not %s.", show(v))
	}
	h.unstored = v.Type == gjson.False
	return nil
}

// readConversation refuses what another tenant could have made: conversations are made
// by a route that there is not.
func (h *head) readConversation(v gjson.Result) *badRequest {
	if v.Type == gjson.Null {
		return nil
	}
	return bad("conversation", "conversation: %s is not supported. Use previous_response_id.", show(v))
}

func (h *head) readEndpoint(v gjson.Result) *badRequest {
	if v.Type != gjson.String {
		return bad("endpoint", "endpoint must be a string, not %s.", show(v))
	}
	h.endpoint = strings.Clone(v.Str)
	return nil
}

// readIntegrations refuses what a fine-tuning job would be told to report to: it does so
// with the account's credentials for that, wherever the caller wants.
func (h *head) readIntegrations(v gjson.Result) *badRequest {
	if v.Type == gjson.Null || v.IsArray() && len(v.Array()) == 0 {
		return nil
	}
	return bad("integrations", "integrations: %s is not supported.", show(v))
}

func (h *head) readPurpose(v gjson.Result) *badRequest {
	if v.Type != gjson.String || v.Str == "" || len(v.Str) > 256 {
		return bad("purpose", "purpose must be a string of 1 to 256 bytes, not %s.", show(v))
	}
	h.purpose = strings.Clone(v.Str)
	return nil
}

func (h *head) readCopies(name string, v gjson.Result) *badRequest {
	f, err := readCount(name, v)
	if err == nil && f.value > 1024 {
		return bad(name, "%s must be at most 1024, not %d.", name, f.value)
	}
	h.copies = max(h.copies, f.value)
	return err
}

// readCount reads a whole number from 1 on. null means that there is none.
func readCount(name string, v gjson.Result) (field, *badRequest) {
	f := field{present: true, start: v.Index, end: v.Index + len(v.Raw)}
	if v.Type == gjson.Null {
		return f, nil
	}
	if v.Type != gjson.Number {
		return f, bad(name, "%s must be a whole number, not %s.", name, show(v))
	}
	n, err := strconv.ParseInt(v.Raw, 10, 64)
	if err != nil || n < 1 || n > maxCount {
		return f, bad(name, "%s must be a whole number from 1 to %d, not %s.", name, maxCount, show(v))
	}
	f.value = n
	return f, nil
}

func (h *head) readStreamOptions(v gjson.Result) *badRequest {
	so := &h.streamOptions
	so.present, so.start, so.end = true, v.Index, v.Index+len(v.Raw)
	if v.Type == gjson.Null {
		return nil
	}
	if !v.IsObject() {
		return bad("stream_options", "stream_options must be an object, not %s.", show(v))
	}
	so.open, so.empty = v.Index+1, true
	var problem *badRequest
	v.ForEach(func(key, value gjson.Result) bool {
		so.empty = false
		if !strings.EqualFold(key.Str, "include_usage") {
			return true
		}
		switch {
		case key.Str != "include_usage":
			problem = bad("stream_options", "The key %q differs from \"include_usage\" only by case.", key.Str)
		case so.usageField.present:
			problem = bad("stream_options", "The key \"include_usage\" is there twice.")
		case value.Type != gjson.True && value.Type != gjson.False && value.Type != gjson.Null:
			problem = bad("stream_options", "include_usage must be true or false, not %s.", show(value))
		}
		so.usageField = field{present: true, start: value.Index, end: value.Index + len(value.Raw)}
		so.includeUsage = value.Type == gjson.True
		return problem == nil
	})
	return problem
}

// show is a value as the client wrote it, cut short.
func show(v gjson.Result) string {
	const most = 40
	if len(v.Raw) <= most {
		return v.Raw
	}
	return strings.ToValidUTF8(v.Raw[:most], "") + "…"
}
