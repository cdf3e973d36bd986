package govhttp

import (
	"bytes"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"net/http/httptrace"
	"path"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/governor/client"
	"github.com/llmgov/llmgov/governor/tokens"
	"github.com/llmgov/llmgov/internal/lib/encoded"
	"github.com/llmgov/llmgov/internal/lib/splice"
	"github.com/llmgov/llmgov/internal/proxy/gateway/describe"
	"github.com/llmgov/llmgov/internal/proxy/gateway/dialect"
	"github.com/llmgov/llmgov/internal/proxy/gateway/head"
	"github.com/llmgov/llmgov/internal/proxy/upstreams"
	"github.com/llmgov/llmgov/internal/run/admission/ask"
)

// call is a request that was read.
type call struct {
	in      *http.Request
	dialect *dialect.Dialect
	route   *dialect.Route
	body    []byte
	head    *head.Head
	ask     client.Request
	// added is what the body has that the caller did not send, and without what it lacks because it was refused.
	added, without upstreams.Addition
	// unsent is set while a connection for it is looked for or made, if its transport tells.
	unsent atomic.Bool
}

// routeOf is the route of a request with its dialect, and the model that its path names, if any; nil if the request is not governed.
func routeOf(r *http.Request) (d *dialect.Dialect, at *dialect.Route, deployment string) {
	below, deployment := pathOf(r)
	d, at = dialect.Inference(below)
	return d, at, deployment
}

// pathOf is the path below /v1 of a request that may be governed, and the model that its path names, if any. The path of a base
// URL does not matter. A path is cleaned, because servers may do that, and a body under another method counts, because handlers may
// look at none.
func pathOf(r *http.Request) (below, deployment string) {
	if r.Method != http.MethodPost && r.ContentLength == 0 {
		return "", ""
	}
	clean := path.Clean("/" + r.URL.Path)
	for _, known := range byLength {
		base, ok := strings.CutSuffix(clean, known)
		if ok && (known != "/messages" || !ofThread(base)) {
			_, deployment, _ = strings.Cut(base, "/openai/deployments/")
			return known, deployment
		}
	}
	return "", ""
}

// ofThread reports whether messages below a base are those of a thread, or of another thing with an id, and none for a model.
func ofThread(base string) bool {
	return !strings.HasSuffix(base, "/v1") && (strings.Contains(base, "/v1/") || strings.Contains(base, "/threads/"))
}

// byLength are the paths of inference, the longest first: one may be the end of another.
var byLength = slices.SortedFunc(slices.Values(dialect.InferencePaths()), func(a, b string) int { return len(b) - len(a) })

// begin is the call of a governed request, with its caller.
func (g *governed) begin(r *http.Request, d *dialect.Dialect, at *dialect.Route) *call {
	c := &call{in: r, dialect: d, route: at}
	c.ask.ID = describe.RequestID(r.Header)
	who := g.opt.Caller(r)
	c.ask.Key = who.Key
	c.ask.Tenant = who.Tenant
	c.ask.Member = who.Member
	return c
}

// read reads the request. The refusal is nil if it can be understood.
func (g *governed) read(c *call, deployment string) (*ask.Refusal, error) {
	body, err := readBody(c.in, g.opt.MaxBody)
	if errors.Is(err, errTooLarge) {
		return g.tooLarge(), nil
	}
	if err != nil {
		return nil, err
	}
	encoding, known := encoded.Of(c.in.Header["Content-Encoding"])
	if !known {
		return describe.Encoded(encoding), nil
	}
	if encoding != "" {
		body, err = encoded.All(c.ask.Tenant+c.ask.Key, encoding, body, g.opt.MaxBody)
		if broken, ok := errors.AsType[*encoded.Broken](err); ok {
			return describe.Garbled(broken), nil
		}
		if int64(len(body)) > g.opt.MaxBody {
			return g.tooLarge(), nil
		}
	}
	c.body = body
	if f := c.readHead(deployment); f != nil {
		return f, nil
	}
	if g.serves && c.namesFurther() {
		return severalModels, nil
	}
	return g.describe(c), nil
}

func (g *governed) tooLarge() *ask.Refusal {
	return &ask.Refusal{Status: http.StatusRequestEntityTooLarge, Code: ask.CodeTooLarge, Message: fmt.Sprintf("The body is larger than %d bytes.", g.opt.MaxBody)}
}

var errTooLarge = errors.New("govhttp: body too large")

