package reserveserver

import (
	"fmt"
	"net/http"
	"time"

	"github.com/llmgov/llmgov/governor/client"
	"github.com/llmgov/llmgov/governor/remote/admissionv1"
	"github.com/llmgov/llmgov/governor/tokens"
	"github.com/llmgov/llmgov/internal/doors/admissionserver"
	"github.com/llmgov/llmgov/internal/doors/reserve"
)

// longestDuration bounds durations that come from outside.
const longestDuration = 24 * time.Hour

func invalid(param, format string, args ...any) error {
	return &client.Refusal{
		Status: http.StatusBadRequest, Code: "invalid_request_error", Param: param, Message: "Bad request: " + fmt.Sprintf(format, args...) + ".",
		Header: http.Header{},
	}
}

// checkStatus refuses a status of a model server's answer that is none of an error.
func checkStatus(of client.Outcome, status int) error {
	switch {
	case status == 0:
		return nil
	case of != client.AnsweredError:
		return invalid("status", "status is that of an error: write outcome answered_error with it, not %s", of)
	case status < 300 || status > 599:
		return invalid("status", "status must be from 300 to 599, not %d", status)
	}
	return nil
}

// believed is the status that counts of one that was told. An overload of the model server lowers a limit of all tenants, and a tenant's own
// program can say what it likes: with the key of a tenant it is a failure of the tenant's call.
func believed(who admissionserver.Caller, status int) int {
	switch {
	case who.Trusted():
		return status
	case status >= http.StatusInternalServerError:
		return http.StatusInternalServerError
	case status == http.StatusTooManyRequests:
		return 0
	}
	return status
}

// askOf is what a request asks for. The caller's rights to it are checked elsewhere.
func askOf(req *admissionv1.ReserveRequest) (*reserve.Ask, error) {
	ask := &reserve.Ask{ID: req.ReservationId, Call: client.Request{
		ID: req.RequestId, Key: req.Key, Tenant: req.Tenant, Member: req.Member,
		Model: req.Model, Instead: req.Instead, Pool: req.Pool, Route: req.Route,
		InputTokens: req.InputTokens,
		MaxOutput:   req.MaxOutputTokens, Copies: req.Copies, NoOutput: req.NoOutput, OpenOutput: req.OpenOutput,
		Free: req.Free, Stream: req.Stream, Tier: req.ServiceTier, Background: req.Background,
	}}
	if err := weigh(&ask.Call.InputSize, req); err != nil {
		return nil, err
	}
	if r := req.Retry; r != nil {
		ask.Call.Retry = client.Retry{Key: r.Key, Attempt: int(r.Attempt), Once: r.Once, Digest: r.Digest}
	}
	wait, limited, err := durationOf("max_wait", req.MaxWait)
	if err != nil {
		return nil, err
	}
	if limited {
		ask.Call.MaxWait = &wait
	}
	ask.TTL, _, err = durationOf("ttl", req.Ttl)
	return ask, err
}

// weigh fills in how long the prompt is, if its tokens are not known.
func weigh(size *tokens.Size, req *admissionv1.ReserveRequest) error {
	switch {
	case req.InputBytes < 0 || req.InputBytes > longestDocument:
		return invalid("input_bytes", "input_bytes must be from 0 to %d, not %d", longestDocument, req.InputBytes)
	case len(req.InputWeights) > len(size):
		return invalid("input_weights", "input_weights has %d kinds, more than %d", len(req.InputWeights), len(size))
	case len(req.InputWeights) > 0:
		copy(size[:], req.InputWeights)
	default:
		size[tokens.Text] = tokens.DocumentOf(req.InputBytes)
	}
	return nil
}

// longestDocument bounds lengths in bytes.
const longestDocument = 1_000_000_000
