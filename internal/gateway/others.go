package gateway

import (
	"strings"

	"github.com/tidwall/gjson"
)

// A body may name models besides the one that it asks for: those to which a provider falls back
// when that one fails, and those that its tools ask. The caller must be granted each of them,
// or a grant of one model would be a grant of everything that the provider has.

// other is such a model.
type other struct {
	model, param string
	instead      bool // it may answer the call in place of the model that was asked for
}

// naming are the top-level keys that may contain such names.
var naming map[string]func(*head, gjson.Result) *badRequest

func init() {
	naming = map[string]func(*head, gjson.Result) *badRequest{
		"models":                   func(h *head, v gjson.Result) *badRequest { return h.readInstead("models", v) },
		"fallbacks":                func(h *head, v gjson.Result) *badRequest { return h.readInstead("fallbacks", v) },
		"context_window_fallbacks": func(_ *head, v gjson.Result) *badRequest { return refuseAny("context_window_fallbacks", v) },
		"content_policy_fallbacks": func(_ *head, v gjson.Result) *badRequest { return refuseAny("content_policy_fallbacks", v) },
		"extra_body":               (*head).readExtraBody,
		"providerOptions":          (*head).readProviderOptions,
		"route":                    (*head).readRoute,
		"plugins":                  func(h *head, v gjson.Result) *badRequest { return h.readTools("plugins", v) },
		"tools":                    func(h *head, v gjson.Result) *badRequest { return h.readTools("tools", v) },
	}
	for key, read := range naming {
		governed[key], governedKeys = read, append(governedKeys, key)
	}
}

// refuseAny refuses a list that this package does not understand, unless it is empty.
func refuseAny(name string, v gjson.Result) *badRequest {
	if v.Type == gjson.Null || (v.IsArray() || v.IsObject()) && len(v.Map())+len(v.Array()) == 0 {
		return nil
	}
	return bad(name, "%s: %s is not supported. Use fallbacks.", name, show(v))
}

// readInstead reads a list of names, or of objects with a model each.
func (h *head) readInstead(name string, v gjson.Result) *badRequest {
	if v.Type == gjson.Null {
		return nil
	}
	if !v.IsArray() {
		return bad(name, "%s must be a list of models, not %s.", name, show(v))
	}
	var problem *badRequest
	v.ForEach(func(_, item gjson.Result) bool {
		if item.IsObject() {
			problem = h.readOneInstead(name, item)
		} else {
			problem = h.another(name, item, true)
		}
		return problem == nil
	})
	return problem
}

// readOneInstead reads an object with a model, which must not have a list of further ones.
func (h *head) readOneInstead(name string, v gjson.Result) (problem *badRequest) {
	models := 0
	v.ForEach(func(key, value gjson.Result) bool {
		if known, _ := governedKey(key.Str); known == "model" {
			models++
			problem = h.another(name, value, true)
		} else if naming[known] != nil {
			problem = bad(name, "%s holds %q, which is not supported there.", name, known)
		}
		return problem == nil
	})
	if problem == nil && models != 1 {
		problem = bad(name, "%s must name models, and %s names %d.", name, show(v), models)
	}
	return problem
}

// another takes in a name.
func (h *head) another(param string, v gjson.Result, instead bool) *badRequest {
	if v.Type != gjson.String || v.Str == "" || len(v.Str) > 256 {
		return bad(param, "%s must name models by strings of 1 to 256 bytes, not %s.", param, show(v))
	}
	h.others = append(h.others, other{strings.Clone(v.Str), param, instead})
	return nil
}

// readExtraBody reads extra_body, which some SDKs put into the body, and some servers read as if it
// were the body.
func (h *head) readExtraBody(v gjson.Result) (problem *badRequest) {
	v.ForEach(func(key, value gjson.Result) bool {
		known, _ := governedKey(key.Str)
		switch read := naming[known]; {
		case known == "extra_body":
			problem = bad("extra_body", "extra_body holds another one.")
		case known == "model":
			problem = h.another("extra_body", value, true)
		case read != nil:
			problem = read(h, value)
		}
		return problem == nil
	})
	return problem
}

func (h *head) readProviderOptions(v gjson.Result) (problem *badRequest) {
	v.ForEach(func(_, options gjson.Result) bool {
		options.ForEach(func(key, value gjson.Result) bool {
			if strings.EqualFold(key.Str, "models") {
				problem = h.readInstead("providerOptions", value)
			}
			return problem == nil
		})
		return problem == nil
	})
	return problem
}

// readRoute notes that the provider may fall back to a model of its own choice if none is named.
func (h *head) readRoute(v gjson.Result) *badRequest {
	h.falls = h.falls || v.Type == gjson.String && strings.EqualFold(v.Str, "fallback")
	return nil
}

// asks are the tools and plugins of a provider that ask other models, and how many keys can name
// such a model. Without a name the provider chooses.
var asks = map[string]int{"openrouter:advisor": 1, "openrouter:subagent": 1, "openrouter:fusion": 2, "fusion": 2}

// readTools reads the models of tools: their own, and those of tools that run at the provider. The
// parameters of a function are the caller's own, and no model is meant there.
func (h *head) readTools(name string, v gjson.Result) (problem *badRequest) {
	if !v.IsArray() {
		return nil
	}
	v.ForEach(func(_, tool gjson.Result) bool {
		problem = h.readTool(name, tool)
		return problem == nil
	})
	return problem
}

func (h *head) readTool(name string, tool gjson.Result) (problem *badRequest) {
	kind, needed, named := "", 0, 0
	remote := name == "plugins"
	tool.ForEach(func(key, value gjson.Result) bool {
		if strings.EqualFold(key.Str, "type") || strings.EqualFold(key.Str, "id") {
			kind = strings.ToLower(value.Str)
			needed, remote = max(needed, asks[kind]), remote || strings.HasPrefix(kind, "openrouter:")
		}
		return true
	})
	problem = h.readAsked(name, tool, &named)
	tool.ForEach(func(key, value gjson.Result) bool {
		if problem == nil && remote && strings.EqualFold(key.Str, "parameters") {
			problem = h.readAsked(name, value, &named)
		}
		return problem == nil
	})
	if problem == nil && named < needed {
		problem = bad(name, "%s asks models of the provider's choice. Name them in model and analysis_models.", quoted(brief(kind)))
	}
	return problem
}

// readAsked reads the models that a tool asks, and counts the keys that name one.
func (h *head) readAsked(name string, v gjson.Result, named *int) (problem *badRequest) {
	v.ForEach(func(key, value gjson.Result) bool {
		switch {
		case strings.EqualFold(key.Str, "model") && value.Type != gjson.Null:
			*named++
			problem = h.another(name, value, false)
		case strings.EqualFold(key.Str, "analysis_models") && value.IsArray():
			*named++
			value.ForEach(func(_, item gjson.Result) bool {
				problem = h.another(name, item, false)
				return problem == nil
			})
		case strings.EqualFold(key.Str, "tools"):
			problem = h.readTools("tools", value)
		}
		return problem == nil
	})
	return problem
}
