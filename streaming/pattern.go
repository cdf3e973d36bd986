package streaming

import "bytes"

const (
	longestPattern = 1024 // bytes of a chunk that is remembered
	mostGaps       = 4
	// mostUnlike is how many parts in a row may differ from the one before. After that none is
	// remembered any more: there are servers that report usage with each part.
	mostUnlike = 8
)

// pattern remembers a chunk that was a part of the answer and nothing else. Most chunks after it
// differ from it only in their text, and need not be read. The zero value is ready to use.
type pattern struct {
	text   []byte        // of the chunk
	name   []byte        // of its event
	gaps   [mostGaps]gap // in their order
	filled int           // gaps in use
	deltas int64         // for which the chunk counts
	unlike int           // parts in a row that this one did not match
	frame  frame         // of the event
}

// gap is where chunks of one pattern may differ: in a string that is not empty, or in a number.
type gap struct{ start, end int }

// matches returns for how many deltas a chunk counts that matches the pattern, and 0 for any other.
func (p *pattern) matches(name, data []byte) int64 {
	if len(p.text) == 0 || string(name) != string(p.name) || p.end(data) != len(data) {
		return 0
	}
	p.unlike = 0
	return p.deltas
}

// end returns the index behind a chunk at the beginning of data that matches the pattern; -1 if there is none.
func (p *pattern) end(data []byte) int {
	at := 0
	from := 0
	for _, g := range p.gaps[:p.filled] {
		if !bytes.HasPrefix(data[at:], p.text[from:g.start]) {
			return -1
		}
		at = behindVarying(data, at+g.start-from, p.text[g.start] == '"')
		if at < 0 {
			return -1
		}
		from = g.end
	}
	if !bytes.HasPrefix(data[at:], p.text[from:]) {
		return -1
	}
	return at + len(p.text) - from
}

// skim returns the length of the event at the beginning of in, if it is the remembered one but for the text of its chunk;
// otherwise 0.
func (p *pattern) skim(in []byte) int {
	f := &p.frame
	if len(f.behind) == 0 || !bytes.HasPrefix(in, f.before) {
		return 0
	}
	in = in[len(f.before):]
	end := p.end(in)
	if end < 0 || !bytes.HasPrefix(in[end:], f.behind) || bytes.IndexByte(in[:end], '\n') >= 0 || bytes.IndexByte(in[:end], '\r') >= 0 {
		return 0
	}
	p.unlike = 0
	return len(f.before) + end + len(f.behind)
}

// remember makes a pattern of a chunk that counts for so many deltas and tells nothing else.
func (p *pattern) remember(name, data []byte, deltas int64) {
	p.unlike++
	p.frame.forget()
	if p.unlike > mostUnlike || len(data) > longestPattern {
		p.text = p.text[:0]
		return
	}
	p.text = append(p.text[:0], data...)
	p.name = append(p.name[:0], name...)
	p.deltas = deltas
	p.findGaps()
}

// findGaps finds where chunks that match may differ.
func (p *pattern) findGaps() {
	p.filled = 0
	for i := bytes.IndexByte(p.text, '"'); i >= 0 && p.filled < mostGaps; {
		key, next, isKey := readKey(p.text, i)
		if !isKey {
			next = skipString(p.text, i)
		} else if end := behindVarying(p.text, next, p.text[next] == '"'); words.varies(key) && end > 0 {
			p.gaps[p.filled] = gap{next, end}
			p.filled++
			next = end
		}
		n := bytes.IndexByte(p.text[next:], '"')
		if n < 0 {
			return
		}
		i = next + n
	}
}

// behindVarying returns the index behind a string that is not empty, or behind a number; -1 if
// there is none.
func behindVarying(data []byte, i int, text bool) int {
	if i >= len(data) || (data[i] == '"') != text {
		return -1
	}
	if !text && (data[i] < '0' || data[i] > '9') {
		return -1
	}
	end := skipValue(data, i)
	if text && end < i+len(`"x"`) {
		return -1
	}
	return end
}
