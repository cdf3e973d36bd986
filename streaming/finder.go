package streaming

import (
	"bytes"

	"github.com/llmgov/llmgov/internal/lib/jsonscan"
)

var byteOrderMark = []byte("\ufeff")

// finder picks the usage object out of the top level of a JSON document that comes in pieces, and
// the words that name the kind of the document. It follows strings and brackets, and keeps nothing else.
// It is not fooled by keys deeper down, such as in the user's own metadata, nor by a text that
// quotes JSON.
type finder struct {
	limit     int
	envelopes bool   // look into "response" and "message", too, in which typed events have their usage
	found     []byte // the last usage object that was whole
	apart     bool   // found is not in its place, and one that is replaces it
	texts     int64  // bytes of strings that are no keys
	kind      word   // value of "type" at the top level
	object    word   // value of "object" there
	tier      word   // value of "service_tier" there
	item      word   // a string that goes on in the next piece, where the type of an item of "output" stands, or of its action
	ran       ran    // as these items tell
	acts      bool   // the last string in such an item is the key "action",
	typed     bool   // and "type" the last one in that
	// answers, errs and complains mean that there is a member with an answer, with an error, or with words as errors have them.
	// filled answers are not empty lists, which stand beside errors, too. Something unknown may be an answer.
	answers, filled, errs, complains, unknown, used bool
	// choices are there, said means that one has a part of an answer, or its end, and broken that one has an error, in which the finder may be.
	choices, said, broken, inError bool

	state   place
	depth   int  // open brackets
	level   int  // depth at which keys count: 1, or 2 inside an envelope
	inText  bool // inside a string
	escape  bool // the next byte of the string is escaped
	isKey   bool // the string is a key that may count
	noting  bool // the string is kept in a word
	key     word
	name    name   // of the key whose value comes next
	wraps   bool   // the usage may stand in that value
	capture bool   // inside the usage object
	aside   bool   // which is not in its place
	kept    []byte // the part of it that has come
}

// place says where at its level the finder stands.
type place uint8

const (
	before    place = iota // no bracket yet
	wantKey                // behind '{' or ','
	wantColon              // behind a key, or inside the value of another one
	nameColon              // behind a key that counts
	nameValue              // behind its colon
	behind                 // the document is closed
	foreign                // not an object
)

