package streaming

import (
	"bytes"
	"io"
	"strings"
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

func BenchmarkMeterChunk(b *testing.B) {
	for name, data := range map[string]string{
		"chat":      chatChunk,
		"usage":     usageChunk,
		"responses": `{"type":"response.output_text.delta","sequence_number":4,"item_id":"msg_1","output_index":0,"content_index":0,"delta":"lo","logprobs":[]}`,
	} {
		b.Run(name, func(b *testing.B) {
			var m Meter
			chunk := []byte(data)
			b.SetBytes(int64(len(chunk)))
			b.ReportAllocs()
			for b.Loop() {
				m.Observe(nil, chunk)
			}
		})
	}
}

func BenchmarkScannerChunk(b *testing.B) {
	var s Scanner
	chunk := hundred()[0]
	b.SetBytes(int64(len(chunk)))
	b.ReportAllocs()
	for b.Loop() {
		s.Feed(chunk)
		for _, ok := s.Next(); ok; _, ok = s.Next() {
		}
	}
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

// shortAnswer is a plain answer of 0.7 KB to a chat request.
const shortAnswer = `{"id":"chatcmpl-1","object":"chat.completion","created":1730000000,"model":"gpt-4o-mini","choices":[{"index":0,"message":` +
	`{"role":"assistant","content":"It is as long as you make it, and where you cut it decides how long the two parts are.","refusal":null,"annotations":[]},` +
	`"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":62,"completion_tokens":20,"total_tokens":82,` +
	`"prompt_tokens_details":{"cached_tokens":0,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":0,"audio_tokens":0,` +
	`"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}},"service_tier":"default","system_fingerprint":"fp_1"}`

// BenchmarkWholeShort is a short answer whose end comes by itself, as that of a server does.
func BenchmarkWholeShort(b *testing.B) {
	p := make([]byte, 32<<10)
	text := []byte(shortAnswer)
	in := bytes.NewReader(nil)
	upstream := io.NopCloser(in)
	var w Whole
	b.ReportAllocs()
	for b.Loop() {
		in.Reset(text)
		w.Reset(upstream, WholeOptions{})
		for _, err := w.Read(p); err == nil; _, err = w.Read(p) {
		}
	}
}

func BenchmarkWhole(b *testing.B) {
	tail := `],"model":"m","usage":{"prompt_tokens":8,"total_tokens":8}}`
	for name, doc := range map[string]string{
		"chat 2 KB":         `{"choices":[{"message":{"content":"` + strings.Repeat("word ", 400) + `"}}` + tail,
		"floats 1 MB":       `{"data":[` + strings.Repeat("-0.0123456,", 95_000) + `0` + tail,
		"base64 1 MB":       `{"data":["` + strings.Repeat("QUJD", 250_000) + `"` + tail,
		"many strings 1 MB": `{"data":[` + strings.Repeat(`"abcd",`, 150_000) + `0` + tail,
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(doc)))
			b.ReportAllocs()
			p := make([]byte, 32<<10)
			text := []byte(doc)
			in := bytes.NewReader(nil)
			for b.Loop() {
				in.Reset(text)
				w := NewWhole(io.NopCloser(in), WholeOptions{})
				for _, err := w.Read(p); err == nil; _, err = w.Read(p) {
				}
			}
		})
	}
}

// BenchmarkFinder reads answers that are megabytes of numbers or of base64, in the pieces of a copy.
func BenchmarkFinder(b *testing.B) {
	for name, data := range map[string]string{
		"embeddings": strings.Repeat(`{"object":"embedding","index":0,"embedding":[`+strings.Repeat("-0.012345678,", 1535)+`0.5]},`, 100) + "{}",
		"base64":     `{"b64_json":"` + strings.Repeat("QUFB", 500_000) + `"}`,
	} {
		answer := []byte(`{"object":"list","data":[` + data + `],"usage":{"prompt_tokens":8}}`)
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(answer)))
			b.ReportAllocs()
			for b.Loop() {
				f := finder{limit: 1 << 10}
				for rest := answer; len(rest) > 0; {
					n := min(32<<10, len(rest))
					f.feed(rest[:n])
					rest = rest[n:]
				}
				if len(f.found) == 0 {
					b.Fatal("no usage")
				}
			}
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
