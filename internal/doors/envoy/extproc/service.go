package extproc

import (
	"io"
	"log/slog"
	"sync"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/llmgov/llmgov/internal/lib/inflight"
	"github.com/llmgov/llmgov/internal/ops/events"
	"github.com/llmgov/llmgov/internal/proxy/gateway/head"
	"github.com/llmgov/llmgov/internal/proxy/intake"
	"github.com/llmgov/llmgov/internal/proxy/upstreams"
	"github.com/llmgov/llmgov/internal/run/admission"
)

// Options are the parts of a Service.
type Options struct {
	Admission *admission.Controller
	Tenant    Source       // where a call names its tenant
	MostCalls int64        // at the same time
	Events    *events.Ring // may be nil
	Log       *slog.Logger
}

// Service is the external processor. It is safe for concurrent use.
type Service struct {
	pb.UnimplementedExternalProcessorServer
	inflight.Count
	opt     Options
	memory  *intake.Intake // of bodies whose calls wait
	readers sync.Pool      // of *head.Reader
	refused upstreams.Additions
}

// New returns a Service.
func New(opt Options) *Service {
	return &Service{opt: opt, memory: intake.New(intake.Bounds{}), readers: sync.Pool{New: func() any { return new(head.Reader) }}}
}

// Register registers the service. Whoever calls it may name any tenant.
func (s *Service) Register(to grpc.ServiceRegistrar) { pb.RegisterExternalProcessorServer(to, s) }

// Process implements ExternalProcessorServer for one call of the proxy. Read it top to bottom.
func (s *Service) Process(stream pb.ExternalProcessor_ProcessServer) error {
	room := s.Enter(s.opt.MostCalls)
	if room {
		defer s.Leave() // last of all
	}
	w := newWire(stream)
	defer w.close()

	// 1 Which route is it for? A stream that begins with an answer is one that another filter gave.
	first, err := w.next()
	if err != nil {
		return ignoreEnd(err)
	}
	if local := first.GetResponseHeaders(); local != nil && !fromUpstream(local) {
		return nil
	}
	if first.GetRequestHeaders() == nil {
		return outOfOrder(first)
	}
	c := s.begin(w, first)
	defer c.finish()
	if !room {
		return c.refuse(overloaded("This gateway governs as many calls of proxies as it may."))
	}

	// 2 What does it ask for, and may it? This is where it waits.
	refused, err := c.enter()
	if err != nil {
		return ignoreEnd(err)
	}
	if refused != nil {
		return c.refuse(refused)
	}

	// 3 Let it go on, and meter its answer.
	if err := c.proceed(); err != nil {
		return err
	}
	return c.follow()
}

// fromUpstream reports whether an answer is the model server's: the proxy says how long that took. Its request has gone
// by us, because the proxy was told not to send its headers.
func fromUpstream(m *pb.HttpHeaders) bool {
	return single(m.GetHeaders(), "x-envoy-upstream-service-time") != ""
}

// ignoreEnd is the error of a stream that could not be read further. Its proxy has gone, and hears nothing.
func ignoreEnd(err error) error {
	if err == io.EOF {
		return nil
	}
	return err
}

// outOfOrder refuses a message that cannot come now.
func outOfOrder(m *pb.ProcessingRequest) error {
	return status.Errorf(codes.InvalidArgument, "llmgov did not expect a message of type %T at this point of a call", m.GetRequest())
}
