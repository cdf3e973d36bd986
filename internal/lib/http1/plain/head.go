package plain

import (
	"bufio"
	"bytes"
	"context"
	"net/http"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"

	"github.com/llmgov/llmgov/internal/lib/http1"
)

// head is that of a plain request:
//
//	POST /path HTTP/1.1
//	Host: one name, with its port
//	Content-Length: one number
//	Other-Names: visible characters
//
// with lines that end in CR LF, and nothing that concerns the framing or the connection, but for Connection: keep-alive. It
// is stricter than net/http, so that no two readers can differ about where such a request ends.
type head struct {
	size    int // in bytes
	target  string
	host    string
	length  int64       // of the body
	headers http.Header // all but Host; nil if net/http is to read them
}

var (
	post    = []byte("POST /")
	lineEnd = []byte("\r\n")
	headEnd = []byte("\r\n\r\n")
)

const http11 = " HTTP/1.1"

// plainHead reads the head that come begins with. It reports false if that is not the whole head of a plain request.
func plainHead(come []byte) (h head, ok bool) {
	if !bytes.HasPrefix(come, post) {
		return h, false
	}
	end := bytes.Index(come, headEnd)
	if end < 0 {
		return h, false
	}
	h.size = end + len(headEnd)
	text := string(come[:end])
	line, lines, _ := strings.Cut(text, "\r\n")
	ok = h.readTarget(line) && h.readLines(lines)
	return h, ok
}

// readTarget reads a request line. It reports false if that has not this version of HTTP, or a path with escapes, which may be bad ones.
func (h *head) readTarget(line string) bool {
	target, ok := strings.CutSuffix(line[len("POST "):], http11)
	for i := range len(target) {
		if c := target[i]; c <= ' ' || c >= 0x7f || c == '%' {
			return false
		}
	}
	h.target = target
	return ok
}

// readLines reads the lines of headers, and reports whether a plain request has them. An unusual line, such as a header that is there twice or has a
// value in UTF-8, leaves the headers to net/http's reader, but the connection here.
func (h *head) readLines(lines string) bool {
	all := http1.MakeHeaders(lines)
	hosts, lengths := 0, 0
	usual := true
	for lines != "" {
		name, value, rest, ok := http1.CutHeader(lines)
		if !ok {
			usual = false
			name, value, rest, ok = cutUnusual(lines)
		}
		lines = rest
		switch name {
		case "Host":
			hosts++
			h.host = value
			ok = ok && http1.ConsistsOf(value, ".-:[]")
		case "Content-Length":
			lengths++
			ok = ok && h.readLength(value)
		case "Connection":
			ok = ok && strings.EqualFold(value, keepAlive)
			usual = usual && value == keepAlive
		case "Pragma":
			usual = false // net/http makes a Cache-Control of it
		case "Transfer-Encoding", "Trailer", "Upgrade", "Expect":
			return false
		}
		if !ok {
			return false
		}
		usual = usual && (name == "Host" || all.Add(name, value))
	}
	if usual {
		h.headers = all.All
	}
	return hosts == 1 && lengths == 1
}

const keepAlive = "keep-alive"

// mostDigits are those of the greatest length of a plain body: a petabyte.
const mostDigits = 15

// readLength reads the length of the body. Unlike strconv, it takes no sign.
func (h *head) readLength(value string) bool {
	n, err := strconv.ParseUint(value, 10, 63)
	h.length = int64(n)
	return err == nil && len(value) <= mostDigits
}

// cutUnusual cuts a line off that [http1.CutHeader] does not: its value may have blanks around it, which are left out, and bytes beyond ASCII, or none.
func cutUnusual(lines string) (name, value, rest string, ok bool) {
	line, rest, _ := strings.Cut(lines, "\r\n")
	name, value, ok = strings.Cut(line, ":")
	for i := range len(value) {
		if c := value[i]; c < ' ' && c != '\t' || c == 0x7f {
			return "", "", "", false
		}
	}
	ok = ok && http1.ConsistsOf(name, "-_") // more may stand in names, but does not
	return textproto.CanonicalMIMEHeaderKey(name), strings.Trim(value, " \t"), rest, ok
}

// readRequest reads a request with this head, as http.ReadRequest does, and gives it a context.
func readRequest(ctx context.Context, from *bufio.Reader, h *head) (*http.Request, error) {
	if r := h.request(ctx); r != nil {
		_, _ = from.Discard(h.size)
		return r, nil
	}
	r, err := http.ReadRequest(from)
	if err != nil {
		return nil, err
	}
	return r.WithContext(ctx), nil
}

// request is the one with this head; nil if net/http is to read it.
func (h *head) request(ctx context.Context) *http.Request {
	if h.headers == nil {
		return nil
	}
	at := &url.URL{Path: h.target}
	if !http1.ConsistsOf(h.target, "/-_.") { // most targets are such a path
		var err error
		at, err = url.ParseRequestURI(h.target)
		if err != nil {
			return nil
		}
	}
	r := new(http.Request).WithContext(ctx) // which copies
	r.Method = http.MethodPost
	r.RequestURI = h.target
	r.URL = at
	r.Proto = "HTTP/1.1"
	r.ProtoMajor = 1
	r.ProtoMinor = 1
	r.Host = h.host
	r.Header = h.headers
	r.ContentLength = h.length
	return r
}
