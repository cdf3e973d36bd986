package tracing

import "go.opentelemetry.io/otel/attribute"

// The conventions for calls of models, as of September 2026. They are still in
// development and have left OpenTelemetry's own package of names, so these are kept here.
// See https://github.com/open-telemetry/semantic-conventions-genai.
const (
	operationName   = attribute.Key("gen_ai.operation.name")
	providerName    = attribute.Key("gen_ai.provider.name")
	requestModel    = attribute.Key("gen_ai.request.model")
	requestStream   = attribute.Key("gen_ai.request.stream")
	requestMax      = attribute.Key("gen_ai.request.max_tokens")
	requestChoices  = attribute.Key("gen_ai.request.choice.count")
	firstChunk      = attribute.Key("gen_ai.response.time_to_first_chunk")
	inputTokens     = attribute.Key("gen_ai.usage.input_tokens")
	cachedTokens    = attribute.Key("gen_ai.usage.cache_read.input_tokens")
	outputTokens    = attribute.Key("gen_ai.usage.output_tokens")
	reasoningTokens = attribute.Key("gen_ai.usage.reasoning.output_tokens")
)

// Names for which there is no convention.
const (
	requestID    = attribute.Key("llmgov.request_id")
	tenant       = attribute.Key("llmgov.tenant")
	keyName      = attribute.Key("llmgov.key")
	pool         = attribute.Key("llmgov.pool")
	outcome      = attribute.Key("llmgov.outcome")
	reason       = attribute.Key("llmgov.reason")
	axis         = attribute.Key("llmgov.axis")
	limitOf      = attribute.Key("llmgov.limit.of")
	limitValue   = attribute.Key("llmgov.limit.value")
	limitUsed    = attribute.Key("llmgov.limit.used")
	limitAsked   = attribute.Key("llmgov.limit.asked")
	retryAfter   = attribute.Key("llmgov.retry_after_seconds")
	queued       = attribute.Key("llmgov.queue_seconds")
	heldTokens   = attribute.Key("llmgov.held_tokens")
	shadow       = attribute.Key("llmgov.shadow")
	upstreamName = attribute.Key("llmgov.upstream")
	tryNumber    = attribute.Key("llmgov.try")
	tryOutcome   = attribute.Key("llmgov.try.outcome")
	estimated    = attribute.Key("llmgov.usage.estimated")
)
