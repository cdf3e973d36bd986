package plain

import (
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/llmgov/llmgov/internal/lib/http1"
)

// beginHead gathers what the handler says of the answer, as it is now: what it does to its headers later has no effect.
func (w *response) beginHead() {
	b := append(w.gather().bytes, "HTTP/1.1 "...)
	b = strconv.AppendInt(b, int64(w.status), 10)
	b = append(b, ' ')
	b = append(b, http.StatusText(w.status)...)
	b = append(b, lineEnd...)
	for _, name := range w.names() {
		for _, value := range w.header[name] {
			b = appendHeader(b, name, value)
		}
	}
	w.out.bytes = b
	_, w.dated = w.header["Date"]
	_, w.typed = w.header["Content-Type"]
	w.typed = w.typed || len(w.header["Content-Encoding"]) > 0
	for _, value := range w.header["Connection"] {
		w.of.last = w.of.last || strings.EqualFold(value, "close")
	}
}

// tokenBytes may stand in names beside letters and digits, by RFC 9110.
const tokenBytes = "!#$%&'*+-.^_`|~"

// names returns the names of all headers that the handler may set, in order.
func (w *response) names() []string {
	if w.namedAsBefore() {
		return w.of.names
	}
	names := w.of.names[:0]
	for name := range w.header {
		if !slices.Contains(framing, name) && http1.ConsistsOf(name, tokenBytes) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	w.of.names = names
	return names
}

// namedAsBefore reports whether the headers have the names of those before them on the connection, which are in order. Most have.
func (w *response) namedAsBefore() bool {
	other := len(w.header)
	for _, name := range framing {
		if _, there := w.header[name]; there {
			other--
		}
	}
	if other != len(w.of.names) {
		return false
	}
	for _, name := range w.of.names {
		if _, there := w.header[name]; !there {
			return false
		}
	}
	return true
}

// framing are the headers that are the server's.
var framing = []string{"Connection", "Content-Length", "Trailer", "Transfer-Encoding"}

// endHead gathers what the server says of an answer whose body begins with first: how it ends, and whether the connection does with it,
// because the server is closing, or because the request has not come to its end.
func (w *response) endHead(first []byte) {
	b := w.gather().bytes
	switch {
	case w.chunked():
		b = appendHeader(b, "Transfer-Encoding", "chunked")
	case w.hasBody():
		b = append(b, "Content-Length: "...)
		b = strconv.AppendInt(b, w.length, 10)
		b = append(b, lineEnd...)
	}
	if !w.dated {
		b = appendHeader(b, "Date", today(time.Now()))
	}
	if !w.typed && len(first) > 0 {
		b = appendHeader(b, "Content-Type", http.DetectContentType(first))
	}
	w.of.last = w.of.last || w.of.of.closing.Load() || !w.request.drain()
	if w.of.last {
		b = appendHeader(b, "Connection", "close")
	}
	w.out.bytes = append(b, lineEnd...)
}

func appendHeader(b []byte, name, value string) []byte {
	b = append(b, name...)
	b = append(b, ": "...)
	if strings.IndexByte(value, '\n') >= 0 || strings.IndexByte(value, '\r') >= 0 {
		value = noLineEnds.Replace(value)
	}
	b = append(b, textproto.TrimString(value)...)
	return append(b, lineEnd...)
}

var noLineEnds = strings.NewReplacer("\r", " ", "\n", " ")

// date is a second as headers name it.
type date struct {
	second int64
	text   string
}

var lastDate atomic.Pointer[date]

// today is the value of the Date header.
func today(now time.Time) string {
	d := lastDate.Load()
	if d == nil || d.second != now.Unix() {
		d = &date{now.Unix(), now.UTC().Format(http.TimeFormat)}
		lastDate.Store(d)
	}
	return d.text
}
