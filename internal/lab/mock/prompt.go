package mock

import "github.com/tidwall/gjson"

func (r route) String() string {
	return [...]string{"none", "chat", "completions", "embeddings", "responses", "moderations", "messages", "count_tokens", "rerank", "compact", "input_tokens"}[r]
}

// PromptTokens returns the number of tokens that the mock counts for the prompt of a request body
// sent to path (such as "/v1/chat/completions"). The rule is simpler than a real tokenizer, so that
// tests can compute it:
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
// Tools and all else count nothing. A body that is no JSON object has no tokens. Server lists the
// tokens that it counts in addition.
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
