package head

import (
	"bytes"

	"github.com/tidwall/gjson"

	"github.com/llmgov/llmgov/internal/lib/jsonscan"
	"github.com/llmgov/llmgov/internal/lib/splice"
)

// topLevel finds the governed members of a body, from its tokens. Their values are read once the body is
// known to be well formed, each by its own rule in governed.
type topLevel struct {
	body  []byte
	depth int
	open  int // just behind the body's {; 0 if it is no object

	members int
	list    []governedMember
	seen    []string
	problem *Error // with the key that comes behind those in the list
	reading bool   // the value that comes next is that of the last in the list

	prompts int64 // elements of prompt,
	numbers bool  // some of which are numbers

	kindNext bool // the value that comes next is the kind of a tool
	scratch  []byte
}

// governedMember is a governed key and the place of its value.
type governedMember struct {
	name       string
	read       func(*Head, gjson.Result) *Error
	key        int // where that begins
	before     int // how many members are
	start, end int
	// asks means that a tool in the value may name models, or must.
	asks bool
}

// reset begins with another body.
func (m *topLevel) reset(body []byte) {
	*m = topLevel{body: body, list: m.list[:0], seen: m.seen[:0], scratch: m.scratch[:0]}
}

// token takes in the next token.
func (m *topLevel) token(t jsonscan.Token) {
	switch {
	case m.depth == 0:
		if t.Kind == jsonscan.ObjectStart {
			m.open = t.End
		}
	case m.depth == 1:
		m.member(t)
	case m.reading:
		m.inside(&m.list[len(m.list)-1], t)
	}
	switch t.Kind {
	case jsonscan.ObjectStart, jsonscan.ArrayStart:
		m.depth++
	case jsonscan.ObjectEnd, jsonscan.ArrayEnd:
		m.depth--
		if m.depth == 1 {
			m.valueEnds(t)
		}
	}
}

// member takes in a token at the top level of the body.
func (m *topLevel) member(t jsonscan.Token) {
	switch t.Kind {
	case jsonscan.Key:
		m.key(t)
		m.members++
	case jsonscan.ObjectStart, jsonscan.ArrayStart:
		if m.reading {
			m.list[len(m.list)-1].start = t.Start
		}
	case jsonscan.ObjectEnd, jsonscan.ArrayEnd:
	default:
		if m.reading {
			m.list[len(m.list)-1].start = t.Start
			m.valueEnds(t)
		}
	}
}

// valueEnds notes the end of a member's value.
func (m *topLevel) valueEnds(t jsonscan.Token) {
	if m.reading {
		m.list[len(m.list)-1].end = t.End
		m.reading = false
	}
}

// key adds a member to the list, if it is governed.
func (m *topLevel) key(t jsonscan.Token) {
	if m.problem != nil {
		return
	}
	key := m.says(t)
	name, read := governedKey(key)
	if read == nil {
		return
	}
	m.seen, m.problem = oneOf(m.seen, key, name)
	if m.problem == nil {
		m.list = append(m.list, governedMember{name: name, read: read, key: t.Start, before: m.members})
		m.reading = true
	}
}

// says is what a key says; see [says]. It is valid until the next call.
func (m *topLevel) says(t jsonscan.Token) string {
	return says(m.body[t.Start:t.End], t.Escaped, &m.scratch)
}

// inside takes in a token within the value of a governed member.
func (m *topLevel) inside(of *governedMember, t jsonscan.Token) {
	switch of.name {
	case "prompt":
		if m.depth == 2 && t.Kind.IsValue() && m.body[of.start] == '[' {
			m.prompts++
			m.numbers = m.numbers || t.Kind == jsonscan.Number
		}
	case "tools", "plugins":
		of.asks = of.asks || m.mayAsk(t)
	}
}

// mayAsk reports whether a tool may name models, or must: by a key that could be one of those that
// readAsked knows, or by its kind. Most tools are functions with schemas, which are not read again.
func (m *topLevel) mayAsk(t jsonscan.Token) bool {
	isKind := m.kindNext
	m.kindNext = false
	switch t.Kind {
	case jsonscan.Key:
		key := m.body[t.Start+1 : t.End-1]
		if t.Escaped || !isASCII(key) {
			return true
		}
		m.kindNext = bytes.EqualFold(key, typeName) || bytes.EqualFold(key, idName)
		return bytes.EqualFold(key, modelName) || bytes.EqualFold(key, analysisName) || bytes.EqualFold(key, toolsName)
	case jsonscan.String:
		return isKind && (t.Escaped || mayBeAsking(m.body[t.Start+1:t.End-1]))
	}
	return false
}

var (
	typeName     = []byte("type")
	idName       = []byte("id")
	modelName    = []byte("model")
	analysisName = []byte("analysis_models")
	toolsName    = []byte("tools")
)

// askingKinds are the beginnings of the kinds of tools in asks.
var askingKinds = [][]byte{[]byte("image_generation"), []byte("advisor"), []byte("openrouter"), []byte("fusion")}

// mayBeAsking reports whether a kind of tools may be one of those that ask models.
func mayBeAsking(kind []byte) bool {
	for _, begins := range askingKinds {
		if len(kind) >= len(begins) && bytes.EqualFold(kind[:len(begins)], begins) {
			return true
		}
	}
	return !isASCII(kind) // which may be another word in lower case
}

// read reads the governed values into a Head. The body must be well formed.
func (m *topLevel) read(h *Head) *Error {
	if m.open == 0 {
		return bad("", "The body must be a JSON object.")
	}
	h.Copies = 1
	h.prompts = max(1, m.prompts)
	if m.numbers {
		h.prompts = 1 // one prompt, as tokens
	}
	h.empty = m.members == 0
	h.open = m.open
	for i := range m.list {
		member := &m.list[i]
		if (member.name == "tools" || member.name == "plugins") && !member.asks {
			continue
		}
		if err := member.read(h, m.value(member)); err != nil {
			return err
		}
		if t := h.Asked; t != nil && t.at.start == member.start {
			t.members = member.before
			t.out, t.first = m.without(member)
		}
	}
	if m.problem != nil {
		return m.problem
	}
	h.Copies *= h.prompts
	if h.Copies > maxCopies {
		return bad("n", "The call asks for %d answers, more than %d.", h.Copies, maxCopies)
	}
	return nil
}

// without are the edits that take a member out: with the comma before it, and, for the first one, up to the next. That one gives the next
// its own quote, because members are inserted before this. One that has no next has no value in place of its own.
func (m *topLevel) without(of *governedMember) (out, first splice.Edit) {
	const space = " \t\r\n"
	out = splice.Edit{Start: len(bytes.TrimRight(m.body[:of.key], space)) - 1, End: of.end}
	first = splice.Edit{Start: of.start, End: of.end, Text: "null"}
	if rest := bytes.TrimLeft(m.body[of.end:], space); rest[0] == ',' {
		rest = bytes.TrimLeft(rest[1:], space)
		first = splice.Edit{Start: of.key + 1, End: len(m.body) - len(rest) + 1}
	}
	return out, first
}

// value is a member's value. Readers copy the parts that they keep.
func (m *topLevel) value(of *governedMember) gjson.Result {
	return valueAt(inPlace(m.body[of.start:of.end]), of.start)
}
