package mock

import (
	"strconv"

	"github.com/tidwall/gjson"
)

// callsTool reports whether the answer is a call of a tool: when there are tools, they are not
// forbidden, and the last message is not the result of one.
func (c *call) callsTool() bool {
	if !first(c.tools).Exists() || c.toolChoice.Str == "none" {
		return false
	}
	role := ""
	c.messages.ForEach(func(_, m gjson.Result) bool {
		role = m.Get("role").Str
		return true
	})
	return role != "tool"
}

// toolName returns the name of the first tool as JSON.
func (c *call) toolName() string {
	if name := c.tools.Get("0.function.name"); name.Type == gjson.String {
		return name.Raw
	}
	return `"tool"`
}

// appendCall begins a tool call up to its arguments.
func (c *chat) appendCall(b []byte, choice int) []byte {
	b = append(b, `"id":"call_`...)
	b = c.j.appendID(b, "")
	b = strconv.AppendInt(b, int64(choice), 10)
	b = append(b, `","type":"function","function":{"name":`...)
	b = append(b, c.tool...)
	return append(b, `,"arguments":"`...)
}

// argument returns token i of n of the arguments, escaped for a JSON string. Together they are
// the object {"text":"…"}, or {} when there is but one. Cut short they are no JSON, as in life.
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
