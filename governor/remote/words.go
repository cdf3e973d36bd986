package remote

import (
	"crypto/rand"
	"net/http"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/llmgov/llmgov/governor/client"
	"github.com/llmgov/llmgov/governor/remote/admissionv1"
	"github.com/llmgov/llmgov/governor/tokens"
)

// ask is a request in the words of the protocol. Prompts stay here: only their lengths are sent.
func (d *door) ask(r *client.Request) *admissionv1.ReserveRequest {
	ask := &admissionv1.ReserveRequest{
		ReservationId: "rsv_" + rand.Text(), Ttl: durationpb.New(d.TTL), RequestId: r.ID, Key: r.Key, Tenant: r.Tenant, Member: r.Member,
		Model: r.Model, Instead: r.Instead, Pool: r.Pool, Route: r.Route,
		InputTokens: r.InputTokens, MaxOutputTokens: r.MaxOutput, Copies: r.Copies, NoOutput: r.NoOutput, OpenOutput: r.OpenOutput,
		Free: r.Free, Stream: r.Stream, ServiceTier: r.Tier, Background: r.Background,
	}
	if r.InputSize != (tokens.Size{}) {
		ask.InputWeights = r.InputSize[:]
	}
	if r.MaxWait != nil {
		ask.MaxWait = durationpb.New(*r.MaxWait)
	}
	if r.Retry != (client.Retry{}) {
		ask.Retry = &admissionv1.Retry{Key: r.Retry.Key, Attempt: int32(r.Retry.Attempt), Once: r.Retry.Once, Digest: r.Retry.Digest}
	}
	return ask
}

// commit is the end of a reservation in the words of the protocol.
func commit(id string, e *client.End) *admissionv1.CommitRequest {
	req := &admissionv1.CommitRequest{ReservationId: id, Outcome: outcomes[e.Outcome], OutputTokens: e.Produced.Tokens, Deltas: e.Produced.Deltas, Status: int32(e.Status)}
	if e.Reported || e.Usage.Took() {
		u := e.Usage
		req.Partial = !e.Reported
		req.Usage = &admissionv1.Usage{
			InputTokens: u.Input, CachedInputTokens: u.CachedInput, OutputTokens: u.Output, ReasoningTokens: u.Reasoning,
			AudioInputTokens: u.AudioInput, AudioOutputTokens: u.AudioOutput, ImageInputTokens: u.ImageInput, ImageOutputTokens: u.ImageOutput,
			CacheWriteTokens: u.CacheWrite, CacheWriteHourTokens: u.CacheWriteHour, ToolCalls: u.Tools, FileSearches: u.FileSearches, CodeSessions: u.CodeSessions, ServiceTier: u.Tier,
		}
	}
	return req
}

var outcomes = map[client.Outcome]admissionv1.Outcome{
	client.Completed:     admissionv1.Outcome_OUTCOME_COMPLETED,
	client.AnsweredError: admissionv1.Outcome_OUTCOME_ANSWERED_ERROR,
	client.Failed:        admissionv1.Outcome_OUTCOME_FAILED,
	client.Cancelled:     admissionv1.Outcome_OUTCOME_CANCELLED,
	client.Expired:       admissionv1.Outcome_OUTCOME_CANCELLED,
}

// refusal is a refusal as clients see it.
func refusal(r *admissionv1.Refusal, headers map[string]string) *client.Refusal {
	out := &client.Refusal{
		ID: r.RequestId, Status: int(r.Status), Code: client.Code(r.Code), Kind: r.Type, Param: r.Param, Message: r.Message,
		RetryAfter: r.RetryAfter.AsDuration(), Final: r.Final, Header: http.Header{},
	}
	for name, value := range headers {
		out.Header.Set(name, value)
	}
	return out
}

// lost reports whether an error says that llmgov could not be reached, or did not answer.
func lost(err error) bool {
	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Unknown, codes.Internal, codes.Unimplemented:
		return true
	}
	return false
}

// refusalOf is the refusal of a call that llmgov could not be asked about.
func refusalOf(err error) *client.Refusal {
	said := status.Convert(err)
	r := &client.Refusal{Status: http.StatusServiceUnavailable, Code: client.CodeUnavailable, RetryAfter: time.Second, Message: "The governor cannot be asked: " + said.Message(), Header: http.Header{}}
	switch said.Code() {
	case codes.Unauthenticated:
		r.Status = http.StatusUnauthorized
		r.Code = client.CodeKey
		r.Message = "The token is not taken: " + said.Message()
	case codes.PermissionDenied:
		r.Status = http.StatusForbidden
		r.Code = client.CodeRoute
	default:
		r.Header.Set("Retry-After", "1")
		return r
	}
	r.RetryAfter = 0
	return r
}
