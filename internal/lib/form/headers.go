package form

import (
	"bytes"
	"mime"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/llmgov/llmgov/internal/lib/text"
)

const (
	maxHeaders  = 4096 // bytes of all headers of a part
	maxName     = 256
	maxFilename = 1024
)

// headers are what the headers of a part say.
type headers struct {
	name, filename string
	named, filed   bool              // whether there are such parameters
	extended       string            // the filename as RFC 5987 writes it, which some senders add, or write alone
	kind           string            // the media type, lower case; empty without a Content-Type
	params         map[string]string // of the media type
	quoted         bool              // the content is quoted-printable
}

// readHeaders reads the headers of a part. Those that would change what the part means are refused.
func readHeaders(block string) (headers, *Error) {
	var h headers
	block = strings.ToValidUTF8(block, "?") // which can be part of a filename alone
	seen := map[string]bool{}
	for line := range strings.SplitSeq(block, "\r\n") {
		name, value, ok := strings.Cut(line, ":")
		name = strings.ToLower(name)
		value = strings.Trim(value, " \t")
		if !ok || !isToken(name) || strings.IndexFunc(value, isControl) >= 0 {
			return h, bad("The line %q is not a header of a part.", text.Brief(line))
		}
		if seen[name] {
			return h, bad("A part has the header %s twice.", text.Brief(name))
		}
		seen[name] = true
		if problem := h.read(name, value); problem != nil {
			return h, problem
		}
	}
	if !seen["content-disposition"] {
		return h, bad("A part has no Content-Disposition.")
	}
	return h, nil
}

// read takes one header over.
func (h *headers) read(name, value string) *Error {
	switch name {
	case "content-disposition":
		return h.readDisposition(value)
	case "content-type":
		kind, params, err := mime.ParseMediaType(value)
		if err == nil && strings.Contains(kind, "/") { // else nothing is said of the content
			h.kind = kind
		}
		h.params = params
	case "content-transfer-encoding":
		switch strings.ToLower(value) {
		case "7bit", "8bit", "binary": // as it is
		case "quoted-printable":
			h.quoted = true
		default:
			return bad("The Content-Transfer-Encoding %q of a part is not supported. Send it as it is.", text.Brief(value))
		}
	case "content-encoding":
		if !strings.EqualFold(value, "identity") {
			return bad("The Content-Encoding %q of a part is not supported. Send it as it is.", text.Brief(value))
		}
	} // others change nothing, and are not sent on
	return nil
}

// readDisposition reads form-data; name="…"; filename="…".
func (h *headers) readDisposition(value string) *Error {
	kind, rest, more := strings.Cut(value, ";")
	if !strings.EqualFold(strings.TrimSpace(kind), "form-data") {
		return bad("The Content-Disposition %q must be form-data.", text.Brief(value))
	}
	for more && rest != "" { // some writers end with a semicolon
		var key, said string
		key, rest, more = strings.Cut(rest, "=")
		if more {
			said, rest, more = cutValue(rest, strings.TrimSpace(strings.ToLower(key)) == "filename")
		}
		if !more {
			return bad("The Content-Disposition %q cannot be read.", text.Brief(value))
		}
		if problem := h.param(strings.ToLower(strings.TrimSpace(key)), said); problem != nil {
			return problem
		}
		rest, more = strings.CutPrefix(strings.TrimLeft(rest, " "), ";")
		if !more && rest != "" {
			return bad("The Content-Disposition %q cannot be read.", text.Brief(value))
		}
	}
	if !h.named {
		return bad("A part has no name.")
	}
	if h.extended != "" {
		return h.extend()
	}
	return nil
}

// extend takes the extended filename, of which the plain one is an approximation.
func (h *headers) extend() *Error {
	_, params, err := mime.ParseMediaType("x/x; filename*=" + h.extended)
	name := plain(params["filename"])
	switch {
	case err == nil && name != "" && utf8.ValidString(name):
	case h.filed: // in a charset that is not read
		return nil
	default:
		return bad("The filename* %q cannot be read. Write it in UTF-8.", text.Brief(h.extended))
	}
	h.filed = false
	return h.param("filename", name)
}

