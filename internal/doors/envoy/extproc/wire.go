package extproc

import (
	"context"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"

	"github.com/llmgov/llmgov/internal/run/admission"
)

// wire is a stream of messages, each of which has to be answered before the next one comes.
type wire struct {
	stream pb.ExternalProcessor_ProcessServer
	in     chan received
	cut    context.Context // ends when the governor or a drain ends the call
	end    context.CancelCauseFunc
	stay   func() bool // stops the wait for a drain
}

type received struct {
	message *pb.ProcessingRequest
	err     error
}

func newWire(stream pb.ExternalProcessor_ProcessServer) *wire {
	w := &wire{stream: stream, in: make(chan received)}
	w.cut, w.end = context.WithCancelCause(context.WithoutCancel(stream.Context()))
	w.stay = context.AfterFunc(stream.Context(), func() {
		// A proxy that has gone is seen in its turn: what it sent before is read first.
		if context.Cause(stream.Context()) == admission.ErrDraining {
			w.end(admission.ErrDraining)
		}
	})
	go w.receive()
	return w
}

// receive reads the stream until it ends, or the call has. gRPC ends the stream when its handler returns.
func (w *wire) receive() {
	for {
		m, err := w.stream.Recv()
		select {
		case w.in <- received{m, err}:
		case <-w.cut.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// next waits for a message. It returns the cause if the call is cut off.
func (w *wire) next() (*pb.ProcessingRequest, error) {
	select {
	case r := <-w.in:
		return r.message, r.err
	case <-w.cut.Done():
		return nil, context.Cause(w.cut)
	}
}

func (w *wire) send(m *pb.ProcessingResponse) error { return w.stream.Send(m) }

// close lets receive end.
func (w *wire) close() {
	w.stay()
	w.end(nil)
}
