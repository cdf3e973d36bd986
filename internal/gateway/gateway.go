package gateway

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/admission"
	"github.com/llmgov/llmgov/internal/dial"
	"github.com/llmgov/llmgov/internal/events"
	"github.com/llmgov/llmgov/internal/gateway/realtime"
	"github.com/llmgov/llmgov/internal/gateway/route"
	"github.com/llmgov/llmgov/internal/gateway/stored"
	"github.com/llmgov/llmgov/internal/intake"
	"github.com/llmgov/llmgov/internal/objects"
	"github.com/llmgov/llmgov/internal/sampled"
	"github.com/llmgov/llmgov/internal/telemetry"
	"github.com/llmgov/llmgov/internal/tracing"
	"github.com/llmgov/llmgov/tenants"
)

// Gateway is the data side: an http.Handler that governs and forwards calls.
type Gateway struct {
	gov       *governor.Governor
	admission *admission.Controller
	metrics   *telemetry.Metrics
	tracer    *tracing.Tracer // nil without tracing
	log       *slog.Logger
	world     atomic.Pointer[world]

	// believing is held while the governor is told about a pool's upstreams. declared is what the
	// log last said of their limits, by pool.
	believing sync.Mutex
	declared  map[string]string

	objects *objects.Store
	batches stored.Holds
	events  *events.Ring // may be nil
	sockets realtime.Sockets

	intake    *intake.Intake
	strangers atomic.Int64 // refusals of calls without a valid key that are on their way
	unknown   sampled.Gate // log lines of such calls
	pulse     pulse
	lookups   lookups
	transport http.RoundTripper
	buffers   sync.Pool // of *[bufferSize]byte, to copy answers
}

// PromptCounter counts the tokens of prompts.
type PromptCounter = admission.PromptCounter

// Options are the parts that a Gateway is made of.
type Options struct {
	Snapshot *tenants.Snapshot
	Governor *governor.Governor
	Metrics  *telemetry.Metrics
	Log      *slog.Logger
	// Tracer makes spans of calls; nil makes none.
	Tracer *tracing.Tracer
	// Objects remembers which tenant made which object at the upstreams; nil remembers in memory.
	Objects *objects.Store
	// Prompts counts prompts while estimates are uncertain; nil does not.
	Prompts PromptCounter
	// Events has what the Governor reports, for readers who follow it; nil if nobody does.
	Events *events.Ring
	// Transport reaches the upstreams; nil means one made for Snapshot's timeouts.
	Transport http.RoundTripper
}

// New returns a Gateway.
func New(opt Options) (*Gateway, error) {
	g := &Gateway{
		gov: opt.Governor, metrics: opt.Metrics, tracer: opt.Tracer, log: opt.Log, objects: opt.Objects,
		events: opt.Events, transport: opt.Transport, declared: map[string]string{},
		lookups: lookups{due: map[string]time.Time{}},
	}
	var err error
	if g.objects == nil {
		g.objects, err = objects.Open("", opt.Log)
		if err != nil {
			return nil, err
		}
	}
	g.unknown = sampled.Gate{Every: time.Second, Most: 5}
	g.intake = intake.New(bodyBounds(opt.Snapshot))
	g.metrics.WatchBodies(g.intake.Bytes)
	g.admission, err = admission.New(admission.Options{Snapshot: opt.Snapshot, Governor: opt.Governor, Metrics: opt.Metrics, Prompts: opt.Prompts, Follow: g.prepare})
	if err != nil {
		return nil, err
	}
	g.metrics.WatchUpstreams(g.upstreamStates)
	if g.transport == nil {
		g.transport = NewTransport(opt.Snapshot.Config().Timeouts)
	}
	g.batches.Again(g.objects, g.gov, func(model string) (governor.Price, bool) {
		price, ok := g.world.Load().Snapshot.Price(model)
		return governor.Price(price), ok
	})
	g.buffers.New = func() any { return new([bufferSize]byte) }
	return g, nil
}

