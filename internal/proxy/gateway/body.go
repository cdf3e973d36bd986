package gateway

import (
	"net/http"
	"sync"
	"time"

	"github.com/llmgov/llmgov/internal/lib/encoded"
	"github.com/llmgov/llmgov/internal/lib/text"
	"github.com/llmgov/llmgov/internal/proxy/gateway/describe"
	"github.com/llmgov/llmgov/internal/proxy/gateway/dialect"
	"github.com/llmgov/llmgov/internal/proxy/gateway/head"
	"github.com/llmgov/llmgov/internal/run/admission/ask"
)

// readBody reads the query, the whole body and its head.
func (c *call) readBody() *refusal {
	if f := c.readQuery(); f != nil {
		return f
	}
	if f := describe.Hints(c.r.Header, &c.Ask); f != nil {
		return f
	}
	encoding, known := encoded.Of(c.r.Header["Content-Encoding"])
	if !known {
		return describe.Encoded(encoding)
	}
	if f := c.receive(); f != nil {
		return f
	}
	if encoding != "" && c.route.Body != dialect.None {
		if f := c.decode(encoding); f != nil {
			return f
		}
	}
	_ = c.w.Control.SetReadDeadline(time.Time{}) // from here on reading only watches for the client going
	c.arrived = time.Now()
	return c.readHead()
}

// readQuery reads the query. It refuses one that servers could read differently, or that says what
// belongs into the body.
func (c *call) readQuery() *refusal {
	c.query = nil
	if c.r.URL.RawQuery == "" {
		return nil
	}
	values, err := head.ReadQuery(c.r.URL.RawQuery)
	if err != nil {
		return describe.Unreadable(err)
	}
	if c.at.Azure {
		values.Del(dialect.VersionKey) // it is between the caller and this gateway
	}
	if c.route.ToObjects() {
		err = head.CheckKeys(values, c.route.Query)
	} else {
		err = head.CheckPlain(values)
	}
	if err != nil {
		return describe.Unreadable(err)
	}
	c.query = values
	return nil
}

// headReaders are the memory in which bodies are read.
var headReaders = sync.Pool{New: func() any { return new(head.Reader) }}

func (c *call) readHead() *refusal {
	var err *head.Error
	switch c.route.Body {
	case dialect.Form:
		c.head, c.form, err = head.ReadForm(c.body, c.r.Header.Get("Content-Type"))
		if err == nil {
			c.head.WeighFiles(c.route.Files)
		}
	case dialect.None:
		c.head = &head.Head{Copies: 1, Stream: c.route.Realtime}
		if c.route.Realtime {
			c.head.Model = c.query.Get("model")
		}
	default:
		c.body = head.Unmarked(c.body)
		r := headReaders.Get().(*head.Reader)
		err = r.Read(&c.room, c.body)
		headReaders.Put(r)
		if err == nil {
			c.head = &c.room
		}
	}
	if err == nil && c.at.Deployment != "" {
		err = c.head.Deploy(c.at.Deployment)
	}
	if err != nil {
		return describe.Unreadable(err)
	}
	return nil
}

func invalid(param, what string) *refusal {
	return &refusal{Status: http.StatusBadRequest, Code: ask.CodeInvalid, Param: param, Message: what}
}

func tooLarge(limit int64) *refusal {
	return &refusal{Status: http.StatusRequestEntityTooLarge, Code: ask.CodeTooLarge, Message: "The body is larger than " + text.Bytes(limit) + "."}
}
