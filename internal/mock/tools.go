package mock

import "github.com/tidwall/gjson"

// callsTool reports whether the answer is a call of a tool: if the request has tools that the
// client runs, they are not forbidden, and the last message is not a tool's result.
func (c *call) callsTool() bool {
	if !c.tool().Exists() || c.toolChoice.Str == "none" || c.toolChoice.Get("type").Str == "none" {
		return false
	}
	return !c.endsWithToolResult()
}

// endsWithToolResult reports whether the last message is the result of a tool, in the form of each API.
func (c *call) endsWithToolResult() bool {
	switch c.route {
	case routeResponses:
		return last(c.input).Get("type").Str == "function_call_output"
	case routeMessages:
		return last(last(c.messages).Get("content")).Get("type").Str == "tool_result"
	}
	return last(c.messages).Get("role").Str == "tool"
}

// last returns the last element of an array.
func last(v gjson.Result) (e gjson.Result) {
	if v.IsArray() {
		v.ForEach(func(_, x gjson.Result) bool {
			e = x
			return true
		})
	}
	return e
}

// tool returns the first tool, or nothing when it is one that the provider runs itself.
func (c *call) tool() gjson.Result {
	tool := first(c.tools)
	switch kind := tool.Get("type").Str; {
	case c.route == routeChat:
		return tool.Get("function")
	case kind == "function", c.route == routeMessages && (kind == "" || kind == "custom"):
		return tool
	}
	return gjson.Result{}
}

// toolName returns the name of that tool as JSON.
func (c *call) toolName() string {
	if name := c.tool().Get("name"); name.Type == gjson.String {
		return name.Raw
	}
	return `"tool"`
}

// argument returns token i of n of the arguments, escaped for a JSON string. Together they are
// the object {"text":"…"}, or {} if there is only one. Cut short they are no JSON, as at providers.
func argument(choice, i, n int) string {
	switch {
	case n == 1:
		return `{}`
	case i == 0:
		return `{\"text\":\"`
	case i == n-1:
		return `\"}`
	}
	return word(choice, i-1)
}

func appendArguments(b []byte, choice, length, n int) []byte {
	for i := range length {
		b = append(b, argument(choice, i, n)...)
	}
	return b
}
