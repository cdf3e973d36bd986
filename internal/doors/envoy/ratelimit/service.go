package ratelimit

import (
	"context"
	"errors"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/llmgov/llmgov/governor/client"
	"github.com/llmgov/llmgov/governor/tokens"
	"github.com/llmgov/llmgov/internal/doors/reserve"
	"github.com/llmgov/llmgov/internal/run/admission"
	"github.com/llmgov/llmgov/internal/run/admission/ask"
)

// ttl is how long the end of a call may take to be heard. A proxy reports nothing in between.
const ttl = 10 * time.Minute

// owner owns the leases of this service. Their ids come back in a header that clients can send, too, so nobody else's
// reservation, whose id may be easy to guess, can be ended by it. No tenant has such a name.
const owner = "rate limit service"

// Options are the parts of a Service.
type Options struct {
	Names     Names
	Book      *reserve.Book
	Admission *admission.Controller // the Book's
}

// Service is the rate limit service. It is safe for concurrent use.
type Service struct {
	pb.UnimplementedRateLimitServiceServer
	Options
}

// New returns a Service.
func New(opt Options) *Service { return &Service{Options: opt} }

// Register registers the service. Whoever calls it may name any tenant.
func (s *Service) Register(to grpc.ServiceRegistrar) { pb.RegisterRateLimitServiceServer(to, s) }

// ShouldRateLimit implements RateLimitServiceServer.
func (s *Service) ShouldRateLimit(ctx context.Context, req *pb.RateLimitRequest) (*pb.RateLimitResponse, error) {
	q, err := s.Names.read(req)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	total, counted := q.counts[countTotal]
	switch {
	case q.lease != "":
		return s.commit(q)
	case counted:
		return s.charge(ctx, req, q, total)
	}
	return s.reserve(ctx, req, q)
}

// reserve lets a call begin, or not.
func (s *Service) reserve(ctx context.Context, req *pb.RateLimitRequest, q *question) (*pb.RateLimitResponse, error) {
	ask := &reserve.Ask{Owner: owner, TTL: ttl, Call: client.Request{
		Tenant: q.tenant, Key: q.key, Member: q.member, Model: q.model, Pool: q.pool, InputSize: tokens.Size{tokens.Text: q.counts[countInput] * tokens.Scale}, MaxOutput: q.counts[countOutput],
		MaxWait: patience(ctx),
	}}
	g, err := s.Book.Reserve(ctx, ask)
	if r, ok := errors.AsType[*client.Refusal](err); ok {
		return s.refused(req, r), nil
	}
	if err != nil {
		return nil, status.FromContextError(err).Err()
	}
	return granted(req, g), nil
}

// patience is how long the call may wait: a part of the proxy's own time, so that the answer reaches it. nil is as long
// as the policy lets it.
func patience(ctx context.Context) *time.Duration {
	until, bounded := ctx.Deadline()
	if !bounded {
		return nil
	}
	return new(max(0, time.Until(until)*4/5))
}

// commit ends a call by what its proxy knows of it.
func (s *Service) commit(q *question) (*pb.RateLimitResponse, error) {
	e := client.End{Outcome: client.Completed}
	switch code, known := q.counts[countStatus]; {
	case known && code == 0:
		e.Outcome = client.Cancelled
	case code >= 400:
		e.Outcome = client.AnsweredError
		e.Status = int(code)
	}
	in := q.counts[countInput]
	out := max(q.counts[countOutput], q.counts[countTotal]-in)
	if in+out > 0 {
		e.Reported = true
		e.Usage = client.Usage{Input: in, Output: out}
	}
	if _, err := s.Book.Commit(owner, q.lease, e); err != nil {
		return nil, status.Error(codes.NotFound, err.Error())
	}
	return &pb.RateLimitResponse{OverallCode: pb.RateLimitResponse_OK}, nil
}

// charge books tokens that were used, or, without any, says whether there is room for some.
func (s *Service) charge(ctx context.Context, req *pb.RateLimitRequest, q *question, total int64) (*pb.RateLimitResponse, error) {
	var c admission.Call
	c.Begin(ctx, s.Admission, s.Admission.Policy(), "")
	defer c.Close()
	now := time.Duration(0)
	f := c.Enter(admission.Caller{Key: q.key, Tenant: q.tenant}, ask.Ask{
		Model: q.model, Pool: q.pool, Member: q.member, Prompt: ask.Prompt{Tokens: max(1, total)}, Answer: ask.Answer{None: true}, MaxWait: &now,
	})
	used := client.Usage{Input: total}
	switch {
	case f == nil && total > 0:
		c.Complete(used)
	case f != nil && total > 0 && c.Account != nil:
		c.Book(c.Request, c.Account, c.Policy.Taken(&c.Request, c.ServedBy(), used, false))
	}
	if f != nil {
		return s.refused(req, refusalOf(f)), nil
	}
	return &pb.RateLimitResponse{OverallCode: pb.RateLimitResponse_OK, Statuses: statuses(req, pb.RateLimitResponse_OK, 0)}, nil
}
