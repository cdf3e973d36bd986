package head

import (
	"github.com/tidwall/gjson"

	"github.com/llmgov/llmgov/internal/lib/splice"
)

// Deploy takes the model from the path of the request. The body may only repeat it.
func (h *Head) Deploy(model string) *Error {
	switch {
	case h.Model != "" && h.Model != model:
		return bad("model", "The path names the deployment %q and the body the model %q. Name one, or both alike.", model, h.Model)
	case h.Model == "" && h.isForm:
		return bad("model", "Name the deployment %q as model in the form too.", model)
	case h.Model == "" && h.empty:
		return bad("", "The body is empty.")
	case len(model) > maxName:
		return bad("model", "The deployment's name is longer than %d bytes.", maxName)
	}
	h.Deployed = h.Model == ""
	h.Model = model
	return nil
}

// Rename replaces the value of model in a JSON body, or adds it.
func (h *Head) Rename(real string) splice.Edit {
	name := string(gjson.AppendJSONString(nil, real))
	if h.Deployed {
		return h.insert("model", name, false)
	}
	return splice.Edit{Start: h.modelAt.start, End: h.modelAt.end, Text: name}
}

// ModelAt is the place of the value of model in a JSON body, both ends 0 if it has none.
func (h *Head) ModelAt() (start, end int) { return h.modelAt.start, h.modelAt.end }