// feed reads the next piece.
func (f *finder) feed(p []byte) {
	from := 0 // start of the captured part of p
	for i := 0; i < len(p) && f.state < behind; {
		if f.inText {
			i += f.text(p[i:])
			continue
		}
		if f.depth > f.level && f.state == wantColon {
			i = f.deeper(p, i)
			if i == len(p) {
				break
			}
		}
		switch c := p[i]; c {
		case '"':
			f.startText()
			if end := skipString(p, i); end > 0 {
				f.note(p[i+1 : end-1])
				f.endText()
				i = end - 1
			}
		case '{', '[':
			if f.open(c, i+1 < len(p) && p[i+1] == c+2) {
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
			if f.state == before && bytes.IndexByte(byteOrderMark, c) >= 0 {
				break
			}
			f.valued(c == 't' || c == '-' || c >= '1' && c <= '9' || c == '0' && f.name == answerName)
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

// deeper passes what stands deeper down, where only brackets and strings matter. It returns the index of the bracket
// that ends it, or of a string that goes on in the next piece, or the length of p.
func (f *finder) deeper(p []byte, i int) int {
	for {
		i += jsonscan.NextNested(p[i:])
		if i == len(p) {
			return i
		}
		switch p[i] {
		case '"':
			end := skipString(p, i)
			if end < 0 {
				return i
			}
			f.listed(p[i+1 : end-1])
			if next := skipSpace(p, end); next == len(p) || p[next] != ':' {
				f.texts += int64(end - i - 2)
				if f.inItem() {
					f.ran.count(p[i+1 : end-1])
				}
			} else if f.name == choicesName {
				f.choice(p[i+1:end-1], p[skipSpace(p, next+1):])
			}
			i = end
			continue
		case '{', '[':
			f.depth++
		default:
			if f.depth-1 == f.level {
				return i
			}
			f.depth--
		}
		i++
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

func (f *finder) startText() {
	f.said = f.said || f.depth > f.level && f.name == choicesName // it goes on in the next piece
	f.inText = true
	f.isKey = f.state == wantKey
	f.noting = f.isKey || f.state == nameValue && f.name.isWord() || f.inItem() || f.inAction()
	if f.noting {
		f.keeper().n = 0
	}
}

// keeper returns the word that a noted string goes to.
func (f *finder) keeper() *word {
	switch {
	case f.isKey:
		return &f.key
	case f.inItem(), f.inAction():
		return &f.item
	case f.name == typeName:
		return &f.kind
	case f.name == tierName:
		return &f.tier
	}
	return &f.object
}

// note collects the bytes of a string that counts.
func (f *finder) note(part []byte) {
	if !f.isKey {
		f.texts += int64(len(part))
		f.unknown = f.unknown || f.depth == 1 && f.state == wantColon && len(part) > 0 && !labels[string(f.key.bytes())]
	}
	if f.noting {
		f.keeper().add(part)
	}
}

func (f *finder) endText() {
	f.inText = false
	if f.inItem() {
		f.ran.count(f.item.bytes())
	}
	f.listed(f.item.bytes())
	if !f.isKey {
		f.valued(true)
		f.scalar()
		return
	}
	f.isKey = false
	f.name = f.nameOf(f.key.bytes())
	f.state = wantColon
	if f.name != noName {
		f.state = nameColon
	}
}

// nameOf reads a key.
func (f *finder) nameOf(key []byte) name {
	f.wraps = false
	switch string(key) {
	case "usage":
		return usageName
	case "usageMetadata", "usage_metadata", "token_usage", "meta":
		if f.level == 1 && !f.envelopes {
			return otherUsageName
		}
	case "response", "message", "data", "result", "x_groq":
		if f.level == 1 && !f.envelopes {
			f.wraps = true
			return max(wrongNames[string(key)], wrapName)
		}
		if f.level == 1 && words.isEnvelope(key) {
			return envelopeName
		}
	case "type":
		if f.level == 1 {
			return typeName
		}
	case "service_tier":
		return tierName
	case "object":
		if f.level == 1 {
			return objectName
		}
	default:
		switch {
		case f.level != 1:
		case f.envelopes:
			if words.isEnvelope(key) {
				return envelopeName
			}
		default:
			return wrongNames[string(key)]
		}
	}
	return noName
}

// wrongNames are the members by which whole answers are told from errors in their place.
var wrongNames = map[string]name{
	"choices": choicesName, "output": answerName, "content": answerName, "data": answerName, "results": answerName, "text": answerName,
	"input_tokens": answerName, "embeddings": answerName, "output_text": answerName, "generated_text": answerName, "completion": answerName,
	"answer": answerName,
	"error":  errorName,
	"errors": complaintName, "detail": complaintName, "message": complaintName, "msg": complaintName, "code": complaintName,
	"error_code": complaintName, "error_msg": complaintName, "base_resp": complaintName, "error_message": complaintName, "errorMessage": complaintName,
	"errorCode": complaintName, "errcode": complaintName, "errmsg": complaintName, "err_code": complaintName, "err_msg": complaintName,
	"Message": complaintName, "Error": complaintName, "fault": complaintName, "exception": complaintName,
}

// labels are the members beside answers, whose texts are none.
var labels = map[string]bool{
	"id": true, "model": true, "status": true, "role": true, "name": true, "provider": true, "version": true, "created": true, "created_at": true,
	"timestamp": true, "request_id": true, "requestId": true, "trace_id": true, "system_fingerprint": true, "service_tier": true,
	"finish_reason": true, "stop_reason": true, "reason": true, "title": true, "path": true, "instance": true,
}

// valued notes what a value that begins means for its key. Null, false and what is empty mean nothing, nor does 0 beside answers.
func (f *finder) valued(meant bool) {
	if f.state != nameValue || !meant {
		return
	}
	switch f.name {
	case answerName:
		f.answers = true
		f.filled = true
	case choicesName:
		f.choices = true
	case usageName, otherUsageName:
		f.used = true
	case wrapName:
		f.unknown = true
	case errorName:
		f.errs = true
	case complaintName:
		f.complains = true
	}
}

// wrong reports whether what has come is an error in place of an answer. Errors have many forms; those without an error
// member are known only once they have come whole, and so are those of choices.
func (f *finder) wrong() bool {
	object := string(f.object.bytes())
	switch {
	case f.hollow() && f.broken:
		return true
	case f.filled, f.choices && !f.hollow():
		return false
	case f.errs:
		return object != "response"
	case object == "error", string(f.kind.bytes()) == "error":
		return true
	case f.answers, f.used, object != "":
		return false
	}
	return f.complains && f.state == behind
}

// failed reports whether there is an error in place of an answer or beside a part of one.
func (f *finder) failed() bool {
	return f.broken || f.wrong() || f.errs && string(f.object.bytes()) == "response"
}

// nothing reports whether a whole document has neither an answer nor an error. One of Responses may have its answer later.
func (f *finder) nothing() bool {
	if f.answers || f.unknown || f.used || f.choices && !f.hollow() {
		return false
	}
	return f.state == behind && string(f.object.bytes()) != "response" && !f.failed()
}

// inItem reports whether a string that begins may be the type of an item of "output".
func (f *finder) inItem() bool {
	return f.name == answerName && f.depth == inChoice && f.state == wantColon
}

// inAction reports whether a string that begins is of the action of such an item.
func (f *finder) inAction() bool {
	return f.acts && f.name == answerName && f.depth == inChoice+1 && f.state == wantColon
}

// listed takes in a string, which may be of an item or of its action: a key, or the value of the one before.
func (f *finder) listed(text []byte) {
	if f.inAction() {
		if f.typed {
			f.ran.read(text)
		}
		f.typed = string(text) == "type"
	}
	if f.inItem() {
		f.acts = string(text) == "action"
	}
}

// hollow reports whether no choice of a whole document says anything.
func (f *finder) hollow() bool { return f.state == behind && f.choices && !f.said }

// The depths at which the members of choices and of messages stand.
const (
	inChoice  = 3
	inMessage = 4
)

// choice notes a member of a choice, or of something in one, given what begins with its value.
func (f *finder) choice(key, value []byte) {
	says := len(value) < 2 // as far as it has come
	switch {
	case says, value[0] == '"':
		says = says || value[1] != '"'
	case value[0] == '{', value[0] == '[':
		next := skipSpace(value, 1)
		says = next == len(value) || value[next] != value[0]+2
	}
	switch {
	case f.depth == inChoice:
		f.inError = string(key) == "error"
		switch {
		case f.inError, string(key) == "finish_reason" && bytes.HasPrefix(value, []byte(`"error"`)):
			f.broken = f.broken || says
		case string(key) == "finish_reason", string(key) == "text":
			f.said = f.said || says
		}
	case f.depth == inMessage && !f.inError && string(key) != "role":
		f.said = f.said || says
	}
}

// scalar notes a value that is no object.
func (f *finder) scalar() {
	if f.depth == 0 {
		f.state = foreign
	} else if f.state == nameValue {
		f.state = wantColon
	}
}

// open passes an opening bracket and reports whether it is that of the usage object.
func (f *finder) open(c byte, empty bool) bool {
	f.depth++
	if f.depth == 1 {
		f.state = foreign
		f.level = 1
		if c == '{' {
			f.state = wantKey
		}
		return false
	}
	if f.state != nameValue {
		f.unknown = f.unknown || f.depth == 2 && !empty
		return false
	}
	if c == '{' && f.wraps && f.name == complaintName {
		f.name = wrapName // a message, and not the text of an error
	}
	f.valued(!empty)
	f.answers = f.answers || f.name == answerName
	f.state = wantColon
	switch {
	case c != '{':
	case f.name == envelopeName, f.wraps:
		f.state = wantKey
		f.level = 2
	case f.name == usageName, f.name == otherUsageName:
		f.capture = true
		f.aside = f.name != usageName || f.level == 2 && !f.envelopes
		f.kept = f.kept[:0]
	}
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
	case f.depth < f.level: // the envelope
		f.state = wantColon
		f.level = f.depth
	}
	return f.depth == f.level && f.capture
}

// separate passes a colon or a comma.
func (f *finder) separate(c byte) {
	if f.depth != f.level {
		return
	}
	switch {
	case c == ',':
		f.state = wantKey
	case f.state == nameColon:
		f.state = nameValue
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
	if f.capture && (!f.aside || f.apart || len(f.found) == 0) {
		f.found, f.kept = f.kept, f.found
		f.apart = f.aside
	}
	f.capture = false
}
