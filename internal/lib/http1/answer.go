package http1

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// readAnswer reads the head of an answer.
func (x *exchange) readAnswer(r *http.Request) (*http.Response, error) {
	if resp := x.plainAnswer(r); resp != nil {
		return resp, nil
	}
	return http.ReadResponse(&x.conn.reader.Reader, r)
}

// plainAnswer reads the head of a plain answer as http.ReadResponse does, but in less than half the time. It returns nil, and has read nothing,
// if the head has not come as a whole, or says anything about the framing but a length or chunks, or net/http would change or refuse a part of it.
func (x *exchange) plainAnswer(r *http.Request) *http.Response {
	from := &x.conn.reader.Reader
	_, _ = from.Peek(1) // whoever reads next has the error again
	come, _ := from.Peek(from.Buffered())
	end := bytes.Index(come, []byte("\r\n\r\n"))
	if end < 0 || r.Method != http.MethodPost && r.Method != http.MethodGet {
		return nil
	}
	status, lines, _ := strings.Cut(string(come[:end]), "\r\n")
	if status != "HTTP/1.1 200 OK" {
		return nil
	}
	resp := &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: plainHeaders(lines),
	}
	if !framed(resp) {
		return nil
	}
	_, _ = from.Discard(end + len("\r\n\r\n"))
	return resp
}

// framed takes from the headers of a plain answer how long its body is. It reports whether exactly one of them says so.
func framed(resp *http.Response) bool {
	_, hasLength := resp.Header["Content-Length"]
	if _, chunked := resp.Header["Transfer-Encoding"]; chunked {
		delete(resp.Header, "Transfer-Encoding")
		resp.TransferEncoding = inChunks
		resp.ContentLength = -1
		return !hasLength
	}
	length, err := strconv.ParseUint(resp.Header.Get("Content-Length"), 10, 63)
	resp.ContentLength = int64(length)
	return err == nil && length > 0
}

// inChunks is the only transfer coding of answers that net/http knows.
var inChunks = []string{"chunked"}

// plainHeaders reads the lines of a head as net/http does. It returns nil if one of them is not plain, or a name is there twice; or a line means
// more to net/http than its name and value: those about trailers and the connection, but for keep-alive, those about the framing, but for
// lengths and chunks, and Pragma.
func plainHeaders(lines string) http.Header {
	h := MakeHeaders(lines)
	for lines != "" {
		name, value, rest, ok := CutHeader(lines)
		switch name {
		case "Trailer", "Pragma":
			return nil
		case "Connection":
			ok = ok && value == "keep-alive"
		case "Transfer-Encoding":
			ok = ok && value == "chunked"
		}
		if !ok || !h.Add(name, value) {
			return nil
		}
		lines = rest
	}
	return h.All
}

// sized is a body of known length.
type sized struct{ io.LimitedReader }

// Read implements io.Reader.
func (s *sized) Read(p []byte) (int, error) {
	n, err := s.LimitedReader.Read(p)
	switch {
	case s.N == 0:
		return n, io.EOF
	case err == io.EOF:
		return n, io.ErrUnexpectedEOF
	}
	return n, err
}
