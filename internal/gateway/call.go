package gateway

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/admission"
	"github.com/llmgov/llmgov/internal/connections"
	"github.com/llmgov/llmgov/internal/form"
	"github.com/llmgov/llmgov/internal/gateway/dialect"
	"github.com/llmgov/llmgov/internal/gateway/head"
	"github.com/llmgov/llmgov/internal/gateway/realtime"
	"github.com/llmgov/llmgov/internal/gateway/route"
	"github.com/llmgov/llmgov/internal/intake"
	"github.com/llmgov/llmgov/internal/telemetry"
	"github.com/llmgov/llmgov/internal/tracing"
	"github.com/llmgov/llmgov/internal/upstreams"
	"github.com/llmgov/llmgov/tenants"
)

// call is one request on its way through the gateway.
type call struct {
	g       *Gateway
	world   *world
	r       *http.Request
	w       writer
	id      string
	began   time.Time
	arrived time.Time // when the whole body was there

	at        route.Place
	route     *route.Route
	tenant    *tenants.Tenant
	key       *tenants.Key
	pool      *poolSide
	account   *telemetry.Account
	estimates *admission.Estimates

	query    url.Values // what the upstream gets of it
	page     page       // of a list of them
	body     []byte
	memory   intake.Claim // of body
	form     *form.Form   // that the body is, if it is one; it is written anew
	head     *head.Head
	withhold bool // the client did not ask for the usage chunk

	req      governor.Request
	ongoing  *ongoingCall   // with an Idempotency-Key
	hint     *time.Duration // the wait that the caller allows
	waited   time.Duration  // for its body's turn, and in policies before this one; see again
	lease    governor.Lease
	admitted time.Time

	may    upstreams.Mask // the pool's upstreams that can serve it
	pinned bool           // only may can serve it, because they have what it refers to
	tried  upstreams.Mask // since it was last admitted
	tries  int            // in all
	try    *try           // on the way; the first one is first
	first  try
	said   upstreams.Told // by the last answer
	asked  time.Time      // when it first asked to be admitted
	turns  int            // how often it was admitted anew
	afresh bool           // it was sent once more, because its connection was lost
	// comeBack is when the upstream said to come back, if its last answer did.
	comeBack time.Duration
	// lost is what failed tries took, and paid what of that was charged with earlier leases.
	lost, paid governor.Usage

	ctx        context.Context // of the tries
	interrupt  context.CancelCauseFunc
	early      early
	spans      *tracing.Call // nil without tracing
	answer     io.Closer     // the metered body, once there is one
	owed       string        // the response that is charged when it is done
	noted      int           // how many objects of its answer were recorded
	panicked   bool
	firstToken time.Duration
	ending     ending
	dearest    string              // of the models of a batch, or of the calls of its file
	batch      batchSize           // likewise
	held       governor.Lease      // of a batch that is being created
	failure    error               // for the log
	turned     *refusal            // llmgov's own answer
	rejection  *governor.Rejection // by the governor, which has been counted
	shown      bool                // the rate headers are set
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
	c.turned = f
	c.w.patience = min(c.w.patience, refusalPatience)
	if c.tenant == nil && c.r.ProtoMajor > 1 {
		c.refuseStranger(f)
		return
	}
	if c.tenant != nil && !c.shown {
		c.showStanding()
	}
	if c.tenant != nil && c.rejection == nil {
		c.g.remember(&pastRefusal{at: time.Now(), snap: c.world.Snapshot, tenant: c.tenant, req: c.req, id: c.id, said: f})
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
	if key == "" {
		return &refusal{Status: http.StatusUnauthorized, Code: admission.CodeKey, Message: "No API key was given. Send it as \"Authorization: Bearer KEY\", \"x-api-key\" or \"api-key\"."}
	}
	t, k, ok := c.world.Snapshot.Lookup(key)
	if ok && k.Expired(c.began) {
		return &refusal{Status: http.StatusUnauthorized, Code: admission.CodeKey, Message: "The API key expired at " + k.Expires.UTC().Format(time.RFC3339) + "."}
	}
	if !ok {
		return &refusal{Status: http.StatusUnauthorized, Code: admission.CodeKey, Message: "The API key is not known here."}
	}
	connections.Known(c.r.Context())
	c.g.admission.MarkUsed(k.Hash, c.began)
	c.key = k
	c.tenant = t
	c.estimates = c.world.Estimates(t.Index)
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
