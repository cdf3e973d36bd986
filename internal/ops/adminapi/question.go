package adminapi

import (
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/llmgov/llmgov/internal/lib/text"
)

// Question asks what a call would meet, without making the call.
type Question struct {
	Tenant, Model string
	// Member is who of the tenant makes it, as its calls say; empty for calls that do not.
	Member string
	// Tokens is what it may take in all, Input its prompt, and Output the bound of its answer. By
	// default the prompt is empty, and the answer is bounded as that of a call without a bound.
	Tokens, Input, Output *int64
	// Priority is interactive, background, 0 to 9, or empty.
	Priority string
	MaxWait  *time.Duration
}

// The priorities of calls.
const (
	PriorityInteractive = "interactive"
	PriorityBackground  = "background"
)

// maxTokens bounds each number of tokens, as it does in calls.
const maxTokens = 1_000_000_000

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
	if q.Member != "" {
		v.Set("member", q.Member)
	}
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

// Validate reports what no call could be.
func (q *Question) Validate() error {
	for _, n := range q.counts() {
		if n.value != nil && (*n.value < 0 || *n.value > maxTokens) {
			return BadRequest(fmt.Sprintf("%s must be from 0 to %d, not %d.", n.name, maxTokens, *n.value))
		}
	}
	switch {
	case q.Tenant == "" || q.Model == "":
		return BadRequest("Whose call is it, and of which model? Say both tenant and model.")
	case q.Tokens != nil && q.Output != nil:
		return BadRequest("tokens says how many there are in all, so say either that or output.")
	case q.Tokens != nil && q.Input != nil && *q.Tokens < *q.Input:
		return BadRequest("tokens says how many there are in all, so it must not be less than input.")
	case q.Priority != "" && q.Priority != PriorityInteractive && q.Priority != PriorityBackground && (len(q.Priority) > 1 || q.Priority < "0" || q.Priority > "9"):
		return BadRequest("priority must be interactive, background or 0 to 9, not " + strconv.Quote(text.Brief(q.Priority)) + ".")
	case q.MaxWait != nil && *q.MaxWait < 0:
		return BadRequest("max_wait must not be negative, as " + q.MaxWait.String() + " is.")
	}
	return nil
}
