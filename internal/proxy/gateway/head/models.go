package head

import (
	"strings"

	"github.com/tidwall/gjson"
)

// A body may name models besides the one that it asks for: those to which a provider falls back
// when that one fails, and those that its tools ask. The caller must be granted each of them,
// or a grant of one model would be a grant of everything that the provider has.

// maxOthers bounds such models, because each of them is looked up in the policy. Providers take a few.
const maxOthers = 100

// refuseAny refuses a list that this package does not understand, unless it is empty.
func refuseAny(name string, v gjson.Result) *Error {
	if v.Type == gjson.Null || isEmpty(v) {
		return nil
	}
	return bad(name, "%s: %s is not supported. Use fallbacks.", name, show(v))
}

// readInstead reads a list of names, or of objects with a model each.
func (h *Head) readInstead(name string, v gjson.Result) *Error {
	if v.Type == gjson.Null {
		return nil
	}
	if !v.IsArray() {
		return bad(name, "%s must be a list of models, not %s.", name, show(v))
	}
	var problem *Error
	h.each(v, func(_, item gjson.Result) bool {
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
func (h *Head) readOneInstead(name string, v gjson.Result) (problem *Error) {
	models := 0
	written := ""
	h.each(v, func(key, value gjson.Result) bool {
		known, _ := governedKey(key.Str)
		switch {
		case known == "model":
			models++
			written = key.Str
			problem = h.another(name, value, true)
		case naming[known] != nil:
			problem = bad(name, "%s holds %q, which is not supported there.", name, known)
		}
		return problem == nil
	})
	if problem == nil && models != 1 {
		problem = bad(name, "%s must name models, and %s names %d.", name, show(v), models)
	}
	if problem == nil {
		_, problem = oneOf(nil, written, "model")
	}
	return problem
}

// another takes in a name.
func (h *Head) another(param string, v gjson.Result, instead bool) *Error {
	model, ok := nameIn(v)
	if !ok {
		return bad(param, "%s must name models by strings of 1 to 256 bytes, not %s.", param, show(v))
	}
	if len(h.Others) == maxOthers {
		return bad(param, "The body names more than %d further models.", maxOthers)
	}
	h.Others = append(h.Others, Other{model, param, instead})
	return nil
}

// readExtraBody reads extra_body, which some SDKs put into the body, and some servers read as if it
// were the body. There it may name models, as the body may. All else that is governed belongs into the
// body itself, because two places for one value have no one meaning.
func (h *Head) readExtraBody(v gjson.Result) (problem *Error) {
	var seen []string
	h.each(v, func(key, value gjson.Result) bool {
		known, _ := governedKey(key.Str)
		if known == "" {
			return true
		}
		seen, problem = oneOf(seen, key.Str, known)
		read := naming[known]
		switch {
		case problem != nil:
		case known == "extra_body":
			problem = bad("extra_body", "extra_body holds another one.")
		case known == "model":
			problem = h.another("extra_body", value, true)
		case read != nil:
			problem = read(h, value)
		default:
			problem = bad("extra_body", "extra_body holds %q. Write it into the body itself.", key.Str)
		}
		return problem == nil
	})
	return problem
}

func (h *Head) readProviderOptions(v gjson.Result) (problem *Error) {
	h.each(v, func(_, options gjson.Result) bool {
		h.each(options, func(key, value gjson.Result) bool {
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
func (h *Head) readRoute(v gjson.Result) *Error {
	if v.Type != gjson.String && v.Type != gjson.Null {
		return bad("route", "route must be a string, not %s.", show(v))
	}
	h.FallsBack = h.FallsBack || strings.EqualFold(textOf(v), "fallback")
	return nil
}

// maxToolDepth is how deeply tools may nest: a tool that brings tools of its own (a namespace, an
// advisor), which bring some, too. No provider has more.
const maxToolDepth = 3

// asked are the keys of a tool by which it can name models that it asks.
type asked struct{ model, analysis bool }

// asks are the tools and plugins of a provider that ask other models, and the keys that must name
// these. Without a name the provider chooses. The names of Anthropic's advisors end in a date.
var asks = map[string]asked{
	"image_generation":            {model: true},
	"advisor":                     {model: true},
	"openrouter:advisor":          {model: true},
	"openrouter:subagent":         {model: true},
	"openrouter:image_generation": {model: true},
	"openrouter:fusion":           {model: true, analysis: true},
	"fusion":                      {model: true, analysis: true},
}

// need adds the keys that a tool of some kind must have.
func (a *asked) need(kind string) {
	if strings.HasPrefix(kind, "advisor_") {
		kind = "advisor"
	}
	a.model = a.model || asks[kind].model
	a.analysis = a.analysis || asks[kind].analysis
}

// readTools reads the models of tools: their own, and those of tools that run at the provider. The
// parameters of a function are the caller's own, and no model is meant there. Each level of tools is
// read again for those below it, so depth is bounded.
func (h *Head) readTools(name string, v gjson.Result, depth int) (problem *Error) {
	if !v.IsArray() {
		return nil
	}
	if depth > maxToolDepth {
		return bad(name, "Tools nest deeper than %d levels.", maxToolDepth)
	}
	h.each(v, func(_, tool gjson.Result) bool {
		problem = h.readTool(name, tool, depth)
		return problem == nil
	})
	return problem
}

func (h *Head) readTool(name string, tool gjson.Result, depth int) (problem *Error) {
	var needed, named asked
	kind := ""
	remote := name == "plugins"
	h.each(tool, func(key, value gjson.Result) bool {
		if strings.EqualFold(key.Str, "type") || strings.EqualFold(key.Str, "id") {
			kind = strings.ToLower(textOf(value))
			needed.need(kind)
			remote = remote || strings.HasPrefix(kind, "openrouter:")
		}
		return true
	})
	problem = h.readAsked(name, tool, depth, &named)
	h.each(tool, func(key, value gjson.Result) bool {
		if problem == nil && remote && strings.EqualFold(key.Str, "parameters") {
			problem = h.readAsked(name, value, depth, &named)
		}
		return problem == nil
	})
	if problem == nil && (needed.model && !named.model || needed.analysis && !named.analysis) {
		problem = bad(name, "%s asks models of the provider's choice. Name them, in model or, where it has them, analysis_models.", quoted(kind))
	}
	return problem
}

// readAsked reads the models that a tool asks, and notes the keys that name one.
func (h *Head) readAsked(name string, v gjson.Result, depth int, named *asked) (problem *Error) {
	var seen asked
	h.each(v, func(key, value gjson.Result) bool {
		switch {
		case strings.EqualFold(key.Str, "model"):
			problem = once(name, key.Str, "model", &seen.model)
			if problem == nil && value.Type != gjson.Null {
				named.model = true
				problem = h.another(name, value, false)
			}
		case strings.EqualFold(key.Str, "analysis_models"):
			problem = once(name, key.Str, "analysis_models", &seen.analysis)
			if problem == nil && value.IsArray() {
				named.analysis = !isEmpty(value)
				problem = h.readAnalysis(name, value)
			}
		case strings.EqualFold(key.Str, "tools"):
			problem = h.readTools("tools", value, depth+1)
		}
		return problem == nil
	})
	return problem
}

func (h *Head) readAnalysis(name string, v gjson.Result) (problem *Error) {
	h.each(v, func(_, item gjson.Result) bool {
		problem = h.another(name, item, false)
		return problem == nil
	})
	return problem
}

// once refuses a key that is there twice, or differs from its name by case: a server that does not
// take it for the name would choose a model by itself.
func once(param, key, name string, seen *bool) *Error {
	if key != name {
		return bad(param, "The key %q differs from %q only by case, which servers read differently. Write %q.", key, name, name)
	}
	if *seen {
		return bad(param, "The key %q is there twice in %s; which of its values counts is ambiguous.", name, param)
	}
	*seen = true
	return nil
}
