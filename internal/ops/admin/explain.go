package admin

import (
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/llmgov/llmgov/internal/lib/text"
	"github.com/llmgov/llmgov/internal/ops/adminapi"
)

// explain answers GET /api/v1/explain.
func (a *API) explain(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Cache-Control", "no-store")
	query := r.URL.Query()
	x, err := a.explanation(query)
	if none, ok := errors.AsType[*adminapi.Fault](err); ok && none.Code == adminapi.RequestNotFound && r.Header[peerHeader] == nil {
		x, err = a.refusalElsewhere(r.Context(), query, none)
	}
	if err != nil {
		return err
	}
	if x.Node == "" {
		x.Node = a.Node
	}
	respond(w, x)
	return nil
}

// explanation explains a refusal if the query names a request, and else answers a question.
func (a *API) explanation(query url.Values) (*adminapi.Explanation, error) {
	if !query.Has("request") {
		q, err := readQuestion(query)
		if err != nil {
			return nil, err
		}
		return a.gateway.Explain(q)
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if name != "request" && name != "tenant" {
			return nil, adminapi.BadRequest("request already names the call; leave " + strconv.Quote(text.Brief(name)) + " out.")
		}
	}
	return a.gateway.ExplainRefusal(query.Get("request"), query.Get("tenant"))
}

// readQuestion reads a question from a URL query.
func readQuestion(query url.Values) (*adminapi.Question, error) {
	q := &adminapi.Question{}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if len(query[name]) > 1 {
			return nil, adminapi.BadRequest(strconv.Quote(text.Brief(name)) + " is given twice; give it once.")
		}
		if err := readParameter(q, name, query.Get(name)); err != nil {
			return nil, err
		}
	}
	return q, q.Validate()
}

// readParameter reads one parameter of a question.
func readParameter(q *adminapi.Question, name, value string) (err error) {
	switch name {
	case "tenant":
		q.Tenant = value
	case "member":
		q.Member = value
	case "model":
		q.Model = value
	case "tokens":
		q.Tokens, err = readTokens(name, value)
	case "input":
		q.Input, err = readTokens(name, value)
	case "output":
		q.Output, err = readTokens(name, value)
	case "priority":
		q.Priority = value
	case "max_wait":
		d, bad := time.ParseDuration(value)
		if bad != nil {
			return adminapi.BadRequest("max_wait must be a duration such as 500ms or 3s, not " + strconv.Quote(text.Brief(value)) + ".")
		}
		q.MaxWait = &d
	default:
		return adminapi.BadRequest("There is no parameter " + strconv.Quote(text.Brief(name)) + "; there are tenant, member, model, tokens, input, output, priority and max_wait.")
	}
	return err
}

func readTokens(name, value string) (*int64, error) {
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		return nil, adminapi.BadRequest(name + " must be a whole number, not " + strconv.Quote(text.Brief(value)) + ".")
	}
	return &n, nil
}
