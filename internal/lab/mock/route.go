package mock

import "strings"

// route is an endpoint of the model.
type route uint8

// routeOf returns the endpoint of a path, with or without the /v1 prefix, or Azure's /openai/v1.
func routeOf(path string) route {
	switch strings.TrimPrefix(strings.TrimPrefix(path, "/openai"), "/v1") {
	case "/rerank", "/v2/rerank":
		return routeRerank
	case "/responses/compact":
		return routeCompact
	case "/responses/input_tokens":
		return routeInputTokens
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
	return r != routeEmbeddings && r != routeModerations && r != routeRerank && r != routeCount && r != routeInputTokens
}

const (
	routeNone route = iota
	routeChat
	routeCompletions
	routeEmbeddings
	routeResponses
	routeModerations
	routeMessages
	routeCount
	routeRerank
	routeCompact
	routeInputTokens
)
