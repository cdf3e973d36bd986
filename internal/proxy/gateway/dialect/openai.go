package dialect

import (
	"github.com/llmgov/llmgov/governor/tokens"
	"github.com/llmgov/llmgov/internal/proxy/gateway/head"
	"github.com/llmgov/llmgov/internal/run/admission/ask"
)

// OpenAI is the dialect of chat completions and of the routes beside them.
var OpenAI = &Dialect{
	Name: "openai",
	Routes: []Route{
		{Path: "/chat/completions", Bounds: []head.Bound{head.MaxCompletionTokens, head.MaxTokens}, Chunked: true, Operation: "chat"},
		{Path: "/completions", Bounds: []head.Bound{head.MaxTokens}, Chunked: true, Operation: "text_completion"},
		{Path: "/embeddings", Operation: "embeddings"},
		{Path: "/rerank", AnyModel: true},
		{Path: "/moderations", AnyModel: true},
		{Path: "/images/generations", AnyModel: true, Open: true, Backdrop: true, Operation: generate},
		{Path: "/images/edits", AnyModel: true, Body: Form, Files: tokens.Image, Open: true, Operation: generate},
		{Path: "/images/variations", AnyModel: true, Body: Form, Files: tokens.Image, Open: true, Operation: generate},
		{Path: "/audio/speech", Sounds: true, Open: true, Operation: generate},
		{Path: "/audio/transcriptions", Sounds: true, Body: Form, Files: tokens.Sound, Open: true, Operation: generate},
		{Path: "/audio/translations", Sounds: true, Body: Form, Files: tokens.Sound, Open: true, Operation: generate},
	},
	ErrorBody:  openAIBody,
	ErrorEvent: func(f *ask.Refusal) []byte { return event("", openAIBody(f)) },
	RatePrefix: "X-",
	Passed:     []string{"Openai-Beta", "X-Client-Request-Id", "Http-Referer", "X-Title"}, // the last two are OpenRouter's attribution
	usualTiers: openAITiers,
}

var openAITiers = map[string]string{"service_tier": "default"}

const generate = "generate_content"

// Responses is as OpenAI, but for its streams of typed events.
var Responses = &Dialect{
	Name: "responses",
	Routes: []Route{
		{Path: "/responses", Bounds: []head.Bound{head.MaxOutputTokens}, Stores: true, Operation: "chat"},
		{Path: "/responses/compact", Open: true, Operation: "chat"},
		{Path: "/responses/input_tokens", Free: true},
	},
	ErrorBody:  openAIBody,
	ErrorEvent: responsesEvent,
	usualTiers: openAITiers,
}

type openAIError struct {
	Error openAIDetail `json:"error"`
}

type openAIDetail struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    string  `json:"code"`
}

func openAIBody(f *ask.Refusal) []byte { return encoded(openAIError{openAIDetails(f)}) }

func openAIDetails(f *ask.Refusal) openAIDetail {
	detail := openAIDetail{Message: f.Message, Type: f.Kind, Code: f.Code}
	if f.Kind == "" {
		detail.Type = f.Code
	}
	if f.Param != "" {
		detail.Param = &f.Param
	}
	return detail
}

// responsesError is the error event of a Responses stream. Its first fields are documented by
// OpenAI; many SDKs raise an error only if there is an error object as well.
type responsesError struct {
	Type     string       `json:"type"`
	Sequence int          `json:"sequence_number"` // required by parsers; the true number is unknown
	Code     string       `json:"code"`
	Message  string       `json:"message"`
	Param    *string      `json:"param"`
	Error    openAIDetail `json:"error"`
}

func responsesEvent(f *ask.Refusal) []byte {
	e := openAIDetails(f)
	return event("error", encoded(responsesError{Type: "error", Code: e.Code, Message: e.Message, Param: e.Param, Error: e}))
}
