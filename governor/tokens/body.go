package tokens

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/llmgov/llmgov/internal/lib/jsonscan"
)

// Body is what the JSON body of a call tells of the size of its prompt.
type Body struct {
	Size
	// Files are those that the prompt refers to by an id. They are in no Size.
	Files []File
	// Unseen is how many further things the body refers to whose size nobody can tell from it.
	// They are in no Size.
	Unseen int64
	// Apart are the files in the body itself, which are no text as they stand there, in their order.
	Apart []Span
}

// File is a file that the provider has.
type File struct {
	ID   string
	Kind Kind // Image or Document
}

// Measure weighs a JSON body in one pass. Everything in it is text, keys and quotes too, except
// what a provider is known to read as a picture or as sound: a whole value in base64, at its place
// in a content part that says what it is. A part is known by how it is reached, so that what only
// looks like one (in a schema, in the arguments of a tool) stays text:
//
//	messages, input ─► item ─► content, output ─► item ─► …
//	                    │
//	                    └► type, and the keys of files
//
// Callers that read the body's tokens themselves use a [Measurer].
func Measure(body []byte) Body {
	var m Measurer
	m.measure(body)
	return m.Body()
}

// measure takes in a whole body.
func (m *Measurer) measure(body []byte) {
	m.Reset(body)
	s := jsonscan.New(body)
	for t := s.Next(); t.Kind != jsonscan.End && t.Kind != jsonscan.Invalid; t = s.Next() {
		m.Token(t)
	}
}

// place is where in a body a value stands.
type place uint8

const (
	nowhere place = iota
	inTop         // the body, or the response that a realtime event asks for
	inList        // of items
	inItem        // a message, an item, or a part of one
	inFile        // the object of a part that holds a file or its address
	inTools
	inTool
)

// Measurer weighs a body of which it gets the tokens, one by one. Its memory is used again after Reset.
type Measurer struct {
	body    []byte
	at      int // behind what was taken in
	out     Body
	open    []opened
	parts   []part // the open items and tools, innermost last
	files   []Span // strings in base64 of the open items, which are not weighed yet
	ids     []Span // of files of the open items
	apart   []Span // files that are weighed as such, as their items ended
	scratch []byte
}

// opened is an object or array that has not ended.
type opened struct {
	in     place
	object bool
	next   role // of the value that comes next, in an object
}

// part is an object that may say what it is.
type part struct {
	kind  Kind // of the files in it
	types int
	tool  bool  // it says that the provider runs it
	plain bool  // its file is text as it is, and not in base64
	text  bool  // it says that its files are text
	links int64 // addresses
	// where its files and ids begin
	files, ids int
}

// Span is a string in the body, with its quotes.
type Span struct {
	Start, End int
	Said       int64 // what the text weighs that it has in base64; 0 if it has none
}

// Reset begins with another body.
func (m *Measurer) Reset(body []byte) {
	m.body = body
	m.at = 0
	m.out = Body{}
	m.open = m.open[:0]
	m.parts = m.parts[:0]
	m.files = m.files[:0]
	m.ids = m.ids[:0]
	m.apart = m.apart[:0]
}

// Body is the result, once all tokens were taken in.
func (m *Measurer) Body() Body {
	m.weigh(len(m.body))
	m.body = nil
	if len(m.apart) > 0 {
		m.out.Apart = slices.Clone(m.apart)
		slices.SortFunc(m.out.Apart, func(x, y Span) int { return cmp.Compare(x.Start, y.Start) })
	}
	return m.out
}

// weigh takes what stands before an index for text.
func (m *Measurer) weigh(end int) {
	m.out.Size = m.out.Size.Plus(SizeOf(m.body[m.at:end]))
	m.at = end
}

// Token takes in the next token.
func (m *Measurer) Token(t jsonscan.Token) {
	if t.End-m.at > sampled { // or more than one long text would be weighed by the same samples
		m.weigh(t.Start)
	}
	switch t.Kind {
	case jsonscan.Key:
		m.key(t)
	case jsonscan.ObjectEnd, jsonscan.ArrayEnd:
		m.end()
	default:
		m.value(t)
	}
}

// key finds out what the member's value is.
func (m *Measurer) key(t jsonscan.Token) {
	top := &m.open[len(m.open)-1]
	top.next = roleNone
	if top.in != nowhere && t.End-t.Start <= longestName {
		top.next = roleOf(top.in, m.plain(t))
	}
}