// plain is a filename without what would have to be escaped.
func plain(filename string) string {
	return strings.Map(func(r rune) rune {
		if isControl(r) || strings.ContainsRune(`"\`, r) {
			return '_'
		}
		return r
	}, filename)
}

// param takes one parameter of the Content-Disposition over.
func (h *headers) param(key, said string) *Error {
	switch {
	case key == "name" && !h.named:
		h.named = true
		h.name = said
		if !isName(said) {
			return bad("The name %q of a part must be 1 to %d letters, digits and . _ - [ ], and none that servers read as something else.", text.Brief(said), maxName)
		}
	case key == "filename" && !h.filed:
		h.filed = true
		h.filename = said[strings.LastIndexByte(said, '/')+1:] // some servers take the folders away
		if h.filename == "" || len(said) > maxFilename || h.filename == "." || h.filename == ".." {
			return bad("The filename %q must be 1 to %d bytes long, and not end as a folder.", text.Brief(said), maxFilename)
		}
	case key == "filename*" && h.extended == "" && said != "":
		h.extended = said
	case key == "size" || strings.HasSuffix(key, "-date"): // of the sender's file (RFC 2183)
	case key == "name" || key == "filename" || key == "filename*":
		return bad("A part has two parameters %s.", key)
	default:
		return bad("The parameter %q of a Content-Disposition is not supported, only name, filename and filename* are.", text.Brief(key))
	}
	return nil
}

// check refuses types and encodings that change what the content says. In the charsets that Java's clients name it is ASCII, and what
// Delphi's calls quoted has nothing to quote.
func (h *headers) check(file bool, content []byte) *Error {
	if h.quoted && bytes.IndexByte(content, '=') >= 0 {
		return bad("A part with the Content-Transfer-Encoding quoted-printable has a sign =. Send it as it is.")
	}
	if strings.HasPrefix(h.kind, "multipart/") {
		return bad("A part of the type %s is not supported.", text.Brief(h.kind))
	}
	if file {
		return nil
	}
	switch strings.ToLower(h.params["charset"]) {
	case "", "utf-8", "utf8", "us-ascii":
		return nil
	case "iso-8859-1", "windows-1252":
		if !bytes.ContainsFunc(content, func(r rune) bool { return r >= utf8.RuneSelf }) {
			return nil
		}
	}
	return bad("The charset %q of a field is not supported. Send UTF-8.", text.Brief(h.params["charset"]))
}

// fileType is the media type of a file, in its usual form.
func (h *headers) fileType() string {
	if kind := mime.FormatMediaType(h.kind, h.params); kind != "" {
		return kind
	}
	return "application/octet-stream"
}

// cutValue cuts a quoted string or a token off s. A backslash in a quoted string is read in different ways: it may be in a filename, in which
// nobody can find another parameter.
func cutValue(s string, filename bool) (value, rest string, ok bool) {
	if quoted, isQuoted := strings.CutPrefix(s, `"`); isQuoted {
		value, rest, ok = strings.Cut(quoted, `"`)
		for ok && strings.HasSuffix(value, `\`) && !strings.HasSuffix(value, `\\`) {
			var more string
			more, rest, ok = strings.Cut(rest, `"`)
			value += more
		}
		if strings.Contains(value, `\`) {
			return plain(value), rest, ok && filename && !strings.Contains(value, ";")
		}
		return value, rest, ok
	}
	end := strings.IndexAny(s, "; ")
	if end < 0 {
		end = len(s)
	}
	return s[:end], s[end:], isToken(s[:end])
}

// special are the names, or elements of names, that mean something to some servers: how to read the other
// fields, or what JavaScript has in every object.
var special = []string{"_charset_", "__proto__", "prototype", "constructor"}

// isName reports whether every server reads a name alike.
func isName(s string) bool {
	if s == "" || len(s) > maxName {
		return false
	}
	for element := range strings.FieldsFuncSeq(s, func(r rune) bool { return strings.ContainsRune(".[]", r) }) {
		if slices.Contains(special, strings.ToLower(element)) {
			return false
		}
	}
	return strings.IndexFunc(s, func(r rune) bool { return !isAlnum(r) && !strings.ContainsRune("._-[]", r) }) < 0
}

func isToken(s string) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool { return !isAlnum(r) && !strings.ContainsRune("!#$%&'+-.^_`|~", r) }) < 0
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f || r == 0x85 || r == 0x2028 || r == 0x2029 }
