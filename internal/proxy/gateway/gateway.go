package gateway

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/lib/http1"
	"github.com/llmgov/llmgov/internal/lib/http1/plain"
	"github.com/llmgov/llmgov/internal/lib/sampled"
	"github.com/llmgov/llmgov/internal/ops/events"
	"github.com/llmgov/llmgov/internal/ops/telemetry"
	"github.com/llmgov/llmgov/internal/ops/tracing"
	"github.com/llmgov/llmgov/internal/proxy/gateway/realtime"
	"github.com/llmgov/llmgov/internal/proxy/gateway/stored"
	"github.com/llmgov/llmgov/internal/proxy/intake"
	"github.com/llmgov/llmgov/internal/proxy/objects"
	"github.com/llmgov/llmgov/internal/proxy/upstreams"
	"github.com/llmgov/llmgov/internal/run/adminview"
	"github.com/llmgov/llmgov/internal/run/admission"
)

// Gateway is the data side: an http.Handler that governs and forwards calls.
type Gateway struct {
	*adminview.View

	gov       *governor.Governor
	admission *admission.Controller
	metrics   *telemetry.Metrics
	tracer    *tracing.Tracer // nil without tracing
	log       *slog.Logger
	world     atomic.Pointer[world]

	// telling is held while the governor is told about a pool's upstreams. declared are their
	// limits as the log last said them, by pool.
	telling  sync.Mutex
	declared map[string]upstreams.Told

	objects *objects.Store
	batches stored.Holds
	events  *events.Ring // may be nil
	sockets realtime.Sockets

	intake    *intake.Intake
	strangers atomic.Int64 // refusals of calls without a valid key that are on their way
	unknown   sampled.Gate // log lines of such calls
	lookups   lookups
	transport http.RoundTripper
	unkept    http.RoundTripper // transport, but on a new connection each time
}

// Server is an http.Server, or like one.
type Server interface {
	Serve(net.Listener) error
	Shutdown(context.Context) error
	Close() error
}

// NewServer is a server of the data side with these settings: net/http's, or if it is lean one around it that serves plain requests.
func NewServer(settings *http.Server, lean bool) Server {
	if lean {
		return plain.New(settings)
	}
	return settings
}

// NewTransport is an HTTP transport fit for many streams to few hosts. Each call says how long its answer may take. Unless it is lean,
// net/http's carries all requests.
func NewTransport(lean bool) *http1.Transport {
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}
	t := http1.New(&http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         dialer.DialContext,
		ForceAttemptHTTP2:   true,
		MaxIdleConns:        0,
		MaxIdleConnsPerHost: 1024,
		IdleConnTimeout:     90 * time.Second,
		TLSHandshakeTimeout: 10 * time.Second,
		// Of which answers.Headers passes less still.
		MaxResponseHeaderBytes: 256 << 10,
		// Bytes pass through as they are, and usage must be readable.
		DisableCompression: true,
		// A dead HTTP/2 connection would take every later call with it.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 15 * time.Second},
	})
	t.NetHTTP = !lean
	return t
}

// withoutKept is a transport that opens a connection for each call.
func withoutKept(transport http.RoundTripper) http.RoundTripper {
	keeps, is := transport.(*http1.Transport)
	if !is {
		return transport
	}
	return keeps.WithoutKept()
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
