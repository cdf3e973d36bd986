package plain

import (
	"bufio"
	"bytes"
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/llmgov/llmgov/internal/http1"
)

// plainHead returns the length of the head that b begins with; 0 if that is not the whole head of a plain request:
//
//	POST /path HTTP/1.1
//	Host: one name, with its port
//	Content-Length: one number
//	Other-Names: visible characters
//
// with lines that end in CR LF, and nothing that concerns the framing or the connection, but for Connection: keep-alive. It
// is stricter than net/http, so that no two readers can differ about where such a request ends.
func plainHead(b []byte) int {
	line, rest, ok := cutLine(b)
	if !ok || !isPost(line) {
		return 0
	}
	var hosts, lengths int
	for {
		line, rest, ok = cutLine(rest)
		if !ok {
			return 0
		}
		if len(line) == 0 {
			break
		}
		name, value, ok := cutHeader(line)
		if !ok {
			return 0
		}
		switch kindOf(name) {
		case host:
			hosts++
			ok = http1.ConsistsOf(value, ".-:[]")
		case contentLength:
			lengths++
			ok = isLength(value)
		case connection:
			ok = bytes.EqualFold(value, keepAlive)
		case unfit:
			ok = false
		}
		if !ok {
			return 0
		}
	}
	if hosts != 1 || lengths != 1 {
		return 0
	}
	return len(b) - len(rest)
}

var (
	lineEnd   = []byte("\r\n")
	post      = []byte("POST /")
	http11    = []byte(" HTTP/1.1")
	keepAlive = []byte("keep-alive")
)

// readRequest reads a request with a plain head of this length, as http.ReadRequest does, and gives it a context.
func readRequest(ctx context.Context, from *bufio.Reader, head int) (*http.Request, error) {
	come, _ := from.Peek(head)
	if r := requestOf(ctx, string(come)); r != nil {
		_, _ = from.Discard(head)
		return r, nil
	}
	r, err := http.ReadRequest(from)
	if err != nil {
		return nil, err
	}
	return r.WithContext(ctx), nil
}

// requestOf is the request with this plain head; nil if its headers are to be read by net/http.
func requestOf(ctx context.Context, head string) *http.Request {
	head = strings.TrimSuffix(head, "\r\n\r\n")
	line, lines, _ := strings.Cut(head, "\r\n")
	target := line[len("POST ") : len(line)-len(http11)]
	at, err := url.ParseRequestURI(target)
	headers := http1.PlainHeaders(lines)
	if err != nil || headers == nil {
		return nil
	}
	r := new(http.Request).WithContext(ctx) // which copies
	r.Method = http.MethodPost
	r.RequestURI = target
	r.URL = at
	r.Proto = "HTTP/1.1"
	r.ProtoMajor = 1
	r.ProtoMinor = 1
	r.Host = headers.Get("Host")
	delete(headers, "Host")
	r.Header = headers
	r.ContentLength, _ = strconv.ParseInt(headers.Get("Content-Length"), 10, 64) // plain, and so a number
	return r
}

// cutLine returns the first line of b without its end, and what follows.
func cutLine(b []byte) (line, rest []byte, ok bool) { return bytes.Cut(b, lineEnd) }

// isPost reports whether a line requests a POST to a path without escapes, which may be bad ones.
func isPost(line []byte) bool {
	target, ok := bytes.CutSuffix(line, http11)
	if !ok || !bytes.HasPrefix(target, post) {
		return false
	}
	for _, c := range target[len(post):] {
		if c <= ' ' || c >= 0x7f || c == '%' {
			return false
		}
	}
	return true
}

// cutHeader returns the name and the value of a header, without the blanks around it.
func cutHeader(line []byte) (name, value []byte, ok bool) {
	name, value, ok = bytes.Cut(line, colon)
	if !ok || !http1.ConsistsOf(name, otherNameBytes) {
		return nil, nil, false
	}
	for _, c := range value {
		if c < ' ' && c != '\t' || c == 0x7f {
			return nil, nil, false
		}
	}
	return name, bytes.Trim(value, " \t"), true
}

// otherNameBytes may stand in the names of headers beside letters and digits. More may, but do not.
const otherNameBytes = "-_"

var colon = []byte(":")

// kind is what a header is to the framing.
type kind int

const (
	ordinary kind = iota
	host
	contentLength
	connection
	unfit // for a plain request
)

var kinds = []struct {
	name []byte
	kind kind
}{
	{[]byte("Host"), host},
	{[]byte("Content-Length"), contentLength},
	{[]byte("Connection"), connection},
	{[]byte("Transfer-Encoding"), unfit},
	{[]byte("Trailer"), unfit},
	{[]byte("Upgrade"), unfit},
	{[]byte("Expect"), unfit},
}

func kindOf(name []byte) kind {
	for i := range kinds {
		if len(kinds[i].name) == len(name) && bytes.EqualFold(kinds[i].name, name) {
			return kinds[i].kind
		}
	}
	return ordinary
}

// mostDigits are those of the greatest length of a plain body: a petabyte.
const mostDigits = 15

func isLength(value []byte) bool {
	for _, c := range value {
		if c < '0' || c > '9' {
			return false
		}
	}
	return 0 < len(value) && len(value) <= mostDigits
}
