package mock

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"strconv"
)

// unstreamed has the methods of streams for a shape that is never streamed.
type unstreamed struct{}

func (unstreamed) begin(*sse)             {}
func (unstreamed) token(*sse, int, int)   {}
func (unstreamed) end(*sse)               {}
func (unstreamed) broken(*sse, *apiError) {}

// embeddings is the shape of /v1/embeddings: for each input a unit vector, which depends on
// the position of the input only. The default of 8 dimensions keeps answers small.
type embeddings struct {
	unstreamed
	j *job
}

func (e *embeddings) prepare(j *job, _ string) { e.j = j }

func (e *embeddings) plain(b []byte) []byte {
	c := &e.j.call
	dimensions := 8
	if c.dimensions.Num > 0 {
		dimensions = int(c.dimensions.Num)
	}
	b = append(b, `{"object":"list","data":[`...)
	for i := range inputCount(c.input) {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"object":"embedding","index":`...)
		b = strconv.AppendInt(b, int64(i), 10)
		b = append(b, `,"embedding":`...)
		if c.encoding.Str == "base64" {
			b = appendBase64(b, i, dimensions)
		} else {
			b = appendFloats(b, i, dimensions)
		}
		b = append(b, '}')
	}
	b = append(b, `],"model":`...)
	b = append(b, c.model.Raw...)
	if !e.j.plan.noUsage {
		b = append(b, `,"usage":{"prompt_tokens":`...)
		b = strconv.AppendInt(b, e.j.ticket.prompt, 10)
		b = append(b, `,"total_tokens":`...)
		b = strconv.AppendInt(b, e.j.ticket.prompt, 10)
		b = append(b, '}')
	}
	return append(b, '}')
}

// component returns number k of the vector of an input. All have the same size, so that the
// vector has length 1; their signs make vectors of different inputs different.
func component(input, k, dimensions int) float32 {
	v := float32(1 / math.Sqrt(float64(dimensions)))
	if (input+1)>>(k%16)&1 == 1 {
		return -v
	}
	return v
}

func appendFloats(b []byte, input, dimensions int) []byte {
	b = append(b, '[')
	for k := range dimensions {
		if k > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendFloat(b, float64(component(input, k, dimensions)), 'g', -1, 32)
	}
	return append(b, ']')
}

func appendBase64(b []byte, input, dimensions int) []byte {
	raw := make([]byte, 0, 4*dimensions)
	for k := range dimensions {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(component(input, k, dimensions)))
	}
	b = append(b, '"')
	b = base64.StdEncoding.AppendEncode(b, raw)
	return append(b, '"')
}
