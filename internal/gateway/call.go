package gateway

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/governor/tokens"
	"github.com/llmgov/llmgov/internal/telemetry"
	"github.com/llmgov/llmgov/tenants"
)

// call is one request on its way.
type call struct {
	g       *Gateway
	world   *world
	r       *http.Request
	w       writer
	id      string
	began   time.Time
	arrived time.Time // when the whole body was there

	route     *route
	tenant    *tenants.Tenant
	pool      *poolSide
	account   *telemetry.Account
	estimates *estimates

	body     []byte
	head     *head
	model    string
	weight   int64 // of the body, for estimating its prompt
	withhold bool  // the client did not ask for the usage chunk

	req      governor.Request
	lease    governor.Lease
	admitted time.Time

	interrupt      context.CancelCauseFunc
	sent, bodySent atomic.Bool // the upstream has got the headers; has got it all
	reader         *bytes.Reader
	upstreamStatus int
	answer         io.Closer // the metered body, once there is one
	panicked       bool
	firstToken     time.Duration
	ending         ending
	failure        error    // for the log
	turned         *refusal // what llmgov answered itself
	rejected       bool     // by the governor, which has been counted
	shown          bool     // the rate headers are set
}

// dialect is how to speak to the caller, also before its route is known.
func (c *call) dialect() dialect {
	if c.route != nil {
		return c.route.dialect
	}
	return openAI
}

// refuse answers with a refusal of llmgov's own.
func (c *call) refuse(f *refusal) {
	c.turned = f
	if c.tenant != nil && !c.shown {
		c.showStanding()
	}
	f.write(&c.w, c.dialect())
}

// authenticate finds the tenant by the key that came.
func (c *call) authenticate() *refusal {
	key := bearer(c.r.Header)
	if key == "" {
		return &refusal{status: http.StatusUnauthorized, code: codeKey, message: "No API key was given. Send it as \"Authorization: Bearer KEY\", \"x-api-key\" or \"api-key\"."}
	}
	t, ok := c.world.snap.TenantByKey(key)
	if !ok {
		return &refusal{status: http.StatusUnauthorized, code: codeKey, message: "The API key is not known here."}
	}
	c.tenant, c.estimates = t, c.world.estimates[t.Index]
	return nil
}

// bearer is the key in the first of the headers that SDKs use.
func bearer(h http.Header) string {
	if v := h.Get("Authorization"); v != "" {
		if scheme, key, ok := strings.Cut(v, " "); ok && strings.EqualFold(scheme, "Bearer") {
			return strings.TrimSpace(key)
		}
	}
	if v := h.Get("X-Api-Key"); v != "" {
		return v
	}
	return h.Get("Api-Key")
}

// bodyTimeout bounds how long a client may take to send its body.
const bodyTimeout = 2 * time.Minute

