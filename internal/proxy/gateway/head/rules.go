package head

import (
	"github.com/tidwall/gjson"
)

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
	"service_tier":          func(h *Head, v gjson.Result) *Error { return h.readTier("service_tier", v) },
	"speed":                 func(h *Head, v gjson.Result) *Error { return h.readTier("speed", v) },
	"store":                 (*Head).readStore,
	"conversation":          (*Head).readConversation,
	"purpose":               (*Head).readPurpose,
	"endpoint":              (*Head).readEndpoint,
	"integrations":          func(_ *Head, v gjson.Result) *Error { return refuse("integrations", v) },
	"data_sources":          func(_ *Head, v gjson.Result) *Error { return refuse("data_sources", v) }, // Azure reads them as the account
	"dataSources":           func(_ *Head, v gjson.Result) *Error { return refuse("dataSources", v) },
	"user":                  func(h *Head, v gjson.Result) *Error { h.User = textOf(v); return nil },
	"audio":                 func(h *Head, v gjson.Result) *Error { h.Audio = v.IsObject(); return nil },
}

// governedKeys finds them.
var governedKeys folds[func(*Head, gjson.Result) *Error]

// naming are the top-level keys that may contain such names.
var naming map[string]func(*Head, gjson.Result) *Error

func init() {
	naming = map[string]func(*Head, gjson.Result) *Error{
		"models":                   func(h *Head, v gjson.Result) *Error { return h.readInstead("models", v) },
		"fallbacks":                func(h *Head, v gjson.Result) *Error { return h.readInstead("fallbacks", v) },
		"context_window_fallbacks": func(_ *Head, v gjson.Result) *Error { return refuseAny("context_window_fallbacks", v) },
		"content_policy_fallbacks": func(_ *Head, v gjson.Result) *Error { return refuseAny("content_policy_fallbacks", v) },
		"extra_body":               (*Head).readExtraBody,
		"providerOptions":          (*Head).readProviderOptions,
		"route":                    (*Head).readRoute,
		"plugins":                  func(h *Head, v gjson.Result) *Error { return h.readTools("plugins", v, 1) },
		"tools":                    func(h *Head, v gjson.Result) *Error { return h.readTools("tools", v, 1) },
	}
	for key, read := range naming {
		governed[key] = read
	}
	for key, read := range governed {
		governedKeys.add(key, read)
	}
}

// governedKey returns the governed key that a reader ignoring case would take key for, and its
// reader; or "" and nil.
func governedKey(key string) (string, func(*Head, gjson.Result) *Error) {
	if found := governedKeys.find(key); found != nil {
		return found.name, found.means
	}
	return "", nil
}
