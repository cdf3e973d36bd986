package jsonscan

// MaxDepth is how deeply brackets may nest.
const MaxDepth = 1000

// Kind is what a token is.
type Kind uint8

const (
	// End is behind the document, which was well formed.
	End Kind = iota
	// Invalid is where the document is not JSON, or nests too deeply. The scanner stays there.
	Invalid
	// Key is a member's name, with its quotes. The member's value comes next.
	Key
	// String is a value, with its quotes.
	String
	// Number is a value.
	Number
	// True is a value, as False and Null are.
	True
	False
	Null
	// ObjectStart is a "{".
	ObjectStart
	// ObjectEnd is a "}".
	ObjectEnd
	// ArrayStart is a "[".
	ArrayStart
	// ArrayEnd is a "]".
	ArrayEnd
)

// IsValue reports whether a value begins with the token.
func (k Kind) IsValue() bool {
	return k >= String && k != ObjectEnd && k != ArrayEnd
}

// Token is a part of the document: body[Start:End].
type Token struct {
	Kind    Kind
	Escaped bool // it is a key or a string with a backslash in it
	Start   int
	End     int
}

// Scanner reads one document. It does not keep what it has read.
type Scanner struct {
	body  []byte
	at    int
	state state
	depth int
	// objects has a bit for each open bracket, which is set if it is that of an object.
	objects [MaxDepth/64 + 1]uint64
}

// state is what may come next.
type state uint8

const (
	wantValue    state = iota // at the start, behind a colon, and behind a comma in an array
	wantElement               // behind "[", where the array may also end
	wantMember                // behind "{", where the object may also end
	behindValue               // where a comma, a closing bracket or the end comes
	wrongForGood              // behind an error
)

// New returns a Scanner at the start of a document.
func New(body []byte) Scanner {
	return Scanner{body: body}
}

// Next reads the next token.
func (s *Scanner) Next() Token {
	c := s.skipSpace()
	switch s.state {
	case wantValue:
		return s.value(c)
	case wantElement:
		if c == ']' {
			return s.close(ArrayEnd)
		}
		return s.value(c)
	case wantMember:
		if c == '}' {
			return s.close(ObjectEnd)
		}
		return s.key(c)
	case behindValue:
		return s.behind(c)
	}
	return s.invalid()
}

// behind reads what follows a value.
func (s *Scanner) behind(c byte) Token {
	if s.depth == 0 {
		if s.at < len(s.body) {
			return s.invalid()
		}
		return Token{Kind: End, Start: s.at, End: s.at}
	}
	inObject := s.inObject()
	switch {
	case c == ',' && inObject:
		s.at++
		return s.key(s.skipSpace())
	case c == ',':
		s.at++
		return s.value(s.skipSpace())
	case c == '}' && inObject:
		return s.close(ObjectEnd)
	case c == ']' && !inObject:
		return s.close(ArrayEnd)
	}
	return s.invalid()
}

// key reads a member's name and the colon behind it.
func (s *Scanner) key(c byte) Token {
	if c != '"' {
		return s.invalid()
	}
	t := s.text(Key)
	if t.Kind == Invalid {
		return t
	}
	if s.skipSpace() != ':' {
		return s.invalid()
	}
	s.at++
	s.state = wantValue
	return t
}

// value reads what begins with c.
func (s *Scanner) value(c byte) Token {
	switch c {
	case '"':
		return s.text(String)
	case '{':
		return s.open(ObjectStart, wantMember)
	case '[':
		return s.open(ArrayStart, wantElement)
	case 't':
		return s.word(True, "true")
	case 'f':
		return s.word(False, "false")
	case 'n':
		return s.word(Null, "null")
	}
	return s.number()
}

// open passes an opening bracket.
func (s *Scanner) open(kind Kind, inside state) Token {
	if s.depth == MaxDepth {
		return s.invalid()
	}
	s.depth++
	bit := uint64(1) << (s.depth % 64)
	if kind == ObjectStart {
		s.objects[s.depth/64] |= bit
	} else {
		s.objects[s.depth/64] &^= bit
	}
	s.state = inside
	s.at++
	return Token{Kind: kind, Start: s.at - 1, End: s.at}
}

// inObject reports whether the innermost open bracket is that of an object.
func (s *Scanner) inObject() bool {
	return s.objects[s.depth/64]>>(s.depth%64)&1 == 1
}

// close passes a closing bracket.
func (s *Scanner) close(kind Kind) Token {
	s.depth--
	s.state = behindValue
	s.at++
	return Token{Kind: kind, Start: s.at - 1, End: s.at}
}

// word reads true, false or null.
func (s *Scanner) word(kind Kind, word string) Token {
	end := s.at + len(word)
	if end > len(s.body) || string(s.body[s.at:end]) != word {
		return s.invalid()
	}
	t := Token{Kind: kind, Start: s.at, End: end}
	s.at = end
	s.state = behindValue
	return t
}

// invalid ends the scan.
func (s *Scanner) invalid() Token {
	s.state = wrongForGood
	return Token{Kind: Invalid, Start: s.at, End: s.at}
}

// skipSpace passes white space, and returns the byte behind it, or 0 at the end, which is no byte of
// JSON either.
func (s *Scanner) skipSpace() byte {
	for s.at < len(s.body) {
		c := s.body[s.at]
		if c > ' ' {
			return c
		}
		if c != ' ' && c != '\n' && c != '\r' && c != '\t' {
			return 0
		}
		s.at++
	}
	return 0
}
