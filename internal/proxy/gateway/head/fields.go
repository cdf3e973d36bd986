package head

import (
	"math"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/llmgov/llmgov/internal/lib/splice"
)

// How the governed fields of a body are read, each by its own rule.

func (h *Head) readModel(v gjson.Result) *Error {
	model, ok := nameIn(v)
	if !ok {
		return bad("model", "model must be a string of 1 to 256 bytes, not %s.", show(v))
	}
	h.Model = model
	h.modelAt = fieldAt(v)
	return nil
}

// nameIn is a name of at most maxName bytes.
func nameIn(v gjson.Result) (name string, ok bool) {
	name = textOf(v)
	return name, name != "" && len(name) <= maxName
}

func (h *Head) readStream(v gjson.Result) *Error {
	if v.Type != gjson.True && v.Type != gjson.False && v.Type != gjson.Null {
		return bad("stream", "stream must be true or false, not %s.", show(v))
	}
	h.Stream = v.Type == gjson.True
	return nil
}

// readBound reads a bound. Nothing is held at 0 tokens, with which a cache is filled or a prompt is scored, but at 1; and -1, as llama.cpp
// has it, and what is beyond maxCount are none.
func (h *Head) readBound(b Bound, v gjson.Result) (err *Error) {
	n, isNumber := number(v)
	switch f := &h.bounds[b]; {
	case isNumber && n == 0:
		*f = fieldAt(v)
		f.value = 1
	case isNumber && (n == -1 || isBeyond(n)):
		*f = fieldAt(v)
		f.value = noBound
	default:
		*f, err = readCount(boundKeys[b], v)
	}
	return err
}

func (h *Head) readBackground(v gjson.Result) *Error {
	h.Backdrop = v.Type == gjson.String
	if h.Backdrop {
		return nil
	}
	if v.Type != gjson.True && v.Type != gjson.False && v.Type != gjson.Null {
		return bad("background", "background must be true or false, not %s.", show(v))
	}
	h.Background = v.Type == gjson.True
	return nil
}

// tiersApart are those that providers limit apart from calls that name none. Any other word is no tier here: an upstream that does not
// know it serves the call as usual, and a caller who makes words up would pass its pauses.
var tiersApart = map[string]bool{"flex": true, "fast": true}

// TierApart is the tier of service that the call asks for, if its limits are apart.
func (h *Head) TierApart() string {
	if tiersApart[h.Tier] {
		return h.Tier
	}
	return ""
}

// usualTiers ask for nothing else than a call that names no tier.
var usualTiers = map[string]bool{"auto": true, "default": true, "standard": true}

// tierLetters are those of tiers' names, and longestTier is how many a name may have. No provider has others.
const (
	tierLetters = "abcdefghijklmnopqrstuvwxyz0123456789_-"
	longestTier = 48
)

// readTier reads a tier of service. Speech has a speed that is a number.
func (h *Head) readTier(param string, v gjson.Result) *Error {
	if v.Type != gjson.String {
		return nil
	}
	h.Asked = &ServiceTier{Param: param, Name: textOf(v), Before: h.Asked, at: fieldAt(v)}
	if tier := h.Asked.Name; !usualTiers[tier] && len(tier) <= longestTier && strings.Trim(tier, tierLetters) == "" {
		h.Asked.asks = tier
	}
	h.tier()
	return nil
}

// tier is the last one that the body asks for.
func (h *Head) tier() {
	h.Tier = ""
	for t := h.Asked; t != nil && h.Tier == ""; t = t.Before {
		if !t.lowered {
			h.Tier = t.asks
		}
	}
}

// Lower has the body ask for the usual tier in place of those that it may not name: by the server's word for it under a key, or by none
// if that is "".
func (h *Head) Lower(may func(tier string) bool, usual func(param string) string) {
	for t := h.Asked; t != nil; t = t.Before {
		t.lowered = !may(t.Name)
		if t.lowered {
			t.usual = usual(t.Param)
		}
	}
	h.tier()
}

// Lowered adds the edits of tiers that were lowered.
func (h *Head) Lowered(edits []splice.Edit) []splice.Edit {
	edits, _ = h.Asked.lower(edits)
	return edits
}

