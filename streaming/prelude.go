package streaming

import "bytes"

const (
	shortestPrelude = 64 // of less, to read it costs no more than to compare it
	longestPrelude  = 512
	// mostPreludes is how many chunks in a row may begin otherwise than the one before. Then no more is
	// remembered: there are servers that count their chunks, or time each of them.
	mostPreludes = 8
)

// prelude remembers how chunks begin. Those of one answer mostly begin alike, with an id and names, up to their
// choices. What is the same byte by byte tells the same, and need not be read again. The zero value is ready to use.
type prelude struct {
	text   []byte // of a chunk, up to where its choices begin
	told   chunk  // by text; it points into it
	others int    // chunks in a row that began otherwise
}

// read is ch.read, of an empty one. What ch holds then is valid until the next call.
func (p *prelude) read(ch *chunk, data []byte) bool {
	if len(p.text) > 0 && bytes.HasPrefix(data, p.text) {
		p.others = 0
		*ch = p.told
		return ch.readOn(data, len(p.text))
	}
	ok := ch.read(data)
	if ok && ch.choices != nil && p.others < mostPreludes {
		p.others++
		p.remember(data[:cap(data)-cap(ch.choices)]) // choices are a part of data, so that is where they begin
	}
	return ok
}

func (p *prelude) remember(text []byte) {
	if len(text) < shortestPrelude || len(text) > longestPrelude {
		return
	}
	p.text = append(p.text[:0], text...)
	p.told = chunk{}
	p.told.read(p.text) // to the choices, for their value is missing
}
