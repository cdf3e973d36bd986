package gateway

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/llmgov/llmgov/internal/admission"
	"github.com/llmgov/llmgov/internal/connections"
	"github.com/llmgov/llmgov/internal/form"
	"github.com/llmgov/llmgov/internal/gateway/dialect"
	"github.com/llmgov/llmgov/internal/gateway/head"
	"github.com/llmgov/llmgov/internal/gateway/realtime"
	"github.com/llmgov/llmgov/internal/gateway/route"
	"github.com/llmgov/llmgov/internal/gateway/stored"
	"github.com/llmgov/llmgov/internal/intake"
)

// call is one request on its way through the gateway: the life of a governed call, and whatever HTTP adds to it.
type call struct {
	admission.Call
	g       *Gateway
	world   *world
	r       *http.Request
	w       writer
	arrived time.Time // when the whole body was there

	at    route.Place
	route *route.Route
	pool  *poolSide

	query    url.Values  // what the upstream gets of it
	page     stored.Page // of a list of them
	body     []byte
	memory   intake.Claim // of body
	form     *form.Form   // that the body is, if it is one; it is written anew
	head     *head.Head
	withhold bool // the client did not ask for the usage chunk

	try    *try // on its way
	tries  tries
	answer io.Closer // the metered body, once there is one
	stored stored.Ledger
	shown  bool // the rate headers are set
}

// dialect is how to speak to the caller, even before the route is known.
func (c *call) dialect() *dialect.Dialect {
	if c.route != nil {
		return c.route.Dialect
	}
	return dialect.All[0]
}

// refusalPatience bounds how long a client may take to read a refusal, which fits into one packet.
const refusalPatience = 5 * time.Second

// mostStrangers is how many refusals of calls without a valid key may be on their way to their
// clients by HTTP/2, where one connection has many. Further ones are cut off without an answer.
const mostStrangers = 256

// refuse answers with a refusal of llmgov's own.
func (c *call) refuse(f *refusal) {
	c.Refused(f)
	c.w.patience = min(c.w.patience, refusalPatience)
	if c.Tenant == nil && c.r.ProtoMajor > 1 {
		c.refuseStranger(f)
		return
	}
	if c.Tenant != nil && !c.shown {
		c.showStanding()
	}
	writeRefusal(&c.w, f, c.dialect())
}

// refuseStranger waits until the client has taken the refusal: until then it holds memory.
func (c *call) refuseStranger(f *refusal) {
	defer c.g.strangers.Add(-1)
	if c.g.strangers.Add(1) > mostStrangers {
		panic(http.ErrAbortHandler)
	}
	writeRefusal(&c.w, f, c.dialect())
	_ = c.w.control.Flush()
}

// authenticate finds the tenant by its key.
func (c *call) authenticate() *refusal {
	key := bearer(c.r.Header)
	if key == "" && c.route != nil && c.route.Realtime {
		key = realtime.Key(c.r.Header)
	}
	if f := c.Identify(key, "Send it as \"Authorization: Bearer KEY\", \"x-api-key\" or \"api-key\"."); f != nil {
		return f
	}
	connections.Known(c.r.Context())
	return nil
}

// bearer is the key, from the first of the headers that SDKs use.
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
