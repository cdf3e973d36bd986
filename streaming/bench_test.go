package streaming

import (
	"bytes"
	"testing"
	"time"
)

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

// BenchmarkBody100 is a whole stream of 100 chunks, each read of which brings one event.
func BenchmarkBody100(b *testing.B) {
	for name, opt := range map[string]Options{
		"plain": {},
		"all": {
			WithholdUsage: true, Idle: time.Minute,
			First: func() {}, Progress: func(int64) {}, End: func(Result) {},
		},
	} {
		b.Run(name, func(b *testing.B) {
			pieces := hundred()
			p := make([]byte, 32<<10)
			b.ReportAllocs()
			for b.Loop() {
				body := NewBody(&script{pieces: pieces}, opt)
				for _, err := body.Read(p); err == nil; _, err = body.Read(p) {
				}
				body.Close()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/100, "ns/chunk")
		})
	}
}

// BenchmarkBurst100 is a whole stream of 100 chunks that come at once.
func BenchmarkBurst100(b *testing.B) {
	piece := bytes.Join(hundred(), nil)
	p := make([]byte, 32<<10)
	b.ReportAllocs()
	for b.Loop() {
		body := NewBody(&script{pieces: [][]byte{piece}}, Options{})
		for _, err := body.Read(p); err == nil; _, err = body.Read(p) {
		}
		body.Close()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/100, "ns/chunk")
}
