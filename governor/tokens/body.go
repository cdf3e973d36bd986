package tokens

import (
	"bytes"
	"encoding/json"
	"strings"
)

// Body is what the JSON body of a call tells of the size of its prompt.
type Body struct {
	Size
	// Files are those that the prompt refers to by an id. They are in no Size.
	Files []File
	// Unseen is how many further things the body refers to whose size nobody can tell from it.
	// They are in no Size.
	Unseen int64
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
// It must be well formed, and not nested too deeply.
func Measure(body []byte) Body {
	s := scan{body: body}
	s.value(inTop, nil)
	s.out.Size[Text] = s.weight + Weigh(s.body[s.at:])
	return s.out
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

// scan is a body that is being measured.
type scan struct {
	body   []byte
	at     int
	weight int64 // of all that is text so far
	out    Body
}

// part is an object that may say what it is.
type part struct {
	kind  Kind // of the files in it
	types int
	tool  bool     // it says that the provider runs it
	files [][]byte // strings in base64, which are not weighed yet
	links int64    // addresses
	ids   []string
}

// value measures the value that comes next. of is the part that it belongs to, if it does.
func (s *scan) value(in place, of *part) {
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
func (s *scan) to() byte {
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
func (s *scan) skip() {
	if s.at < len(s.body) {
		s.weight += int64(classWeight[s.body[s.at]])
		s.at++
	}
}

// text weighs a string, and returns it with its quotes.
func (s *scan) text() []byte {
	text := s.body[s.at:]
	text = text[:stringLength(text)]
	s.weight += Weigh(text)
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

func (s *scan) array(in place) {
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
func (s *scan) object(in place, of *part) {
	own := part{}
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
func (s *scan) member(in place, key []byte, first byte, p *part) {
	switch in {
	case inTop:
		s.topMember(key, first)
	case inTool:
		if string(key) == "type" && first == '"' {
			p.types++
			p.tool = !ownTools[string(plain(s.text()))]
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
func (s *scan) topMember(key []byte, first byte) {
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

// ownTools are the types of tools that the caller runs, so that what they find comes in a further
// call. All others are run by the provider.
var ownTools = map[string]bool{"function": true, "custom": true, "local_shell": true, "shell": true, "apply_patch": true}

// itemMember measures a member of a message, an item or a part.
func (s *scan) itemMember(key []byte, first byte, p *part) {
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

// kindOf are the types of parts that a provider does not read as text.
var kindOf = map[string]Kind{
	"image_url": Image, "input_image": Image, "image": Image, "computer_screenshot": Image, "image_generation_call": Image,
	"input_audio": Sound,
	"file":        Document, "input_file": Document, "document": Document,
}

// fileMember measures a member that may be a file: its content, its address or its id.
func (s *scan) fileMember(key []byte, first byte, p *part) {
	if first != '"' {
		s.value(nowhere, nil)
		return
	}
	switch string(key) {
	case "url", "file_url", "file_data", "data", "result", "image_url":
		s.file(key, p)
	case "file_id":
		p.ids = append(p.ids, unquoted(s.text()))
	default:
		s.value(nowhere, nil)
	}
}

// file notes a string that is a file or its address. A file is not weighed before it is known what
// of.
func (s *scan) file(key []byte, p *part) {
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
		s.weight += Weigh(raw)
	}
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

// close takes an object's files into account once everything is known of it.
func (s *scan) close(in place, p *part) {
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
func (s *scan) closePart(p *part, kind Kind) {
	size := &s.out.Size
	for _, raw := range p.files {
		switch kind {
		case Image:
			size[Image] += Pictures(1)
		case Sound:
			size[Sound] += SoundOf(int64(len(raw)) / 4 * 3)
		case Document:
			size[Document] += Weigh(raw)
		default:
			s.weight += Weigh(raw)
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

// isBase64 reports whether a text is one value in base64: not words, which have gaps. Some
// encoders escape slashes.
func isBase64(text []byte) bool {
	for i, b := range text {
		if !base64Digit[b] && (b != '\\' || i+1 == len(text) || text[i+1] != '/') {
			return false
		}
	}
	return len(text) > 0
}

var base64Digit = func() (is [256]bool) {
	for b := range is {
		is[b] = 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9' || b == '+' || b == '/' || b == '='
	}
	return is
}()

// inside is a string without its quotes.
func inside(raw []byte) []byte {
	if len(raw) < 2 {
		return nil
	}
	return raw[1 : len(raw)-1]
}

// plain is a key or a type as any server may read it: without escapes, and in lower case.
func plain(raw []byte) []byte {
	text := inside(raw)
	for _, b := range text {
		if b == '\\' || b >= 0x80 || 'A' <= b && b <= 'Z' {
			return []byte(folds.Replace(strings.ToLower(unquoted(raw))))
		}
	}
	return text
}

// folds are the letters beyond ASCII that servers which ignore case take for others.
var folds = strings.NewReplacer("ſ", "s", "\u212a", "k")

// unquoted is what a JSON string says.
func unquoted(raw []byte) (text string) {
	_ = json.Unmarshal(raw, &text) // all of a body that is well formed can be read
	return text
}
