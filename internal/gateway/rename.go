package gateway

import "github.com/tidwall/gjson"

// rename replaces the model in the call's body by the name that the upstream knows.
func (c *call) rename(edits []edit, real string) []edit {
	switch c.route.body {
	case jsonBody:
		return c.head.rename(edits, real)
	case formBody:
		c.form.Text("model", real)
	case noBody: // it is in the query
	}
	return edits
}

// rename replaces the value of model in a JSON body, or adds it.
func (h *head) rename(edits []edit, real string) []edit {
	if h.named {
		return append(edits, edit{h.open, h.open, member("model", string(gjson.AppendJSONString(nil, real)), false)})
	}
	return append(edits, edit{h.modelAt.start, h.modelAt.end, string(gjson.AppendJSONString(nil, real))})
}
