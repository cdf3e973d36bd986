package client

import (
	"fmt"
	"math"
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/llmgov/llmgov/governor/tokens"
)

// Request asks for one call. Its zero values are unknown or have no effect, except where they say
// otherwise. Its texts are UTF-8.
type Request struct {
	// ID names the call in explanations and lists of leases.
	ID string

	// Key or Tenant says who asks: by an API key of the policy, or by the name of a tenant, if whoever
	// opened the Client is trusted with that.
	Key, Tenant string
	// Member is who of the tenant's members makes the call, by the name that its policy would find in a request. Empty leaves it to the Header.
	Member string

	// Model is the model by the policy's name for it.
	Model string
	// Instead are models that may answer in its place. The call is held at the price of the dearest.
	Instead []string
	// Pool is the pool in which the call is counted, if it is not that of the model. A call has a Model, or a Pool, or
	// both; one that is Free may be the tenant's default pool's.
	Pool string
	// Route is the kind of the call, such as /chat/completions. It tells calls with OpenOutput apart.
	Route string

	// InputTokens is how long the prompt is, if that is known. Of a call with none of InputTokens, InputSize and Body, as many tokens are held
	// as the pool assumes of an answer, and then as the tenant's calls like it have taken.
	InputTokens int64
	// InputSize is how long it is by what it consists of, from which its tokens are estimated as earlier calls have
	// taught: see tokens.Weigh. If it and InputTokens are left out, it is that of the Body.
	InputSize tokens.Size
	// Body is the call's JSON body. It is measured here, and goes to no other process. A governor in this one may count its tokens while its
	// estimates are uncertain.
	Body []byte

	// MaxOutput is how many tokens the answer may have, and each of its Copies if there are several. 0, and -1 or more than 1,000,000,000, as
	// callers write it for no bound, is as many as the pool assumes.
	MaxOutput int64
	Copies    int64
	// NoOutput says that the answer has no tokens, such as an embedding.
	NoOutput bool
	// OpenOutput says that it has some that nothing in the call can bound, such as a transcription. Their number
	// is learned by Route and Model.
	OpenOutput bool
	// Free calls take no tokens. They count as a request.
	Free   bool
	Stream bool
	// Tier is the service tier that the call asks for, such as priority, at whose price it is held; "" is the standard one.
	Tier string

	// Background lets interactive calls go first.
	Background bool
	// Header are the headers of the request for which it asks, by which its tenant's priority_by may lower its priority, and its members are told apart. A governor of this
	// process reads them; one elsewhere is not told.
	Header http.Header
	// MaxWait shortens the time that the policy lets the call wait for its turn, which nil leaves as it is. 0 does not wait.
	MaxWait *time.Duration

	Retry Retry
}

// Retry is how a call is recognized that was made before, so that it finds the place in the queue that was
// kept for it.
type Retry struct {
	// Key names the call and its retries, and nothing else of the tenant's.
	Key string
	// Attempt counts its tries from 1. 0 does not count them.
	Attempt int
	// Once lets no other call with the same Key in until this one has ended. Digest tells calls with
	// one Key apart that ask for different things.
	Once   bool
	Digest uint64
}

const (
	// maxTokens bounds numbers of tokens and bytes. Nobody means more than that.
	maxTokens  = 1_000_000_000
	maxCopies  = 4096
	maxID      = 128
	maxName    = 256
	maxTier    = 48
	maxKey     = 16 << 10 // of a token of an identity provider
	maxInstead = 64
)

// Check returns what is wrong with a request by itself, as a *Refusal. A Client checks it before it asks its Door.
func (r *Request) Check() error {
	for _, name := range []struct {
		param, value string
		most         int
	}{
		{"id", r.ID, maxID},
		{"key", r.Key, maxKey},
		{"tenant", r.Tenant, maxName},
		{"member", r.Member, maxName},
		{"model", r.Model, maxName},
		{"pool", r.Pool, maxName},
		{"route", r.Route, maxName},
		{"service_tier", r.Tier, maxTier},
		{"retry.key", r.Retry.Key, maxName},
	} {
		if wrong := wrongText(name.value, name.most); wrong != "" {
			return invalid(name.param, "%s %s", name.param, wrong)
		}
	}
	if len(r.Instead) > maxInstead {
		return invalid("instead", "instead has %d models, more than %d", len(r.Instead), maxInstead)
	}
	for _, model := range r.Instead {
		if wrong := wrongText(model, maxName); wrong != "" {
			return invalid("instead", "a model of instead %s", wrong)
		}
	}
	if !visible(r.ID) {
		return invalid("id", "id may have visible ASCII characters only, not %q", r.ID)
	}
	if r.Key != "" && r.Tenant != "" {
		return invalid("tenant", "a call has a key or the name of a tenant, not both")
	}
	if r.MaxWait != nil && *r.MaxWait < 0 {
		return invalid("max_wait", "max_wait must be at least 0, not %s", *r.MaxWait)
	}
	return r.checkAmounts()
}

// wrongText says why a text of a call is refused; "" if it is not. It has to be UTF-8 because a Door may send it in a protocol that has nothing else.
func wrongText(s string, most int) string {
	switch {
	case len(s) > most:
		return fmt.Sprintf("has %d bytes, more than %d", len(s), most)
	case !utf8.ValidString(s):
		return "has bytes that are not UTF-8"
	}
	return ""
}

// visible reports whether all characters are visible ones of ASCII.
func visible(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

func (r *Request) checkAmounts() error {
	for _, n := range []struct {
		param       string
		value       int64
		least, most int64
	}{
		{"input_tokens", r.InputTokens, 0, maxTokens},
		{"max_output_tokens", r.MaxOutput, -1, math.MaxInt64},
		{"copies", r.Copies, 0, maxCopies},
		{"retry.attempt", int64(r.Retry.Attempt), 0, maxTokens},
	} {
		if n.value < n.least || n.value > n.most {
			return invalid(n.param, "%s must be from %d to %d, not %d", n.param, n.least, n.most, n.value)
		}
	}
	return checkSize(&r.InputSize)
}

// checkSize bounds each part before their sum, which could overflow.
func checkSize(size *tokens.Size) error {
	const most = maxTokens * tokens.Scale
	for _, part := range size {
		if part < 0 || part > most {
			return invalid("input_size", "each part of input_size must be from 0 to %d, not %d", int64(most), part)
		}
	}
	if sum := size.Weight(); sum > most {
		return invalid("input_size", "the parts of input_size must be from 0 to %d together, not %d", int64(most), sum)
	}
	return nil
}

func invalid(param, format string, args ...any) *Refusal {
	return &Refusal{
		Status: http.StatusBadRequest, Code: CodeInvalid, Param: param, Message: fmt.Sprintf("Bad request: "+format+".", args...), Final: true, Header: http.Header{},
	}
}
