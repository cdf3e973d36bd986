package gateway

import (
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/llmgov/llmgov/internal/lib/form"
	"github.com/llmgov/llmgov/internal/proxy/gateway/dialect"
	"github.com/llmgov/llmgov/internal/proxy/gateway/head"
	"github.com/llmgov/llmgov/internal/proxy/gateway/relay"
	"github.com/llmgov/llmgov/internal/proxy/gateway/route"
	"github.com/llmgov/llmgov/internal/proxy/gateway/stored"
	"github.com/llmgov/llmgov/internal/proxy/intake"
	"github.com/llmgov/llmgov/internal/run/admission"
	"github.com/llmgov/llmgov/streaming"
)

// call is one request on its way through the gateway: the life of a governed call, and whatever HTTP adds to it.
type call struct {
	admission.Call
	g       *Gateway
	world   *world
	r       *http.Request
	w       *relay.Writer
	arrived time.Time // when the whole body was there

	at    route.Place
	route *route.Route
	pool  *poolSide

	query    url.Values  // the part of it that the upstream gets
	page     stored.Page // of a list of them
	body     []byte
	memory   intake.Claim     // of body
	pace     pacedBody        // that reads it
	rest     io.LimitedReader // that reads what nobody wants of it
	form     *form.Form       // that the body is, if it is one; it is written anew
	head     *head.Head
	room     head.Head // for the head of a JSON body
	named    naming    // the model, in what is sent
	added    [2]added  // to the body
	withhold bool      // the client did not ask for the usage chunk

	try          *try // on its way
	tries        tries
	answer       io.Closer // the metered body, once there is one
	stored       stored.Ledger
	shown        bool              // the rate headers are set
	begun        relay.Begun       // the answer, if it is not labelled as a stream,
	whole        streaming.Whole   // and is none
	callbacks    streaming.Options // the functions by which a stream tells the call of itself; used again
	whileWaiting func()            // is showAdmitted; used again
	timed        bool              // it is a stream, whose timer may know w for longer than the call lasts
}

// outliving are the parts of a call that others may know for longer than the call lasts: the governor, the transport, net/http.
// Their memory is not used again.
type outliving struct {
	early admission.Early
	first try
	id    [1]string // a header
}

// calls have ended, and their memory is used again.
var calls = sync.Pool{New: func() any { return new(call) }}

// reuse lets another call have the memory of one that has ended. The governor, the transport and timers never know more
// than parts that are objects of their own; see outliving.
func (c *call) reuse() {
	if c.keepsObjects() {
		return
	}
	c.clear()
	calls.Put(c)
}

// clear forgets the call, but for its own functions and the memory of its writer if nothing else knows that.
func (c *call) clear() {
	w := c.w
	if c.timed {
		w = nil
	}
	*c = call{w: w, callbacks: c.callbacks, whileWaiting: c.whileWaiting}
}

// keepsObjects reports whether the call has to do with objects that an upstream keeps. Those who watch them may know it for
// longer than it lasts.
func (c *call) keepsObjects() bool {
	if c.route == nil {
		return false
	}
	return c.route.ToObjects() || c.route.Realtime || c.route.Stores || c.head != nil && c.head.Audio
}

// dialect is how to speak to the caller, even before the route is known.
func (c *call) dialect() *dialect.Dialect {
	if c.route != nil {
		return c.route.Dialect
	}
	return dialect.Spoken(c.r.Header)
}
