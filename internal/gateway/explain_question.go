package gateway

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/tenants"
)

// Question asks what a call would meet, without making the call.
type Question struct {
	Tenant, Model string
	// Tokens is what it may take in all, Input its prompt, and Output the bound of its answer. By
	// default the prompt is empty, and the answer is bounded as that of a call without a bound.
	Tokens, Input, Output *int64
	// Priority is interactive, background, or empty.
	Priority string
	MaxWait  *time.Duration
}

const (
	priorityInteractive = "interactive"
	priorityBackground  = "background"
)

// saidTokens is a number of tokens; nil if none was given.
type saidTokens struct {
	name  string
	value *int64
}

func (q *Question) counts() [3]saidTokens {
	return [...]saidTokens{{"tokens", q.Tokens}, {"input", q.Input}, {"output", q.Output}}
}

// Values is the question as a URL query.
func (q *Question) Values() url.Values {
	v := url.Values{"tenant": {q.Tenant}, "model": {q.Model}}
	for _, n := range q.counts() {
		if n.value != nil {
			v.Set(n.name, strconv.FormatInt(*n.value, 10))
		}
	}
	if q.Priority != "" {
		v.Set("priority", q.Priority)
	}
	if q.MaxWait != nil {
		v.Set("max_wait", q.MaxWait.String())
	}
	return v
}

// readQuestion reads a question from a URL query.
func readQuestion(query url.Values) (*Question, error) {
	q := &Question{}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if len(query[name]) > 1 {
			return nil, badQuestion(quoted(brief(name)) + " is there twice; say it once.")
		}
		if err := q.read(name, query.Get(name)); err != nil {
			return nil, err
		}
	}
	return q, q.Validate()
}

func (q *Question) read(name, text string) (err error) {
	switch name {
	case "tenant":
		q.Tenant = text
	case "model":
		q.Model = text
	case "tokens":
		q.Tokens, err = readTokens(name, text)
	case "input":
		q.Input, err = readTokens(name, text)
	case "output":
		q.Output, err = readTokens(name, text)
	case "priority":
		q.Priority = text
	case "max_wait":
		d, bad := time.ParseDuration(text)
		if bad != nil {
			return badQuestion("max_wait must be a duration such as 500ms or 3s, not " + quoted(brief(text)) + ".")
		}
		q.MaxWait = &d
	default:
		return badQuestion("There is no parameter " + quoted(brief(name)) + "; there are tenant, model, tokens, input, output, priority and max_wait.")
	}
	return err
}

func readTokens(name, text string) (*int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil, badQuestion(name + " must be a whole number, not " + quoted(brief(text)) + ".")
	}
	return &n, nil
}

// Validate reports what no call could be.
func (q *Question) Validate() error {
	for _, n := range q.counts() {
		if n.value != nil && (*n.value < 0 || *n.value > maxCount) {
			return badQuestion(fmt.Sprintf("%s must be from 0 to %d, not %d.", n.name, maxCount, *n.value))
		}
	}
	switch {
	case q.Tenant == "" || q.Model == "":
		return badQuestion("Whose call is it, and of which model? Say both tenant and model.")
	case q.Tokens != nil && q.Output != nil:
		return badQuestion("tokens says how many there are in all, so say either that or output.")
	case q.Tokens != nil && q.Input != nil && *q.Tokens < *q.Input:
		return badQuestion("tokens says how many there are in all, so it must not be less than input.")
	case q.Priority != "" && q.Priority != priorityInteractive && q.Priority != priorityBackground:
		return badQuestion("priority must be interactive or background, not " + quoted(brief(q.Priority)) + ".")
	case q.MaxWait != nil && *q.MaxWait < 0:
		return badQuestion("max_wait must not be negative, as " + q.MaxWait.String() + " is.")
	}
	return nil
}

// request is the governor's request for the call that is asked about.
func (q *Question) request(snap *tenants.Snapshot, t *tenants.Tenant, p *tenants.Pool) *governor.Request {
	req := &governor.Request{
		Tenant: t.Name, Pool: p.Name, Model: q.Model, MaxWait: q.MaxWait, Background: q.Priority == priorityBackground,
	}
	if q.Input != nil {
		req.Input = *q.Input
	}
	req.Output = q.bound(req.Input, t, p)
	if price, ok := snap.Price(q.Model); ok {
		req.Price = governor.Price(price)
	}
	return req
}

// bound is the most that the answer may have: the caller's bound, cut or supplied as for a chat
// call.
func (q *Question) bound(input int64, t *tenants.Tenant, p *tenants.Pool) int64 {
	bound := int64(0)
	switch {
	case q.Tokens != nil:
		bound = *q.Tokens - input
	case q.Output != nil:
		bound = *q.Output
	case t.MaxOutputTokens > 0:
		bound = t.MaxOutputTokens
	default:
		bound = p.DefaultMaxOutput
	}
	if t.MaxOutputTokens > 0 {
		bound = min(bound, t.MaxOutputTokens)
	}
	return bound
}

func badQuestion(message string) *adminError {
	return &adminError{http.StatusBadRequest, codeInvalid, message}
}