// NewTransport is an HTTP transport fit for many streams to few hosts.
func NewTransport(t tenants.Timeouts) *http.Transport {
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           dial.Context(&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}),
		ForceAttemptHTTP2:     true,
		MaxIdleConns:          0,
		MaxIdleConnsPerHost:   1024,
		IdleConnTimeout:       90 * time.Second,
		TLSHandshakeTimeout:   10 * time.Second,
		ResponseHeaderTimeout: t.UpstreamHeader,
		// Of which answers.Headers passes less still.
		MaxResponseHeaderBytes: 256 << 10,
		// Bytes pass through as they are, and usage must be readable.
		DisableCompression: true,
		// A dead HTTP/2 connection would take every later call with it.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 15 * time.Second},
	}
}

// ServeHTTP walks one request through the gateway. Read it top to bottom.
func (g *Gateway) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	c := &call{g: g, world: g.world.Load(), r: r}
	c.tries.interrupt = func(error) {} // nothing was sent yet
	c.stored = stored.Ledger{Call: &c.Call, Store: g.objects, Holds: &g.batches}
	c.Begin(r.Context(), g.admission, c.world.Policy, requestID(r))
	c.try = &c.tries.first
	c.Spans = g.tracer.Begin(r, c.Began)
	c.w.reset(rw, c.world.Snapshot.Config().Timeouts.StreamIdle)
	// Until the body is here. net/http drains it even if nobody reads it.
	_ = c.w.control.SetReadDeadline(c.Began.Add(lapTime))
	c.showOwn()
	defer crashed()
	defer c.finish()

	// 1 Which route is it for, and who asks?
	c.at = route.Find(r)
	c.route = c.at.Route
	if f := c.unfit(); f != nil {
		c.refuse(f)
		return
	}
	if f := c.authenticate(); f != nil {
		c.refuse(f)
		return
	}
	if f := c.granted(); f != nil {
		c.refuse(f)
		return
	}
	if c.at.Usage || c.at.Models {
		c.serveLookup()
		return
	}

	// 2 What does it ask for, and of which pool?
	if f := c.readBody(); f != nil {
		c.refuse(f)
		return
	}
	if f := c.choosePool(); f != nil {
		c.refuse(f)
		return
	}
	if f := c.checkReferences(); f != nil {
		c.refuse(f)
		return
	}
	if f := c.checkBackground(); f != nil {
		c.refuse(f)
		return
	}

	// 3 May it? This is where it waits.
	if f := c.admit(); f != nil {
		c.refuse(f)
		return
	}

	// 4 Pass it on, to the upstream whose turn it is, and meter the answer.
	if f := c.firstTry(); f != nil {
		c.refuse(f)
		return
	}
	switch {
	case c.route.List:
		c.serveList()
	case c.route.Realtime:
		c.serveRealtime()
	default:
		c.lookAfter()
		c.lookBack()
		if f := c.holdBatch(); f != nil {
			c.refuse(f)
			return
		}
		c.forward()
	}
}

// requestID takes over the caller's id if it is fit for logs and headers, or makes one.
func requestID(r *http.Request) string {
	if id := r.Header.Get("X-Request-Id"); id != "" && len(id) <= 128 && strings.IndexFunc(id, func(c rune) bool { return c <= ' ' || c > '~' }) < 0 {
		return id
	}
	var b [12]byte
	_, _ = rand.Read(b[:]) // never fails
	var out [4 + 24]byte
	copy(out[:], "req_")
	hex.Encode(out[4:], b[:])
	return string(out[:])
}

// Drain asks realtime sessions to end once they are at rest, and waits until they have ended or ctx
// has. Those that are left end when their server's base context is cancelled with [admission.ErrDraining];
// call Drain again to wait for that.
func (g *Gateway) Drain(ctx context.Context) error {
	select {
	case <-g.sockets.Drain():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
