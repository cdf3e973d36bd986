package ratelimit

import (
	"net/http"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/llmgov/llmgov/governor/client"
	"github.com/llmgov/llmgov/internal/doors/reserve"
	"github.com/llmgov/llmgov/internal/proxy/gateway/dialect"
	"github.com/llmgov/llmgov/internal/run/admission/ask"
)

// leaseHeader brings the id of a lease to the end of its call.
const leaseHeader = "x-llmgov-lease"

// granted lets a call go on.
func granted(req *pb.RateLimitRequest, g *reserve.Grant) *pb.RateLimitResponse {
	h := http.Header{}
	g.Lease.Show(h)
	return &pb.RateLimitResponse{
		OverallCode:          pb.RateLimitResponse_OK,
		Statuses:             statuses(req, pb.RateLimitResponse_OK, 0),
		RequestHeadersToAdd:  []*corev3.HeaderValue{{Key: leaseHeader, Value: g.ID}},
		ResponseHeadersToAdd: values(h),
	}
}

// refused refuses a call with the headers and the body of the gateway. The status is the proxy's: it has one for all
// refusals.
func (s *Service) refused(req *pb.RateLimitRequest, r *client.Refusal) *pb.RateLimitResponse {
	h := r.Header.Clone()
	if h == nil {
		h = http.Header{}
	}
	body := dialect.OpenAI.Refuse(h, &ask.Refusal{
		Status: r.Status, Code: string(r.Code), Kind: r.Kind, Param: r.Param, Message: r.Message, RetryAfter: r.RetryAfter, Final: r.Final,
	}, s.Admission.Node())
	return &pb.RateLimitResponse{
		OverallCode:          pb.RateLimitResponse_OVER_LIMIT,
		Statuses:             statuses(req, pb.RateLimitResponse_OVER_LIMIT, r.RetryAfter),
		ResponseHeadersToAdd: values(h),
		RawBody:              body,
	}
}

func refusalOf(f *ask.Refusal) *client.Refusal {
	return &client.Refusal{Status: f.Status, Code: client.Code(f.Code), Kind: f.Kind, Param: f.Param, Message: f.Message, RetryAfter: f.RetryAfter, Final: f.Final}
}

// statuses has one status for each descriptor, as proxies expect.
func statuses(req *pb.RateLimitRequest, code pb.RateLimitResponse_Code, again time.Duration) []*pb.RateLimitResponse_DescriptorStatus {
	list := make([]*pb.RateLimitResponse_DescriptorStatus, len(req.GetDescriptors()))
	for i := range list {
		list[i] = &pb.RateLimitResponse_DescriptorStatus{Code: code}
		if again > 0 {
			list[i].DurationUntilReset = durationpb.New(again)
		}
	}
	return list
}

func values(h http.Header) []*corev3.HeaderValue {
	list := make([]*corev3.HeaderValue, 0, len(h))
	for name, all := range h {
		for _, v := range all {
			list = append(list, &corev3.HeaderValue{Key: name, Value: v})
		}
	}
	return list
}
