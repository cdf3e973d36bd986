package mock

import (
	"math"

	"github.com/tidwall/gjson"
)

// maxOutput is the most tokens one answer may have, all choices together. It keeps a mistyped
// bound from filling the memory with words.
const maxOutput = 1 << 20

// call has the fields of a request body, found in one pass. Their values point into the body's string.
type call struct {
	route route

	model        gjson.Result
	messages     gjson.Result // chat, messages
	system       gjson.Result // messages
	input        gjson.Result // prompt of completions, input of the others
	instructions gjson.Result // responses
	stream       gjson.Result
	streamOpts   gjson.Result
	maxTokens    gjson.Result // the route's own name of the bound
	maxNew       gjson.Result // chat: max_completion_tokens, which wins
	choices      gjson.Result
	tools        gjson.Result
	toolChoice   gjson.Result
	encoding     gjson.Result
	dimensions   gjson.Result
	store        gjson.Result // responses
	previous     gjson.Result // responses: the id of the one before
	stored       gjson.Result // responses: a prompt by its id
	background   gjson.Result // responses
	mock         gjson.Result
}

// scan finds the fields of body, which is valid JSON. If a field occurs twice the last one counts;
// null counts as absent.
func (c *call) scan(rt route, body string) {
	c.route = rt
	top := gjson.Parse(body)
	if !top.IsObject() {
		return
	}
	top.ForEach(func(key, v gjson.Result) bool {
		if f := c.field(key.Str); f != nil {
			*f = v
		}
		return true
	})
}

// field returns the place for the value of a key, or nil when the route does not know the key.
func (c *call) field(key string) *gjson.Result {
	switch key {
	case "model":
		return &c.model
	case "stream":
		return &c.stream
	case "stream_options":
		return &c.streamOpts
	case "mock":
		return &c.mock
	}
	switch c.route {
	case routeChat:
		return c.chatField(key)
	case routeCompletions:
		switch key {
		case "prompt":
			return &c.input
		case "max_tokens":
			return &c.maxTokens
		case "n":
			return &c.choices
		}
	case routeRerank:
		switch key {
		case "query":
			return &c.instructions
		case "documents":
			return &c.input
		}
	case routeResponses, routeCompact, routeInputTokens:
		switch key {
		case "input":
			return &c.input
		case "instructions":
			return &c.instructions
		case "max_output_tokens":
			if c.route == routeCompact {
				return nil
			}
			return &c.maxTokens
		case "store":
			return &c.store
		case "previous_response_id":
			return &c.previous
		case "prompt":
			return &c.stored
		case "background":
			return &c.background
		case "tools":
			return &c.tools
		case "tool_choice":
			return &c.toolChoice
		}
	case routeMessages, routeCount:
		return c.messagesField(key)
	case routeEmbeddings, routeModerations:
		switch key {
		case "input":
			return &c.input
		case "encoding_format":
			return &c.encoding
		case "dimensions":
			return &c.dimensions
		}
	}
	return nil
}

func (c *call) chatField(key string) *gjson.Result {
	switch key {
	case "messages":
		return &c.messages
	case "max_tokens":
		return &c.maxTokens
	case "max_completion_tokens":
		return &c.maxNew
	case "n":
		return &c.choices
	case "tools":
		return &c.tools
	case "tool_choice":
		return &c.toolChoice
	}
	return nil
}

func (c *call) messagesField(key string) *gjson.Result {
	switch key {
	case "messages":
		return &c.messages
	case "system":
		return &c.system
	case "max_tokens":
		return &c.maxTokens
	case "tools":
		return &c.tools
	case "tool_choice":
		return &c.toolChoice
	}
	return nil
}

// check returns the first mistake in the call, or nil.
func (c *call) check() *apiError {
	switch {
	case c.model.Type == gjson.Null && c.route == routeModerations: // has a default
	case c.model.Type == gjson.Null:
		return badRequest("", "you must provide a model parameter")
	case c.model.Type != gjson.String || c.model.Str == "":
		return badRequest("model", "Invalid type for 'model': expected a non-empty string.")
	}
	if c.route.hasMessages() {
		if !first(c.messages).Exists() {
			return badRequest("messages", "Missing required parameter: 'messages'.")
		}
	} else if c.input.Type == gjson.Null {
		name := "input"
		switch c.route {
		case routeCompletions:
			name = "prompt"
		case routeRerank:
			name = "documents"
		}
		return badRequest(name, "Missing required parameter: '"+name+"'.")
	}
	if c.stream.Type == gjson.String || c.stream.Type == gjson.Number || c.stream.Type == gjson.JSON {
		return badRequest("stream", "Invalid type for 'stream': expected a boolean.")
	}
	if e := checkInt("n", c.choices, 128); e != nil {
		return e
	}
	if e := checkInt("dimensions", c.dimensions, 1<<16); e != nil {
		return e
	}
	if c.route == routeMessages && c.maxTokens.Type == gjson.Null {
		return badRequest("max_tokens", "max_tokens: Field required")
	}
	return c.checkBounds()
}

func (c *call) checkBounds() *apiError {
	name := "max_tokens"
	if c.route == routeResponses {
		name = "max_output_tokens"
	}
	if e := checkInt(name, c.maxTokens, maxOutput); e != nil {
		return e
	}
	return checkInt("max_completion_tokens", c.maxNew, maxOutput)
}

// checkInt reports a value that is present and no integer from 1 to largest.
func checkInt(name string, v gjson.Result, largest int) *apiError {
	switch {
	case v.Type == gjson.Null:
		return nil
	case v.Type != gjson.Number || v.Num != math.Trunc(v.Num):
		return badRequest(name, "Invalid type for '"+name+"': expected an integer.")
	case v.Num < 1:
		return badRequest(name, "Invalid '"+name+"': integer below minimum value. Expected a value >= 1, but got "+v.Raw+" instead.")
	case v.Num > float64(largest):
		return badRequest(name, name+" is too large: "+v.Raw+".")
	}
	return nil
}

// bound returns the most tokens that each choice may have, 0 when the request does not say.
func (c *call) bound() int {
	if c.maxNew.Type == gjson.Number {
		return int(c.maxNew.Num)
	}
	return int(c.maxTokens.Num)
}

// streams reports whether the answer is a stream. Only text is streamed.
func (c *call) streams() bool {
	return c.stream.Type == gjson.True && c.route.isText() && c.route != routeCompact
}

func (c *call) includeUsage() bool {
	return c.streamOpts.IsObject() && c.streamOpts.Get("include_usage").Bool()
}

// outputs returns the number of answers that the request asks for: n for each prompt.
func (c *call) outputs() int {
	n := max(1, int(c.choices.Num))
	if c.route == routeCompletions {
		n *= inputCount(c.input)
	}
	return n
}

// first returns the first element of an array, faster than Get("0").
func first(v gjson.Result) (e gjson.Result) {
	if v.IsArray() {
		v.ForEach(func(_, x gjson.Result) bool {
			e = x
			return false
		})
	}
	return e
}

// inputCount returns the number of inputs in a prompt or input field. An array of numbers is one.
func inputCount(v gjson.Result) (n int) {
	if !v.IsArray() || first(v).Type == gjson.Number {
		return 1
	}
	v.ForEach(func(_, _ gjson.Result) bool {
		n++
		return true
	})
	return max(1, n)
}
