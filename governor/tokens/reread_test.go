package tokens

import (
	"bytes"
	"encoding/json"
	"strings"
)

// measureAgain is Measure as a second reader: it walks the body by recursion, unescapes with encoding/json,
// and weighs every byte of every text.
func measureAgain(body []byte) Body {
	s := reread{body: body}
	s.value(inTop, nil)
	s.weigh(s.body[s.at:])
	s.out.Size = s.out.framed()
	return s.out
}

// sizeAll weighs every byte.
func sizeAll(text []byte) (all Size) {
	for _, b := range text {
		c := classOf(b)
		all[Text] += int64(c.likely - c.sure)
		all[Sure] += int64(c.sure)
	}
	return all
}

// weigh takes a text in.
func (s *reread) weigh(text []byte) { s.out.Size = s.out.Size.Plus(sizeAll(text)) }

// reread is a body that is being measured.
type reread struct {
	body []byte
	at   int
	out  Body
}

// readPart is an object that may say what it is.
type readPart struct {
	kind  Kind // of the files in it
	types int
	tool  bool     // it says that the provider runs it
	files [][]byte // strings in base64, which are not weighed yet
	links int64    // addresses
	ids   []string
}

// value measures the value that comes next. of is the part that it belongs to, if it does.
func (s *reread) value(in place, of *readPart) {
	switch s.to() {
	case '{':
		s.object(in, of)
	case '[':
		s.array(in)
	case '"':
		s.text()
	default: // a number, true, false or null
		s.skip()
		for s.at < len(s.body) && !ends[s.body[s.at]] {
			s.skip()
		}
	}
}

// ends are the bytes that end a number or a word.
var ends = [256]bool{',': true, ']': true, '}': true, ' ': true, '\t': true, '\r': true, '\n': true}

// to weighs what stands before the next value, key or bracket, and returns its first byte.
func (s *reread) to() byte {
	for s.at < len(s.body) {
		switch b := s.body[s.at]; b {
		case ' ', '\t', '\r', '\n', ',', ':':
			s.skip()
		default:
			return b
		}
	}
	return 0
}

// skip weighs the next byte as text.
func (s *reread) skip() {
	if s.at < len(s.body) {
		s.weigh(s.body[s.at : s.at+1])
		s.at++
	}
}

// text weighs a string, and returns it with its quotes.
func (s *reread) text() []byte {
	text := s.body[s.at:]
	text = text[:stringLength(text)]
	s.weigh(text)
	s.at += len(text)
	return text
}

// stringLength is the length of the string that text begins with, quotes included.
func stringLength(text []byte) int {
	quote := 0
	for i := 1; i < len(text); {
		if quote < i { // else it was found before, and nothing is searched twice
			n := bytes.IndexByte(text[i:], '"')
			if n < 0 {
				break
			}
			quote = i + n
		}
		slash := bytes.IndexByte(text[i:quote], '\\')
		if slash < 0 {
			return quote + 1
		}
		i += slash + 2
	}
	return len(text)
}

func (s *reread) array(in place) {
	element := nowhere
	switch in {
	case inList:
		element = inItem
	case inTools:
		element = inTool
	}
	s.skip()
	for {
		switch s.to() {
		case ']', '}', 0:
			s.skip()
			return
		}
		s.value(element, nil)
	}
}

// object measures an object. of is the part that it belongs to, if it is in inFile.
func (s *reread) object(in place, of *readPart) {
	own := readPart{}
	p := &own
	if in == inFile {
		p = of
	}
	s.skip()
	for {
		switch s.to() {
		case '"':
		case '}', ']', 0:
			s.skip()
			s.close(in, &own)
			return
		default: // not JSON
			s.skip()
			continue
		}
		key := s.text()
		first := s.to()
		if in == nowhere || in == inList || in == inTools {
			s.value(nowhere, nil)
			continue
		}
		s.member(in, plain(key), first, p)
	}
}

// member measures the value of a key.
func (s *reread) member(in place, key []byte, first byte, p *readPart) {
	switch in {
	case inTop:
		s.topMember(key, first)
	case inTool:
		if string(key) == "type" && first == '"' {
			p.types++
			p.tool = !ownTools[string(plain(s.text()))]
			return
		}
		if string(key) == "tools" {
			s.value(inTools, nil)
			return
		}
		s.value(nowhere, nil)
	case inItem:
		s.itemMember(key, first, p)
	default:
		s.fileMember(key, first, p)
	}
}

