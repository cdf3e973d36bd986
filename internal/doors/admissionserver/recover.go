package admissionserver

import (
	"context"
	"fmt"
	"runtime/debug"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/llmgov/llmgov/internal/lib/connections"
	"github.com/llmgov/llmgov/internal/ops/crash"
)

// gRPC runs handlers in goroutines of its own, in which nobody recovers.

func (s *Server) recoverUnary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (answer any, err error) {
	defer connections.Begin(connOf(ctx)).End()
	defer func() {
		if cause := recover(); cause != nil {
			err = s.panicked(info.FullMethod, cause)
		}
	}()
	return next(ctx, req)
}

func (s *Server) recoverStream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
	defer connections.Begin(connOf(stream.Context())).End()
	defer func() {
		if cause := recover(); cause != nil {
			err = s.panicked(info.FullMethod, cause)
		}
	}()
	return next(srv, stream)
}

// boundUnary refuses messages larger than MostRequest. gRPC itself has one bound for all services, and streams bring whole bodies.
func boundUnary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if m, ok := req.(proto.Message); ok && proto.Size(m) > MostRequest {
		return nil, status.Error(codes.ResourceExhausted, "the message has more than 64 KiB")
	}
	return next(ctx, req)
}

// panicked ends the process if the governor has panicked, and otherwise the call.
func (s *Server) panicked(method string, cause any) error {
	s.log.Error("panic", "method", method, "cause", fmt.Sprint(cause), "stack", string(debug.Stack()))
	crash.Ends(cause)
	return status.Error(codes.Internal, "the gateway failed; its log has the reason")
}

// cuttable lets Cut end a stream.
func (s *Server) cuttable(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	stay := context.AfterFunc(s.base, func() { cancel(context.Cause(s.base)) })
	defer stay()
	return next(srv, cuttable{stream, ctx})
}

// cuttable is a stream with another context.
type cuttable struct {
	grpc.ServerStream
	ctx context.Context
}

func (c cuttable) Context() context.Context { return c.ctx }