// readBody reads the body and closes it.
func readBody(r *http.Request, most int64) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	defer r.Body.Close()
	if r.ContentLength > most {
		return nil, errTooLarge
	}
	var b bytes.Buffer
	if r.ContentLength > 0 {
		b.Grow(int(min(r.ContentLength, 64<<10)) + bytes.MinRead) // what is announced need not come
	}
	n, err := b.ReadFrom(io.LimitReader(r.Body, most+1))
	if err == nil && n > most {
		return nil, errTooLarge
	}
	return b.Bytes(), err
}

func (c *call) readHead(deployment string) *ask.Refusal {
	var err *head.Error
	switch c.route.Body {
	case dialect.Form:
		c.head, _, err = head.ReadForm(c.body, c.in.Header.Get("Content-Type")) // its bytes are sent on as they are
		if err == nil {
			c.head.WeighFiles(c.route.Files)
		}
	default:
		c.body = head.Unmarked(c.body)
		c.head, err = head.Read(c.body)
	}
	if err == nil && deployment != "" {
		err = c.head.Deploy(deployment)
	}
	if err != nil {
		return describe.Unreadable(err)
	}
	return nil
}

// describe asks for the call, as the gateway would.
func (g *governed) describe(c *call) *ask.Refusal {
	var a ask.Ask
	if f := describe.Hints(c.in.Header, &a); f != nil {
		return f
	}
	describe.Ask(&a, c.route, c.head, tokens.Unknown)
	c.ask = client.Request{
		ID:         c.ask.ID,
		Key:        c.ask.Key,
		Tenant:     c.ask.Tenant,
		Member:     c.ask.Member,
		Model:      a.Model,
		Instead:    a.Instead,
		Route:      a.Answer.Route,
		InputSize:  a.Prompt.Size,
		MaxOutput:  a.Answer.Bound,
		Copies:     a.Answer.Copies,
		NoOutput:   a.Answer.None,
		OpenOutput: a.Answer.Open,
		Free:       c.route.Free,
		Stream:     a.Stream,
		Tier:       a.Tier,
		Background: a.Background,
		Header:     c.in.Header,
		MaxWait:    a.MaxWait,
		Retry:      c.retry(),
	}
	if c.route.Body == dialect.JSON {
		c.ask.Body = c.body
	}
	return nil
}

// retry is how the call is recognized that was made before.
func (c *call) retry() client.Retry {
	r := client.Retry{Key: c.in.Header.Get("Idempotency-Key")}
	if r.Key != "" {
		r.Once = true
		h := fnv.New64a()
		_, _ = io.WriteString(h, c.route.Path)
		_, _ = h.Write(c.body)
		r.Digest = h.Sum64()
	}
	switch describe.Attempt(c.in.Header) {
	case escrow.RetryFirst:
		r.Attempt = 1
	case escrow.RetryAgain:
		r.Attempt = 2
	}
	return r
}

// outgoing is the request that is sent on: bounded as the policy has it, and asked for its usage.
func (g *governed) outgoing(c *call, l *client.Lease) *http.Request {
	ctx := l.Context()
	var arrived atomic.Bool
	if !g.serves { // a handler may send other requests with this context
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
			GetConn:      func(string) { c.unsent.Store(!arrived.Load()) }, // perhaps once more, after its connection was lost
			WroteHeaders: func() { c.unsent.Store(false) },
			WroteRequest: func(w httptrace.WroteRequestInfo) { arrived.Store(arrived.Load() || w.Err == nil) },
		})
	}
	out := c.in.Clone(ctx)
	out.Header.Del("X-Llmgov-Priority")
	out.Header.Del("X-Llmgov-Max-Wait")
	out.Header.Del("Content-Encoding")
	body := c.body
	if c.route.Body == dialect.JSON {
		var edits []splice.Edit
		h := *c.head // another body may have to be made
		edits, c.added = describe.Edits(c.route, &h, l.Grant.MaxOutput, c.without)
		body = splice.Copy(body, edits)
	}
	setBody(out, body)
	if g.serves || len(out.Header["Accept-Encoding"]) > 0 { // otherwise net/http decodes what it asks for itself
		out.Header.Set("Accept-Encoding", "identity") // usage must be readable
	}
	return out
}

// refuses returns what of the additions an answer refuses, which is still to be read.
func (c *call) refuses(resp *http.Response) upstreams.Addition {
	if resp.StatusCode < 400 || c.added == 0 || resp.Body == nil {
		return 0
	}
	said, _ := io.ReadAll(io.LimitReader(resp.Body, mostError)) // whatever fails does so once more
	rest := resp.Body
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(said), rest), rest}
	return c.added.RefusedBy(said, upstreams.WordsIn(c.body))
}

// mostError bounds how much of an error is looked at.
const mostError = 64 << 10

// server stands for who serves the call's model.
func (c *call) server() string { return c.in.URL.Host + " " + c.head.Model }