// topMember measures a member of the body.
func (s *reread) topMember(key []byte, first byte) {
	switch string(key) {
	case "messages", "input":
		s.value(inList, nil)
	case "item":
		s.value(inItem, nil)
	case "response", "extra_body": // some servers read the latter as if it were the body
		s.value(inTop, nil)
	case "tools":
		s.value(inTools, nil)
	case "prompt", "web_search_options": // an object is a stored prompt
		if first == '{' {
			s.out.Unseen++
		}
		s.value(nowhere, nil)
	case "mcp_servers", "plugins":
		if first == '[' {
			s.out.Unseen++
		}
		s.value(nowhere, nil)
	default:
		s.value(nowhere, nil)
	}
}

// itemMember measures a member of a message, an item or a part.
func (s *reread) itemMember(key []byte, first byte, p *readPart) {
	switch string(key) {
	case "type":
		if first != '"' {
			s.value(nowhere, nil)
			return
		}
		p.types++
		p.kind = kindOf[string(plain(s.text()))]
	case "content":
		s.value(inList, nil)
	case "output":
		if first == '{' {
			s.value(inItem, nil)
			return
		}
		s.value(inList, nil)
	case "image_url", "video_url", "audio_url", "input_audio", "file", "source":
		if first == '"' {
			s.file(key, p)
			return
		}
		s.value(inFile, p)
	case "file_url", "file_data", "file_id", "result":
		s.fileMember(key, first, p)
	default:
		s.value(nowhere, nil)
	}
}

// fileMember measures a member that may be a file: its content, its address or its id.
func (s *reread) fileMember(key []byte, first byte, p *readPart) {
	if first != '"' {
		s.value(nowhere, nil)
		return
	}
	switch string(key) {
	case "url", "file_url", "file_data", "data", "result", "image_url":
		s.file(key, p)
	case "file_id":
		p.ids = append(p.ids, unescaped(s.text()))
	default:
		s.value(nowhere, nil)
	}
}

// file notes a string that is a file or its address. A file is not weighed before it is known what
// of.
func (s *reread) file(key []byte, p *readPart) {
	raw := s.body[s.at:]
	raw = raw[:stringLength(raw)]
	s.at += len(raw)
	encoded := false
	switch string(key) {
	case "data", "result":
		encoded = isBase64(inside(raw))
	case "file_data":
		encoded = isBase64(dataOf(inside(raw)))
	default:
		encoded = isBase64(dataOf(inside(raw)))
		if !encoded {
			p.links++
		}
	}
	if encoded {
		p.files = append(p.files, raw)
	} else {
		s.weigh(raw)
	}
}

// close takes an object's files into account once everything is known of it.
func (s *reread) close(in place, p *readPart) {
	switch {
	case in == inTool && (p.tool || p.types > 1): // of two types servers read different ones
		s.out.Unseen++
	case in == inItem && p.types == 1:
		s.closePart(p, p.kind)
	case in == inItem:
		s.closePart(p, Text)
	}
}

// closePart does so for a part of that kind.
func (s *reread) closePart(p *readPart, kind Kind) {
	size := &s.out.Size
	for _, raw := range p.files {
		switch kind {
		case Image:
			size[Image] += Pictures(1)
		case Sound:
			size[Sound] += SoundOf(int64(len(raw)) / 4 * 3)
		case Document:
			size[Document] += sizeAll(raw).Text()
		default:
			s.weigh(raw)
		}
	}
	if kind == Image {
		size[Image] += Pictures(p.links)
	} else {
		s.out.Unseen += p.links
		kind = Document
	}
	for _, id := range p.ids {
		s.out.Files = append(s.out.Files, File{id, kind})
	}
}

// plain is a key or a type as any server may read it: without escapes, and in lower case.
func plain(raw []byte) []byte {
	text := inside(raw)
	for _, b := range text {
		if b == '\\' || b >= 0x80 || 'A' <= b && b <= 'Z' {
			return []byte(folds.Replace(strings.ToLower(unescaped(raw))))
		}
	}
	return text
}

// folds are the letters beyond ASCII that servers which ignore case take for others.
var folds = strings.NewReplacer("ſ", "s", "\u212a", "k")

// unescaped is what a JSON string says.
func unescaped(raw []byte) (text string) {
	_ = json.Unmarshal(raw, &text) // all of a body that is well formed can be read
	return text
}

// inside is a string without its quotes.
func inside(raw []byte) []byte {
	if len(raw) < 2 {
		return nil
	}
	return raw[1 : len(raw)-1]
}

// isBase64 is jsonscan.IsBase64, byte by byte.
func isBase64(text []byte) bool {
	for i, b := range text {
		isDigit := 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9' || b == '+' || b == '/' || b == '='
		if !isDigit && (b != '\\' || i+1 == len(text) || text[i+1] != '/') {
			return false
		}
	}
	return len(text) > 0
}
