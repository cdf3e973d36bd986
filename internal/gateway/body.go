package gateway

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"
)

// bodyTimeout bounds how long a client may take to send its body.
const bodyTimeout = 2 * time.Minute

// readBody reads the query, the whole body and its head.
func (c *call) readBody() *refusal {
	if f := c.readQuery(); f != nil {
		return f
	}
	for _, enc := range c.r.Header.Values("Content-Encoding") {
		if enc != "" && enc != "identity" {
			return invalid("", "A body with Content-Encoding "+quoted(enc)+" cannot be governed. Send it as it is.")
		}
	}
	limit := c.world.snap.Config().MaxBody
	if c.r.ContentLength > limit {
		return tooLarge(limit)
	}
	body, err := readAll(http.MaxBytesReader(c.w.ResponseWriter, c.r.Body, limit), c.r.ContentLength)
	if err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return tooLarge(limit)
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return &refusal{status: http.StatusRequestTimeout, code: codeInvalid, message: "The body did not come within " + bodyTimeout.String() + "."}
		}
		return invalid("", "The body broke off before its end.")
	}
	_ = c.w.control.SetReadDeadline(time.Time{}) // from here on reading only watches for the client going
	c.body, c.arrived = body, time.Now()
	return c.readHead()
}

func (c *call) readHead() *refusal {
	var err *badRequest
	switch c.route.body {
	case formBody:
		c.head, err = readForm(c.body, c.r.Header.Get("Content-Type"))
		if err == nil {
			c.head.weighFiles(c.route.files)
		}
	case noBody:
		c.head, c.body = &head{copies: 1, stream: c.route.realtime}, nil // a body is not passed on
		if c.route.realtime {
			c.head.model = c.query.Get("model")
		}
	default:
		c.head, err = readHead(c.body)
	}
	if err == nil && c.at.deployment != "" {
		err = c.head.deployed(c.at.deployment, c.route)
	}
	if err != nil {
		return invalid(err.param, err.what)
	}
	return nil
}

// deployed takes the model from the path. The body may only repeat it.
func (h *head) deployed(model string, r *route) *badRequest {
	switch {
	case h.model != "" && h.model != model:
		return bad("model", "The path names the deployment %q and the body the model %q. Name one, or both alike.", model, h.model)
	case h.model == "" && r.body == formBody:
		return bad("model", "Name the deployment %q as model in the form too.", model)
	case h.model == "" && h.empty:
		return bad("", "The body is empty.")
	case len(model) > 256:
		return bad("model", "The deployment's name is longer than 256 bytes.")
	}
	h.named, h.model = h.model == "", model
	return nil
}

func invalid(param, what string) *refusal {
	return &refusal{status: http.StatusBadRequest, code: codeInvalid, param: param, message: what}
}

func tooLarge(limit int64) *refusal {
	return &refusal{status: http.StatusRequestEntityTooLarge, code: codeTooLarge, message: "The body is larger than " + bytesText(limit) + "."}
}

// trusted is how many bytes are allocated on the word of a Content-Length. Beyond that, memory is
// allocated as bytes come.
const trusted = 64 << 10

// readAll reads r to its end: only then does net/http notice when the client goes away.
func readAll(r io.Reader, announced int64) ([]byte, error) {
	if announced < 0 || announced > trusted {
		return io.ReadAll(r)
	}
	buf := make([]byte, announced)
	if _, err := io.ReadFull(r, buf); err != nil {
		return nil, err
	}
	var rest [1]byte
	if n, err := r.Read(rest[:]); n != 0 || !errors.Is(err, io.EOF) {
		return nil, io.ErrUnexpectedEOF
	}
	return buf, nil
}
