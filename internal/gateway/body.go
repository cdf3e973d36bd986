package gateway

import (
	"net/http"
	"time"
)

// readBody reads the query, the whole body and its head.
func (c *call) readBody() *refusal {
	if f := c.readQuery(); f != nil {
		return f
	}
	if f := c.readHints(); f != nil {
		return f
	}
	for _, enc := range c.r.Header.Values("Content-Encoding") {
		if enc != "" && enc != "identity" {
			return invalid("", "A body with Content-Encoding "+quoted(enc)+" cannot be governed. Send it as it is.")
		}
	}
	if f := c.receive(); f != nil {
		return f
	}
	_ = c.w.control.SetReadDeadline(time.Time{}) // from here on reading only watches for the client going
	c.arrived = time.Now()
	return c.readHead()
}

func (c *call) readHead() *refusal {
	var err *badRequest
	switch c.route.body {
	case formBody:
		c.head, c.form, err = readForm(c.body, c.r.Header.Get("Content-Type"))
		if err == nil {
			c.head.weighFiles(c.route.files)
		}
	case noBody:
		c.head = &head{copies: 1, stream: c.route.realtime}
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
	h.named = h.model == ""
	h.model = model
	return nil
}

func invalid(param, what string) *refusal {
	return &refusal{status: http.StatusBadRequest, code: codeInvalid, param: param, message: what}
}

func tooLarge(limit int64) *refusal {
	return &refusal{status: http.StatusRequestEntityTooLarge, code: codeTooLarge, message: "The body is larger than " + bytesText(limit) + "."}
}