// value takes in a value, or the beginning of one.
func (m *Measurer) value(t jsonscan.Token) {
	in := inTop
	if n := len(m.open); n > 0 {
		in = m.inside(&m.open[n-1], t)
	}
	object := t.Kind == jsonscan.ObjectStart
	if !object && t.Kind != jsonscan.ArrayStart {
		return
	}
	m.open = append(m.open, opened{in: in, object: object})
	if object && (in == inItem || in == inTool) {
		m.parts = append(m.parts, part{files: len(m.files), ids: len(m.ids)})
	}
}

// inside is the place of a value in an object or array. What a scalar says is noted.
func (m *Measurer) inside(of *opened, t jsonscan.Token) place {
	if of.object {
		return m.member(of.next, t)
	}
	switch of.in {
	case inList:
		return inItem
	case inTools:
		return inTool
	}
	return nowhere
}

// end takes the innermost object or array out.
func (m *Measurer) end() {
	last := m.open[len(m.open)-1]
	m.open = m.open[:len(m.open)-1]
	if !last.object || last.in != inItem && last.in != inTool {
		return
	}
	p := m.parts[len(m.parts)-1]
	m.parts = m.parts[:len(m.parts)-1]
	if last.in == inTool {
		if p.tool || p.types > 1 { // of two types servers read different ones
			m.out.Unseen++
		}
		return
	}
	kind := p.kind
	if p.types != 1 || p.plain {
		kind = Text
	}
	m.closePart(&p, kind)
}

// closePart takes an item's files into account once everything is known of it.
func (m *Measurer) closePart(p *part, kind Kind) {
	size := &m.out.Size
	for _, file := range m.files[p.files:] {
		raw := m.body[file.Start:file.End]
		declared := kind != Text && m.isDeclared(p, file)
		of := kind
		if declared {
			of = Document
		}
		switch of {
		case Image:
			size[Image] += Pictures(1)
		case Sound:
			size[Sound] += SoundOf(int64(len(raw)) / 4 * 3)
		case Document:
			text, isText := m.textOf(file, declared)
			file.Said = text.Text()
			*size = size.Plus(text)
			if !isText {
				size[Document] += Weigh(raw)
			}
		default:
			*size = size.Plus(SizeOf(raw))
			continue
		}
		m.apart = append(m.apart, file)
	}
	m.files = m.files[:p.files]
	if kind == Image && !p.text {
		size[Image] += Pictures(p.links)
	} else {
		m.out.Unseen += p.links
		kind = Document
	}
	for _, id := range m.ids[p.ids:] {
		m.out.Files = append(m.out.Files, File{string(jsonscan.Unescape(nil, m.body[id.Start:id.End])), kind})
	}
	m.ids = m.ids[:p.ids]
}

// isDeclared reports whether a file is declared as text: by its data URL, or else by its part.
func (m *Measurer) isDeclared(p *part, file Span) bool {
	data := dataOf(m.body[file.Start+1 : file.End-1])
	if data == nil {
		return p.text
	}
	head := jsonscan.Token{Start: file.Start, End: file.End - len(data), Escaped: true} // with the first digit for a quote
	return bytes.HasPrefix(m.plain(head), []byte("data:text/"))
}

// plain is a key or a type as any server may read it: without escapes, and in lower case.
func (m *Measurer) plain(t jsonscan.Token) []byte {
	raw := m.body[t.Start:t.End]
	text := raw[1 : len(raw)-1]
	if !t.Escaped && isLower(text) {
		return text
	}
	m.scratch = jsonscan.Unescape(m.scratch[:0], raw)
	n := len(m.scratch)
	m.scratch = jsonscan.AppendLower(m.scratch, m.scratch)
	return m.scratch[n:]
}

// isLower reports whether a text is of ASCII alone, and without upper case.
func isLower(text []byte) bool {
	for _, b := range text {
		if b >= 0x80 || 'A' <= b && b <= 'Z' {
			return false
		}
	}
	return true
}

// dataOf is the content of an address that begins as data:image/png;base64, does. All else that may
// be an address is one: it is for the provider to know what it makes of it.
func dataOf(address []byte) []byte {
	const scheme, coding, most = "data:", ";base64,", 128
	head, _, found := bytes.Cut(address[:min(len(address), most)], []byte(coding))
	if !found || !bytes.HasPrefix(head, []byte(scheme)) {
		return nil
	}
	return address[len(head)+len(coding):]
}
