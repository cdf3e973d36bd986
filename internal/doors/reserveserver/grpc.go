package reserveserver

import (
	"context"
	"errors"
	"net/http"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/llmgov/llmgov/governor/client"
	"github.com/llmgov/llmgov/governor/remote/admissionv1"
	"github.com/llmgov/llmgov/internal/doors/admissionserver"
	"github.com/llmgov/llmgov/internal/doors/reserve"
	"github.com/llmgov/llmgov/internal/run/rateheaders"
)

// grpcSide implements admissionv1.AdmissionServiceServer.
type grpcSide struct {
	admissionv1.UnimplementedAdmissionServiceServer
	book *reserve.Book
	node string
}

// Reserve implements admissionv1.AdmissionServiceServer.
func (s *grpcSide) Reserve(ctx context.Context, req *admissionv1.ReserveRequest) (*admissionv1.ReserveResponse, error) {
	ask, err := askOf(req)
	if err == nil {
		err = forWhom(admissionserver.CallerOf(ctx), ask)
	}
	if err != nil {
		return s.refusedReserve(err)
	}
	g, err := s.book.Reserve(ctx, ask)
	if err != nil {
		return s.refusedReserve(err)
	}
	of := g.Lease.Grant
	return &admissionv1.ReserveResponse{
		ReservationId: g.ID, Ttl: durationpb.New(g.TTL), Headers: standing(g), Tenant: of.Tenant, Pool: of.Pool, Waited: durationpb.New(of.Waited), MaxOutputTokens: of.MaxOutput,
	}, nil
}

// Progress implements admissionv1.AdmissionServiceServer.
func (s *grpcSide) Progress(ctx context.Context, req *admissionv1.ProgressRequest) (*admissionv1.ProgressResponse, error) {
	ttl, interrupted, err := s.book.Progress(admissionserver.CallerOf(ctx).Tenant, req.ReservationId, client.Produced{Tokens: req.OutputTokens, Deltas: req.Deltas})
	if err != nil {
		return nil, statusOf(err)
	}
	return &admissionv1.ProgressResponse{Ttl: durationpb.New(ttl), Interrupted: refusalOf(interrupted)}, nil
}

// Commit implements admissionv1.AdmissionServiceServer.
func (s *grpcSide) Commit(ctx context.Context, req *admissionv1.CommitRequest) (*admissionv1.CommitResponse, error) {
	outcome, ok := outcomes[req.Outcome]
	err := checkStatus(outcome, int(req.Status))
	if !ok {
		err = invalid("outcome", "unknown outcome %d", req.Outcome)
	}
	if err != nil {
		return nil, statusOf(s.book.Misread(admissionserver.CallerOf(ctx).Tenant, req.ReservationId, client.Cancelled, err))
	}
	end := client.End{Outcome: outcome, Produced: client.Produced{Tokens: req.OutputTokens, Deltas: req.Deltas}}
	end.Status = believed(admissionserver.CallerOf(ctx), int(req.Status))
	if u := req.Usage; u != nil {
		end.Reported = !req.Partial
		end.Usage = client.Usage{
			Input: u.InputTokens, CachedInput: u.CachedInputTokens, Output: u.OutputTokens, Reasoning: u.ReasoningTokens,
			AudioInput: u.AudioInputTokens, AudioOutput: u.AudioOutputTokens, ImageInput: u.ImageInputTokens, ImageOutput: u.ImageOutputTokens,
			CacheWrite: u.CacheWriteTokens, CacheWriteHour: u.CacheWriteHourTokens, Tools: u.ToolCalls, FileSearches: u.FileSearches, CodeSessions: u.CodeSessions, Tier: u.ServiceTier,
		}
	}
	released, err := s.book.Commit(admissionserver.CallerOf(ctx).Tenant, req.ReservationId, end)
	if err != nil {
		return nil, statusOf(err)
	}
	return &admissionv1.CommitResponse{ReservationReleased: released}, nil
}

// outcomes are the ends of calls.
var outcomes = map[admissionv1.Outcome]client.Outcome{
	admissionv1.Outcome_OUTCOME_UNSPECIFIED:    client.Completed,
	admissionv1.Outcome_OUTCOME_COMPLETED:      client.Completed,
	admissionv1.Outcome_OUTCOME_ANSWERED_ERROR: client.AnsweredError,
	admissionv1.Outcome_OUTCOME_FAILED:         client.Failed,
	admissionv1.Outcome_OUTCOME_CANCELLED:      client.Cancelled,
}

// Cancel implements admissionv1.AdmissionServiceServer.
func (s *grpcSide) Cancel(ctx context.Context, req *admissionv1.CancelRequest) (*admissionv1.CancelResponse, error) {
	released, err := s.book.Commit(admissionserver.CallerOf(ctx).Tenant, req.ReservationId, client.End{Outcome: client.NotSent})
	if err != nil {
		return nil, statusOf(err)
	}
	return &admissionv1.CancelResponse{ReservationReleased: released}, nil
}

// refusedReserve is the answer to a Reserve that was refused.
func (s *grpcSide) refusedReserve(err error) (*admissionv1.ReserveResponse, error) {
	r, ok := errors.AsType[*client.Refusal](err)
	if !ok {
		return nil, statusOf(err)
	}
	rateheaders.Node(r.Header, s.node)
	return &admissionv1.ReserveResponse{Refusal: refusalOf(r), Headers: headersOf(r.Header)}, nil
}

// refusalOf is a refusal in the words of the protocol; nil if there is none.
func refusalOf(r *client.Refusal) *admissionv1.Refusal {
	if r == nil {
		return nil
	}
	out := &admissionv1.Refusal{
		Status: int32(r.Status), Code: string(r.Code), Type: r.Kind, Param: r.Param, Message: r.Message, Final: r.Final, RequestId: r.ID,
	}
	if r.RetryAfter > 0 {
		out.RetryAfter = durationpb.New(r.RetryAfter)
	}
	return out
}

// statusOf is an error as a status of gRPC.
func statusOf(err error) error {
	r, ok := errors.AsType[*client.Refusal](err)
	if !ok {
		return status.FromContextError(err).Err()
	}
	code, ok := statuses[r.Status]
	if !ok {
		code = codes.Unavailable
	}
	return status.Error(code, r.Message)
}

var statuses = map[int]codes.Code{
	http.StatusBadRequest: codes.InvalidArgument,
	http.StatusForbidden:  codes.PermissionDenied,
	http.StatusNotFound:   codes.NotFound,
	http.StatusConflict:   codes.FailedPrecondition,
}

// durationOf is a duration of the protocol; ok is false if it is unset.
func durationOf(param string, d *durationpb.Duration) (_ time.Duration, ok bool, err error) {
	if d == nil {
		return 0, false, nil
	}
	if !d.IsValid() || d.Seconds < 0 || d.Nanos < 0 || d.AsDuration() > longestDuration {
		return 0, false, invalid(param, "%s must be from 0 to %s", param, longestDuration)
	}
	return d.AsDuration(), true, nil
}
