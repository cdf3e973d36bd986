package govhttp

import (
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/llmgov/llmgov/governor/client"
	"github.com/llmgov/llmgov/internal/proxy/gateway/describe"
	"github.com/llmgov/llmgov/internal/proxy/gateway/dialect"
	"github.com/llmgov/llmgov/internal/proxy/gateway/head"
	"github.com/llmgov/llmgov/internal/run/admission/ask"
)

// Middleware governs the calls that a handler serves: another gateway's, or a model server's. Refusals are answered in
// the dialect of the route, with the gateway's headers, and answers show their callers where they stand. The
// handler's request has the lease's context.
func Middleware(c *client.Client, opt Options) func(http.Handler) http.Handler {
	g := newGoverned(c, opt, ByKey)
	g.opt.Answer = true
	g.serves = true
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { g.serve(w, r, next) })
	}
}

// serve serves a request by a handler that is read from as a server would be.
func (g *governed) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if _, at, _ := routeOf(r); at == nil {
		if g.opt.Unknown != nil && g.opt.Unknown(r) != nil {
			http.NotFound(w, r)
			return
		}
		next.ServeHTTP(w, r)
		return
	}
	h := &handled{handler: next}
	defer h.wait()
	resp, err := g.send(r, h.roundTrip)
	switch {
	case errors.Is(err, http.ErrAbortHandler), r.Context().Err() != nil && err != nil:
		panic(http.ErrAbortHandler)
	case err != nil:
		http.Error(w, "The body could not be read.", http.StatusBadRequest)
		return
	}
	defer resp.Body.Close()
	for name, values := range resp.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(resp.StatusCode)
	if copyTo(w, resp.Body) != nil {
		panic(http.ErrAbortHandler) // the answer is not whole
	}
}

// copyTo passes a body on as it comes.
func copyTo(w http.ResponseWriter, body io.Reader) error {
	control := http.NewResponseController(w)
	buf := make([]byte, 32<<10)
	for {
		n, err := body.Read(buf)
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				return err
			}
			_ = control.Flush() // some writers cannot
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// stranger refuses a call that is served for nobody that is known, before its body is read, because strangers could send any
// number of large ones.
func (g *governed) stranger(c *call) error {
	if !g.serves {
		return nil
	}
	if c.ask.Key == "" && c.ask.Tenant == "" {
		return refusal(c.ask.ID, nobody)
	}
	if c.ask.Key == "" || !g.client.Stranger(c.ask.Key) {
		return nil
	}
	_, err := g.client.Reserve(c.in.Context(), client.Request{ID: c.ask.ID, Key: c.ask.Key}) // which says why
	return err
}

// nobody refuses a call without a caller.
var nobody = &ask.Refusal{Status: http.StatusUnauthorized, Code: ask.CodeKey, Message: "No API key was given."}

// severalModels refuses a body that names further models: whether its caller may use them is not known here.
var severalModels = &ask.Refusal{
	Status: http.StatusBadRequest, Code: ask.CodeInvalid, Param: "model",
	Message: "This server governs calls of one model. Name no other ones in the body.",
}

// namesFurther reports whether a body names models beside that of the call.
func (c *call) namesFurther() bool {
	further := c.head.FallsBack
	for _, o := range c.head.Others {
		further = further || o.Model != c.head.Model
	}
	if c.route.Body != dialect.JSON || !describe.MayNameDeeper(c.body) {
		return further
	}
	_, err := head.Walk(c.body, func(key, text string, depth int) {
		further = further || depth > 1 && strings.EqualFold(key, "model") && text != "{" && text != c.head.Model
	})
	return further || err != nil
}
