package http1

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httputil"
	"net/textproto"
)

// chunks reads a body in chunks: all at once that have come, because net/http makes several calls for each. The first one that is not
// plain is left to net/http, with all behind it: it ends the body, or its size is not a few digits alone.
type chunks struct {
	from    *lazyReader
	left    int       // bytes of a chunk that has begun, with the line end behind it
	odd     bool      // the next chunk is not plain
	rest    io.Reader // the body, as net/http reads it, from the odd one
	trailer *http.Header
}

const (
	lineEnd   = "\r\n"
	lastChunk = "0\r\n\r\n"
	// longestPlain is the longest line with the size of a plain chunk.
	longestPlain = len("fffffff\r\n")
	// longestTrailer is that of net/http.
	longestTrailer = 4 << 10
)

var (
	errChunk       = errors.New("http1: a chunk does not end where it should")
	errLongTrailer = errors.New("http1: the trailer of the answer is too long")
)

// Read implements io.Reader. It waits only if nothing has come. The end comes along with the last bytes, if it has come.
func (c *chunks) Read(p []byte) (int, error) {
	for need := 1; !c.odd; need = c.from.Buffered() + 1 {
		c.from.await()
		_, err := c.from.Peek(need)
		if err == io.EOF {
			return 0, io.ErrUnexpectedEOF
		}
		if err != nil {
			return 0, err
		}
		in, _ := c.from.Peek(c.from.Buffered())
		n, read, err := c.decode(p, in)
		_, _ = c.from.Discard(read)
		ends := c.left == 0 && bytes.HasPrefix(in[read:], []byte(lastChunk))
		if ends && err == nil {
			_, _ = c.from.Discard(len(lastChunk))
			return n, io.EOF
		}
		if n > 0 || err != nil || len(p) == 0 {
			return n, err
		}
	}
	return c.readRest(p)
}

// readRest reads from the odd chunk on.
func (c *chunks) readRest(p []byte) (int, error) {
	c.from.await()
	if c.rest == nil {
		c.rest = httputil.NewChunkedReader(&c.from.Reader)
	}
	n, err := c.rest.Read(p)
	if err == io.EOF {
		err = c.end()
	}
	return n, err
}

// end reads the trailer as net/http does, and returns io.EOF.
func (c *chunks) end() error {
	from := &c.from.Reader
	for n := len(lineEnd); ; n++ {
		if n > longestTrailer {
			return errLongTrailer
		}
		start, err := from.Peek(n)
		if err == io.EOF {
			return io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
		if string(start) == lineEnd {
			_, _ = from.Discard(len(lineEnd))
			return io.EOF
		}
		if bytes.HasSuffix(start, []byte(lineEnd+lineEnd)) {
			break
		}
	}
	trailer, err := textproto.NewReader(from).ReadMIMEHeader()
	if err != nil {
		return err
	}
	if *c.trailer == nil {
		*c.trailer = http.Header{}
	}
	maps.Copy(*c.trailer, trailer)
	return io.EOF
}

// decode copies to p what is of plain chunks. It returns the number of bytes in p, and of those that were read for them.
func (c *chunks) decode(p, in []byte) (n, read int, err error) {
	for step := 1; step > 0 && read < len(in); read += step {
		rest := in[read:]
		switch {
		case c.left > len(lineEnd):
			step = copy(p[n:], rest[:min(len(rest), c.left-len(lineEnd))])
			n += step
			c.left -= step
		case c.left == 0:
			step = c.begin(rest)
		case rest[0] != lineEnd[len(lineEnd)-c.left]:
			return n, read, errChunk
		default:
			step = 1
			c.left--
		}
	}
	return n, read, nil
}

// begin begins a chunk if it is plain, and returns the length of the line with its size; 0 if that is not here.
func (c *chunks) begin(in []byte) int {
	in = in[:min(len(in), longestPlain)]
	size, digits := 0, 0
	for digits < len(in) && hexDigit[in[digits]] != 0 {
		size = size<<4 | int(hexDigit[in[digits]]-1)
		digits++
	}
	if size > 0 && bytes.HasPrefix(in[digits:], []byte(lineEnd)) {
		c.left = size + len(lineEnd)
		return digits + len(lineEnd)
	}
	c.odd = len(in) == longestPlain || bytes.IndexByte(in, '\n') >= 0
	return 0
}

// hexDigit is the value of a byte as a digit of a size, and one; 0 if the byte is no digit.
var hexDigit = func() (values [256]byte) {
	for i := range 16 {
		values["0123456789abcdef"[i]] = byte(i + 1)
		values["0123456789ABCDEF"[i]] = byte(i + 1)
	}
	return values
}()
