package mock

import (
	"strings"

	"github.com/tidwall/gjson"
)

// route is an endpoint of the model.
type route uint8

const (
	routeNone route = iota
	routeChat
	routeCompletions
	routeEmbeddings
	routeResponses
	routeModerations
	routeMessages
	routeCount
)

// routeOf returns the endpoint of a path, with or without the /v1 prefix.
func routeOf(path string) route {
	switch strings.TrimPrefix(path, "/v1") {
	case "/chat/completions":
		return routeChat
	case "/completions":
		return routeCompletions
	case "/embeddings":
		return routeEmbeddings
	case "/responses":
		return routeResponses
	case "/moderations":
		return routeModerations
	case "/messages":
		return routeMessages
	case "/messages/count_tokens":
		return routeCount
	}
	return routeNone
}

// hasMessages reports whether the prompt is a list of messages.
func (r route) hasMessages() bool { return r == routeChat || r.isAnthropic() }

// isAnthropic reports whether the endpoint is one of Anthropic's API.
func (r route) isAnthropic() bool { return r == routeMessages || r == routeCount }

// isText reports whether the answer is made of tokens.
func (r route) isText() bool {
	return r != routeEmbeddings && r != routeModerations && r != routeCount
}

func (r route) String() string {
	return [...]string{"none", "chat", "completions", "embeddings", "responses", "moderations", "messages", "count_tokens"}[r]
}

// PromptTokens returns how many tokens the mock counts for the prompt of a request body sent
// to path (such as "/v1/chat/completions"). The rule has nothing to do with a real tokenizer;
// it is one that anybody can compute:
//
//   - each text counts one token per four bytes, rounded up. Texts are the string content or
//     the "text" of the content parts of messages, of system and of the items of a Responses
//     input, and the strings of prompt, input and instructions;
//
//   - each number of a token array counts one;
//
//   - each message counts 4 more, and each request that has messages 3 more.
//
//   - each picture counts 765, each 800 bytes of sound one, and a document in base64 as the text
//     in it; one by its address counts 1000.
//
// Tools and all else count nothing. A body that is no JSON object has no tokens. What the server
// counts on top of this is said at Server.
func PromptTokens(body []byte, path string) int64 {
	if !gjson.ValidBytes(body) {
		return 0
	}
	var c call
	c.scan(routeOf(path), string(body))
	return c.promptTokens()
}

func (c *call) promptTokens() int64 {
	if c.route.hasMessages() {
		return 3 + messageTokens(c.messages) + contentTokens(c.system)
	}
	return inputTokens(c.input) + textTokens(c.instructions)
}

func messageTokens(messages gjson.Result) (n int64) {
	messages.ForEach(func(_, m gjson.Result) bool {
		n += 4 + contentTokens(m.Get("content"))
		return true
	})
	return n
}

// contentTokens counts the content of a message: a string, or an array of parts.
func contentTokens(content gjson.Result) (n int64) {
	if !content.IsArray() {
		return textTokens(content)
	}
	content.ForEach(func(_, part gjson.Result) bool {
		n += partTokens(part)
		return true
	})
	return n
}

// inputTokens counts a prompt or an input: a string, an array of strings, of token numbers, of
// arrays of token numbers, or of the items or parts of Responses and moderations.
func inputTokens(v gjson.Result) (n int64) {
	if !v.IsArray() {
		return textTokens(v)
	}
	v.ForEach(func(_, e gjson.Result) bool {
		switch {
		case e.Type == gjson.Number:
			n++
		case e.IsArray():
			n += inputTokens(e)
		case e.IsObject():
			n += partTokens(e) + contentTokens(e.Get("content"))
		default:
			n += textTokens(e)
		}
		return true
	})
	return n
}

func textTokens(v gjson.Result) int64 {
	if v.Type != gjson.String {
		return 0
	}
	return int64(len(v.Str)+3) / 4
}
