package reserveserver

import (
	_ "embed"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/llmgov/llmgov/governor/client"
	"github.com/llmgov/llmgov/internal/doors/admissionserver"
	"github.com/llmgov/llmgov/internal/doors/reserve"
	"github.com/llmgov/llmgov/internal/proxy/gateway/dialect"
	"github.com/llmgov/llmgov/internal/run/admission"
	"github.com/llmgov/llmgov/internal/run/admission/ask"
)

// OpenAPI describes the routes for programs, as OpenAPI 3.1. It is made from the types of this package:
// go test ./internal/doors/reserveserver -update.
//
//go:embed openapi.json
var OpenAPI []byte

// httpSide serves HTTP and JSON.
type httpSide struct{ book *reserve.Book }

func (s *httpSide) routes() map[string]http.Handler {
	return map[string]http.Handler{
		"POST /v1/reservations":               answering(s.reserve),
		"POST /v1/reservations/{id}/progress": answering(s.progress),
		"POST /v1/reservations/{id}/commit":   answering(s.commit),
		"POST /v1/reservations/{id}/cancel":   answering(s.cancel),
		"GET /openapi.json": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(OpenAPI)
		}),
	}
}

func (s *httpSide) reserve(r *http.Request, body []byte) (any, error) {
	var req reserveRequest
	if err := decode(body, &req); err != nil {
		return nil, err
	}
	ask, err := askOf(req.proto())
	if err != nil {
		return nil, err
	}
	err = forWhom(admissionserver.CallerOf(r.Context()), ask)
	if err != nil {
		return nil, err
	}
	g, err := s.book.Reserve(r.Context(), ask)
	if err != nil {
		return nil, err
	}
	of := g.Lease.Grant
	return reserveAnswer{
		ReservationID: g.ID, TTL: g.TTL.Seconds(), Headers: standing(g), Tenant: of.Tenant, Pool: of.Pool, Waited: of.Waited.Seconds(), MaxOutput: of.MaxOutput,
	}, nil
}

func (s *httpSide) progress(r *http.Request, body []byte) (any, error) {
	var req progressRequest
	if err := decode(body, &req); err != nil {
		return nil, err
	}
	ttl, cut, err := s.book.Progress(owner(r), r.PathValue("id"), client.Produced{Tokens: req.OutputTokens, Deltas: req.Deltas})
	if err != nil {
		return nil, err
	}
	answer := progressAnswer{TTL: ttl.Seconds()}
	if cut != nil {
		answer.Interrupted = &interrupted{cut.Status, string(cut.Code), cut.Message}
	}
	return answer, nil
}

func (s *httpSide) commit(r *http.Request, body []byte) (any, error) {
	end, err := endOf(body)
	if err != nil {
		return nil, s.book.Misread(owner(r), r.PathValue("id"), client.Cancelled, err)
	}
	end.Status = believed(admissionserver.CallerOf(r.Context()), end.Status)
	return s.end(r, end)
}

// endOf is the end of a reservation that a body tells.
func endOf(body []byte) (client.End, error) {
	var req commitRequest
	if err := decode(body, &req); err != nil {
		return client.End{}, err
	}
	outcome, ok := outcomeNames[req.Outcome]
	if !ok {
		return client.End{}, invalid("outcome", "outcome must be completed, answered_error, failed or cancelled, not %.100q", req.Outcome)
	}
	if err := checkStatus(outcome, req.Status); err != nil {
		return client.End{}, err
	}
	end := client.End{Outcome: outcome, Status: req.Status, Produced: client.Produced{Tokens: req.OutputTokens, Deltas: req.Deltas}}
	if u := req.Usage; u != nil {
		end.Reported = !req.Partial
		end.Usage = client.Usage(*u)
	}
	return end, nil
}

var outcomeNames = map[string]client.Outcome{
	"": client.Completed, "completed": client.Completed, "answered_error": client.AnsweredError,
	"failed": client.Failed, "cancelled": client.Cancelled,
}

func (s *httpSide) cancel(r *http.Request, body []byte) (any, error) {
	var none struct{}
	if err := decode(body, &none); err != nil {
		return nil, s.book.Misread(owner(r), r.PathValue("id"), client.NotSent, err)
	}
	return s.end(r, client.End{Outcome: client.NotSent})
}

func (s *httpSide) end(r *http.Request, e client.End) (any, error) {
	released, err := s.book.Commit(owner(r), r.PathValue("id"), e)
	if err != nil {
		return nil, err
	}
	return endAnswer{released}, nil
}

func owner(r *http.Request) string { return admissionserver.CallerOf(r.Context()).Tenant }

// answering answers with what a function returns for a body.
func answering(handle func(r *http.Request, body []byte) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := read(w, r)
		var answer any
		if err == nil {
			answer, err = handle(r, body)
		}
		if err != nil {
			refuse(w, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer)
	})
}

// refuse answers as the gateway does.
func refuse(w http.ResponseWriter, err error) {
	r, ok := errors.AsType[*client.Refusal](err)
	if !ok { // the caller has gone
		w.WriteHeader(admission.StatusClientClosed)
		return
	}
	h := w.Header()
	for name, values := range r.Header {
		h[name] = values
	}
	h.Set("Content-Type", "application/json")
	w.WriteHeader(r.Status)
	_, _ = w.Write(dialect.OpenAI.ErrorBody(&ask.Refusal{Code: string(r.Code), Kind: r.Kind, Param: r.Param, Message: r.Message}))
}
