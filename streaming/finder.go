package streaming

import "bytes"

// finder picks the usage object out of the top level of a JSON document that comes in pieces. It follows
// strings and brackets and keeps nothing else. Keys deeper down do not fool it, be they the user's own
// metadata, and a text that quotes JSON does not either.
type finder struct {
	limit int
	found []byte // the last usage object that was whole

	state   place
	depth   int  // open brackets
	inText  bool // inside a string
	escape  bool // the next byte of the string is escaped
	isKey   bool // the string is a key of the top level
	key     [5]byte
	keyLen  int    // in full, though no more is kept than the one looked for has
	capture bool   // inside the usage object
	kept    []byte // what came of it
}

// place says where at the top level the finder stands.
type place uint8

const (
	before     place = iota // no bracket yet
	wantKey                 // behind '{' or ','
	wantColon               // behind a key, or inside the value of another one
	usageColon              // behind the key "usage"
	usageValue              // behind its colon
	behind                  // the document is closed
	foreign                 // not an object
)

// feed reads the next piece.
func (f *finder) feed(p []byte) {
	from := 0 // start of what is captured of p
	for i := 0; i < len(p) && f.state < behind; {
		if f.inText {
			i += f.text(p[i:])
			continue
		}
		switch c := p[i]; c {
		case '"':
			f.inText, f.isKey, f.keyLen = true, f.state == wantKey, 0
		case '{', '[':
			if f.open(c) {
				from = i
			}
		case '}', ']':
			if f.close() {
				f.keep(p[from : i+1])
				f.captured()
			}
		case ':', ',':
			f.separate(c)
		case ' ', '\t', '\r', '\n':
		default:
			f.scalar()
			for i+1 < len(p) && isLiteral(p[i+1]) { // an answer may be a megabyte of numbers
				i++
			}
		}
		i++
	}
	if f.capture {
		f.keep(p[from:])
	}
}

// text passes the rest of a string and returns how many bytes of p that is.
func (f *finder) text(p []byte) int {
	i := 0
	for i < len(p) {
		if f.escape {
			f.escape = false
			f.note(p[i : i+1])
			i++
			continue
		}
		end := bytes.IndexByte(p[i:], '"')
		part := p[i:]
		if end >= 0 {
			part = p[i : i+end]
		}
		f.escape = escaped(part)
		f.note(part)
		i += len(part)
		if end < 0 {
			return i
		}
		if !f.escape {
			f.endText()
			return i + 1
		}
	}
	return i
}

// note collects the bytes of a key.
func (f *finder) note(part []byte) {
	if !f.isKey {
		return
	}
	if f.keyLen < len(f.key) {
		copy(f.key[f.keyLen:], part)
	}
	f.keyLen += len(part)
}

func (f *finder) endText() {
	f.inText = false
	if !f.isKey {
		f.scalar()
		return
	}
	f.state = wantColon
	if f.keyLen == len(f.key) && string(f.key[:]) == "usage" {
		f.state = usageColon
	}
}

// scalar is told of a value that is no object.
func (f *finder) scalar() {
	if f.depth == 0 {
		f.state = foreign
	} else if f.state == usageValue {
		f.state = wantColon
	}
}

// open passes an opening bracket and reports whether it is that of the usage object.
func (f *finder) open(c byte) bool {
	f.depth++
	if f.depth == 1 {
		f.state = foreign
		if c == '{' {
			f.state = wantKey
		}
		return false
	}
	if f.state != usageValue {
		return false
	}
	f.state = wantColon
	f.capture = c == '{'
	f.kept = f.kept[:0]
	return f.capture
}

// close passes a closing bracket and reports whether it is that of the usage object.
func (f *finder) close() bool {
	f.depth--
	switch {
	case f.depth == 0:
		f.state = behind
	case f.depth < 0:
		f.state = foreign
	}
	return f.depth == 1 && f.capture
}

// separate passes a colon or a comma.
func (f *finder) separate(c byte) {
	if f.depth != 1 {
		return
	}
	switch {
	case c == ',':
		f.state = wantKey
	case f.state == usageColon:
		f.state = usageValue
	}
}

func (f *finder) keep(part []byte) {
	if len(f.kept)+len(part) > f.limit {
		f.capture = false
		return
	}
	f.kept = append(f.kept, part...)
}

func (f *finder) captured() {
	if f.capture {
		f.found, f.kept = f.kept, f.found
	}
	f.capture = false
}
