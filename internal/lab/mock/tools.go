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

// tool returns the tool to be called: one that runs commands, else the first; nothing if it is one that the provider runs itself.
func (c *call) tool() gjson.Result {
	if tool, _ := c.shell(); tool.Exists() {
		return tool
	}
	return c.clients(first(c.tools))
}

// shell returns the first tool by which a coding agent runs commands, and the arguments of a call of it, escaped for a JSON string.
func (c *call) shell() (found gjson.Result, arguments string) {
	c.tools.ForEach(func(_, tool gjson.Result) bool {
		tool = c.clients(tool)
		parameters := tool.Get("parameters")
		if c.route == routeMessages {
			parameters = tool.Get("input_schema")
		}
		arguments = commandOf(parameters)
		if arguments != "" {
			found = tool
		}
		return !found.Exists()
	})
	return found, arguments
}

// commandOf returns arguments that run a command, by the schema that a tool has for them; "" if it runs none.
func commandOf(schema gjson.Result) string {
	arguments := ""
	schema.Get("required").ForEach(func(_, name gjson.Result) bool {
		value := ""
		kind := schema.Get("properties." + name.Str + ".type").Str
		switch {
		case kind == "string" && (name.Str == "command" || name.Str == "cmd"):
			value = `\"echo hi\"`
		case kind == "array" && name.Str == "command":
			value = `[\"sh\",\"-c\",\"echo hi\"]`
		case kind == "array" && name.Str == "commands":
			value = `[\"echo hi\"]`
		case arguments != "" && kind == "string":
			value = `\"say hi\"`
		case arguments != "" && kind == "boolean":
			value = `false`
		default:
			return false
		}
		if arguments != "" {
			arguments += ","
		}
		arguments += `\"` + name.Str + `\":` + value
		return true
	})
	if arguments == "" {
		return ""
	}
	return "{" + arguments + "}"
}

// callsShell reports whether the answer is a call that runs a command.
func (c *call) callsShell() bool {
	tool, _ := c.shell()
	return tool.Exists() && c.callsTool()
}

// clients returns a tool without its envelope, or nothing when it is one that the provider runs itself.
func (c *call) clients(tool gjson.Result) gjson.Result {
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
func (c *call) argument(choice, i, n int) string {
	switch {
	case n == 1:
		if _, arguments := c.shell(); arguments != "" {
			return arguments
		}
		return `{}`
	case i == 0:
		return `{\"text\":\"`
	case i == n-1:
		return `\"}`
	}
	return word(choice, i-1)
}

func (c *call) appendArguments(b []byte, choice, length, n int) []byte {
	for i := range length {
		b = append(b, c.argument(choice, i, n)...)
	}
	return b
}