// readBody reads the whole body and its head.
func (c *call) readBody() *refusal {
	if f := c.checkQuery(); f != nil {
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
	if c.route.body == formBody {
		c.head, err = readForm(c.body, c.r.Header.Get("Content-Type"))
	} else {
		c.head, err = readHead(c.body)
	}
	if err != nil {
		return invalid(err.param, err.what)
	}
	c.model = c.head.model
	return nil
}

func invalid(param, what string) *refusal {
	return &refusal{status: http.StatusBadRequest, code: codeInvalid, param: param, message: what}
}

func tooLarge(limit int64) *refusal {
	return &refusal{status: http.StatusRequestEntityTooLarge, code: codeTooLarge, message: "The body is larger than " + bytesText(limit) + "."}
}

// trusted is how much is allocated on the word of a Content-Length. More is
// allocated as it comes.
const trusted = 64 << 10

// readAll reads r to its end: only then does the server watch for the client
// going away.
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

// checkQuery refuses governed keys in the query, where some servers read them too.
func (c *call) checkQuery() *refusal {
	if c.r.URL.RawQuery == "" {
		return nil
	}
	for key := range c.r.URL.Query() {
		if name, read := governedKey(key); read != nil {
			return invalid(name, "The query says "+quoted(brief(key))+". Say it in the body.")
		}
	}
	return nil
}

// choosePool finds the pool that serves the model.
func (c *call) choosePool() *refusal {
	snap := c.world.snap
	if c.model == "" {
		if !c.route.anyModel || c.tenant.DefaultPool == "" {
			return invalid("model", "You must name a model.")
		}
		for _, p := range c.world.pools {
			if p.Name == c.tenant.DefaultPool {
				return c.use(p)
			}
		}
	}
	p, ok := snap.PoolOf(c.model)
	if !ok {
		return &refusal{status: http.StatusNotFound, code: codeNoModel, param: "model", message: "No pool serves the model " + quoted(c.model) + ". GET /v1/models lists what there is."}
	}
	if !c.tenant.MayUse(c.model) {
		return &refusal{status: http.StatusForbidden, code: codeModel, param: "model", message: "Tenant " + c.tenant.Name + " may not use the model " + quoted(c.model) + "."}
	}
	return c.use(c.world.pools[p.Index])
}

func (c *call) use(p *poolSide) *refusal {
	c.pool, c.account = p, c.world.accounts[c.tenant.Index][p.Index]
	if c.account == nil {
		return &refusal{status: http.StatusForbidden, code: codeModel, message: "Tenant " + c.tenant.Name + " may use no model of pool " + p.Name + "."}
	}
	return nil
}

// admit estimates what the call may take, edits its body accordingly, and asks
// the governor.
func (c *call) admit() *refusal {
	if f := c.readHints(); f != nil {
		return f
	}
	var edits []edit
	if c.route.bounds != nil && c.tenant.MaxOutputTokens > 0 {
		edits = c.head.clamp(edits, c.route, c.tenant.MaxOutputTokens)
	}
	if c.route.chunked && c.head.stream {
		edits, c.withhold = c.head.askForUsage(edits)
	}
	c.weight = c.head.weight
	if c.route.body == jsonBody {
		c.weight = tokens.Weigh(c.body)
	}
	c.body = splice(c.body, edits)

	c.req.Tenant, c.req.Pool, c.req.ID, c.req.Stream = c.tenant.Name, c.pool.Name, c.id, c.head.stream
	c.req.Input = c.estimates.prompts.Estimate(c.model, c.weight)
	// By the least that it can have, not by the guess: no call is refused for ever
	// because of a guess.
	if least := tokens.Least(c.weight); c.pool.inputMax > 0 && least > c.pool.inputMax {
		return &refusal{status: http.StatusRequestEntityTooLarge, code: codeTooLarge, message: tooLong(least, c.pool.Name, c.pool.inputMax)}
	}
	if c.route.bounds != nil {
		bound := c.head.bound(c.route)
		if bound == 0 {
			bound = c.pool.DefaultMaxOutput
		}
		c.req.Output = bound * c.head.copies
	}

	asked := time.Now()
	lease, rej := c.g.gov.Acquire(c.r.Context(), c.req)
	c.showStanding()
	c.shown = true
	if rej != nil {
		c.rejected = true
		c.account.Refused(rej.Reason)
		c.w.queued(rej.Waited)
		return rejected(rej)
	}
	c.lease, c.admitted = lease, time.Now()
	c.w.queued(lease.Waited)
	c.account.Admitted(c.req.Input+c.req.Output, lease.Waited)
	c.g.metrics.Overhead.Observe(asked.Sub(c.arrived).Seconds())
	return nil
}

// readHints reads what the caller may say about how it is to be treated.
func (c *call) readHints() *refusal {
	switch p := c.r.Header.Get("X-Llmgov-Priority"); p {
	case "", "interactive":
	case "background":
		return invalid("x-llmgov-priority", "x-llmgov-priority: background is not supported yet.")
	default:
		return invalid("x-llmgov-priority", "x-llmgov-priority must be interactive or background, not "+quoted(p)+".")
	}
	if text := c.r.Header.Get("X-Llmgov-Max-Wait"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 {
			return invalid("x-llmgov-max-wait", "x-llmgov-max-wait must be a duration such as 500ms or 3s, not "+quoted(text)+".")
		}
		c.req.MaxWait = &d
	}
	return nil
}
