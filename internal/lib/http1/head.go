package http1

import (
	"fmt"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strconv"
	"strings"
)

// request writes a request with its body, as Request.Write does.
func (s *sender) request(r *http.Request) error {
	body, inMemory := r.Body.(Body)
	if inMemory && s.gatherHead(r) {
		return s.body(r, body)
	}
	return r.Write(s)
}

// gatherHead gathers the head of a plain POST, as Request.Write does, but without sorting headers and in a third of the time. It
// reports false, and has gathered nothing, if Request.Write would change, add, leave out or refuse anything.
func (s *sender) gatherHead(r *http.Request) bool {
	host := r.Host
	if host == "" {
		host = r.URL.Host
	}
	uri := r.URL.RequestURI()
	if !isPlain(r) || !ConsistsOf(host, ".-:") || !plain(uri) {
		return false
	}
	head := append(s.buf, "POST "...)
	head = append(head, uri...)
	head = append(head, " HTTP/1.1\r\nHost: "...)
	head = append(head, host...)
	head = append(head, "\r\nContent-Length: "...)
	head = strconv.AppendInt(head, r.ContentLength, 10)
	for name, values := range r.Header {
		if !isOrdinary(name, values) {
			return false
		}
		for _, value := range values {
			if name == userAgent && value == "" {
				continue // which asks for none
			}
			head = append(head, "\r\n"...)
			head = append(head, name...)
			head = append(head, ": "...)
			head = append(head, value...)
		}
	}
	s.buf = append(head, "\r\n\r\n"...)
	return true
}

const userAgent = "User-Agent"

// isPlain reports whether a request is a POST whose body has a known length, and says itself by which program it was made.
func isPlain(r *http.Request) bool {
	return r.Method == http.MethodPost && r.ContentLength > 0 && !r.Close &&
		r.TransferEncoding == nil && r.Trailer == nil && len(r.Header[userAgent]) == 1
}

// isOrdinary reports whether a header may stand in a head as it is, and does not concern the framing, which is the sender's.
func isOrdinary(name string, values []string) bool {
	switch name {
	case "Host", "Content-Length", "Transfer-Encoding", "Trailer":
		return false
	}
	for _, value := range values {
		if strings.IndexByte(value, '\r') >= 0 || strings.IndexByte(value, '\n') >= 0 || value != textproto.TrimString(value) {
			return false
		}
	}
	return ConsistsOf(name, "-_")
}

// ConsistsOf reports whether a text has only letters, digits and some other bytes, and is not empty.
func ConsistsOf(text, others string) bool {
	for i := range len(text) {
		c := text[i]
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		digit := '0' <= c && c <= '9'
		if !letter && !digit && strings.IndexByte(others, c) < 0 {
			return false
		}
	}
	return len(text) > 0
}

// body writes the body of a request whose head was gathered, and closes it.
func (s *sender) body(r *http.Request, body Body) error {
	witness := witnessOf(r.Context())
	witness.WroteHeaders()
	n, err := body.WriteRest(gathered{s}, r.ContentLength)
	closed := r.Body.Close()
	if err == nil {
		err = closed
	}
	if err == nil && n != r.ContentLength {
		err = fmt.Errorf("http1: the body of a request has %d bytes, not %d", n, r.ContentLength)
	}
	witness.WroteRequest(httptrace.WroteRequestInfo{Err: err})
	return err
}
