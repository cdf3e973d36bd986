package extproc

import (
	"net/http"
	"net/url"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	aiv3 "github.com/envoyproxy/go-control-plane/envoy/data/ai/v3"
	procv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"

	"github.com/llmgov/llmgov/internal/proxy/gateway/describe"
	"github.com/llmgov/llmgov/internal/proxy/gateway/dialect"
	"github.com/llmgov/llmgov/internal/proxy/gateway/head"
	"github.com/llmgov/llmgov/internal/proxy/gateway/route"
	"github.com/llmgov/llmgov/internal/proxy/intake"
	"github.com/llmgov/llmgov/internal/proxy/upstreams"
	"github.com/llmgov/llmgov/internal/run/admission"
	"github.com/llmgov/llmgov/internal/run/admission/ask"
	"github.com/llmgov/llmgov/internal/run/rateheaders"
)

// call is one call of the proxy: the life of a governed call, and whatever the protocol adds to it.
type call struct {
	admission.Call
	s      *Service
	wire   *wire
	header http.Header // of the request
	url    url.URL
	at     route.Place

	metadata *corev3.Metadata
	info     *aiv3.RequestInfo // nil if there is a body, or nothing
	sent     sentBody
	body     []byte       // of the request, until it may go on
	memory   intake.Claim // of body
	head     *head.Head
	added    upstreams.Addition // to the body
	said     upstreams.Words    // in the body as it came

	status   int    // of the answer, once its headers have come
	events   bool   // the answer is labelled as an event stream that can be read
	encoding string // of the answer, though identity was asked for
	readable bool   // in spite of that
	decoded  bool   // the body of the request came encoded, or with a byte order mark
}

// sentBody says whether the proxy sends the body of a request.
type sentBody int

const (
	bodyUnknown sentBody = iota // proxies before Envoy 1.33 do not say
	bodyNone
	bodyWhole
	bodyInParts // so that some of it has gone on before we know the rest
)

// begin begins the call whose headers have come.
func (s *Service) begin(w *wire, first *pb.ProcessingRequest) *call {
	m := first.GetRequestHeaders()
	c := &call{s: s, wire: w, header: headersOf(m.GetHeaders()), metadata: first.GetMetadataContext()}
	c.Begin(w.stream.Context(), s.opt.Admission, s.opt.Admission.Policy(), describe.RequestID(c.header))
	c.sent = bodySent(m, first.GetProtocolConfig())
	if path, err := url.ParseRequestURI(single(m.GetHeaders(), ":path")); err == nil {
		c.url = *path
	}
	c.at = route.Find(&http.Request{Method: single(m.GetHeaders(), ":method"), URL: &c.url, Header: c.header})
	return c
}

// bodySent reads from the first message whether a body will come.
func bodySent(m *pb.HttpHeaders, cfg *pb.ProtocolConfiguration) sentBody {
	switch {
	case m.GetEndOfStream():
		return bodyNone
	case cfg == nil:
		return bodyUnknown
	}
	switch cfg.GetRequestBodyMode() {
	case procv3.ProcessingMode_NONE:
		return bodyNone
	case procv3.ProcessingMode_BUFFERED:
		return bodyWhole
	}
	return bodyInParts
}

// dialect is how to speak to the caller, even before the route is known.
func (c *call) dialect() *dialect.Dialect {
	if c.at.Route != nil {
		return c.at.Route.Dialect
	}
	return dialect.OpenAI
}

// show sets the headers that tell the caller about its call.
func (c *call) show(h http.Header) {
	h["X-Request-Id"] = []string{c.ID}
	if c.Tenant == nil {
		return
	}
	pool := ""
	if c.Pool != nil {
		pool = c.Pool.Name
	}
	c.dialect().Show(h, c.s.opt.Admission.Governor(), c.Counted(), pool)
	rateheaders.Queued(h, c.Waited())
}

// refuse lets the proxy answer with a refusal of llmgov's own.
func (c *call) refuse(f *ask.Refusal) error {
	c.Refused(f)
	c.status = f.Status
	if f.Status == admission.StatusClientClosed {
		return c.wire.stream.Context().Err()
	}
	h := http.Header{}
	c.show(h)
	body := c.dialect().Refuse(h, f, c.s.opt.Admission.Node())
	return c.wire.send(immediate(f.Status, h, body))
}

func overloaded(what string) *ask.Refusal {
	return &ask.Refusal{Status: http.StatusServiceUnavailable, Code: ask.CodeOverloaded, Message: what + " Please try again."}
}

// unfit refuses what the proxy's configuration has got wrong. Its operator has to see that.
func unfit(what string) *ask.Refusal {
	return &ask.Refusal{Status: http.StatusInternalServerError, Code: ask.CodeInternal, Message: what}
}