// lower adds the edits of the tier and those before it, and counts the members that these take out.
func (t *ServiceTier) lower(edits []splice.Edit) (all []splice.Edit, gone int) {
	if t == nil {
		return edits, 0
	}
	edits, gone = t.Before.lower(edits)
	switch {
	case !t.lowered:
		return edits, gone
	case t.usual != "":
		return append(edits, splice.Edit{Start: t.at.start, End: t.at.end, Text: strconv.Quote(t.usual)}), gone
	case t.members > gone:
		return append(edits, t.out), gone + 1
	}
	return append(edits, t.first), gone + 1
}

func (h *Head) readStore(v gjson.Result) *Error {
	if v.Type != gjson.True && v.Type != gjson.False && v.Type != gjson.Null {
		return bad("store", "store must be true or false, not %s.", show(v))
	}
	h.Unstored = v.Type == gjson.False
	return nil
}

// readConversation refuses to name a conversation: it could be another tenant's, since the routes
// that make conversations are not governed.
func (h *Head) readConversation(v gjson.Result) *Error {
	if v.Type == gjson.Null {
		return nil
	}
	return bad("conversation", "conversation: %s is not supported. Use previous_response_id.", show(v))
}

func (h *Head) readEndpoint(v gjson.Result) *Error {
	if v.Type != gjson.String {
		return bad("endpoint", "endpoint must be a string, not %s.", show(v))
	}
	h.Endpoint = textOf(v)
	return nil
}

// refuse refuses a list on which the provider would act with the account's credentials, wherever the caller wants: integrations
// to which a fine-tuning job reports, or data sources that Azure reads.
func refuse(name string, v gjson.Result) *Error {
	if v.Type == gjson.Null || v.IsArray() && isEmpty(v) {
		return nil
	}
	return bad(name, "%s: %s is not supported.", name, show(v))
}

func (h *Head) readPurpose(v gjson.Result) *Error {
	purpose, ok := nameIn(v)
	if !ok {
		return bad("purpose", "purpose must be a string of 1 to 256 bytes, not %s.", show(v))
	}
	h.Purpose = purpose
	return nil
}

func (h *Head) readCopies(name string, v gjson.Result) *Error {
	f, err := readCount(name, v)
	if err == nil && f.value > maxN {
		return bad(name, "%s must be at most %d, not %d.", name, maxN, f.value)
	}
	h.Copies = max(h.Copies, f.value)
	return err
}

// number is the value of a number, of which readers keep the text alone.
func number(v gjson.Result) (float64, bool) {
	if v.Type != gjson.Number {
		return 0, false
	}
	n, err := strconv.ParseFloat(v.Raw, 64)
	return n, err == nil
}

// isBeyond reports whether a number is whole, and larger than any bound.
func isBeyond(n float64) bool { return n > maxCount && n == math.Trunc(n) }

// readCount reads a whole number from 1 on, also one with zeros behind a point or an exponent, as writers of doubles have it. null
// counts as not given.
func readCount(name string, v gjson.Result) (field, *Error) {
	f := fieldAt(v)
	if v.Type == gjson.Null {
		return f, nil
	}
	if v.Type != gjson.Number {
		return f, bad(name, "%s must be a whole number, not %s.", name, show(v))
	}
	n, _ := number(v)
	if n < 1 || n > maxCount || n != math.Trunc(n) {
		return f, bad(name, "%s must be a whole number from 1 to %d, not %s.", name, maxCount, show(v))
	}
	f.value = int64(n)
	return f, nil
}

func (h *Head) readStreamOptions(v gjson.Result) *Error {
	so := &h.streamOptions
	so.field = fieldAt(v)
	if v.Type == gjson.Null {
		return nil
	}
	if !v.IsObject() {
		return bad("stream_options", "stream_options must be an object, not %s.", show(v))
	}
	so.open = v.Index + 1
	so.empty = true
	var problem *Error
	h.each(v, func(key, value gjson.Result) bool {
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
		so.usageField = fieldAt(value)
		so.includeUsage = value.Type == gjson.True
		return problem == nil
	})
	return problem
}

// show is a value as the client wrote it, cut short for messages.
func show(v gjson.Result) string {
	const most = 40
	if len(v.Raw) <= most {
		return v.Raw
	}
	return strings.ToValidUTF8(v.Raw[:most], "") + "…"
}
