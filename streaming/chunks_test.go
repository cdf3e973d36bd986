package streaming

const chatChunk = `{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1730000000,"model":"gpt-4o-mini",` +
	`"service_tier":"default","system_fingerprint":"fp_1","choices":[{"index":0,"delta":{"content":" there"},` +
	`"logprobs":null,"finish_reason":null}],"usage":null}`

const usageChunk = `{"id":"chatcmpl-1","choices":[],"usage":{"prompt_tokens":19,"completion_tokens":100,"total_tokens":119}}`

// hundred is a stream of 100 chunks, the usage chunk and [DONE], an event a piece.
func hundred() (pieces [][]byte) {
	for range 100 {
		pieces = append(pieces, []byte("data: "+chatChunk+"\n\n"))
	}
	return append(pieces, []byte("data: "+usageChunk+"\n\n"), []byte("data: [DONE]\n\n"))
}
