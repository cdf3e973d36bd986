package load

import (
	"time"

	"github.com/llmgov/llmgov/internal/lab/distribution"
)

// Plan is the traffic of one run. It holds no state: the same plan and seed send the same
// calls at the same times.
type Plan struct {
	Tenants []Tenant
	// Warmup comes before For. Calls due in it are sent and not measured.
	Warmup, For time.Duration
	Seed        uint64
	// Timeout ends an attempt, and bounds the retries of RetryHinted.
	Timeout time.Duration
	// MaxInFlight bounds concurrent calls. Calls beyond it are sent late.
	MaxInFlight int
}

// end is the latest time at which a call may be due.
func (p *Plan) end() time.Duration { return p.Warmup + p.For }

// Tenant is the traffic of one tenant.
type Tenant struct {
	Name, Key, Model string
	// Rate is calls a second, in the mean.
	Rate     float64
	Arrivals Arrivals
	Path     Path
	// Prompt and Output are lengths in tokens.
	Prompt, Output distribution.Distribution
	// MaxTokens is the bound that calls declare, if it differs from the length drawn. Then the
	// hook of the simulated model server sets the length; other servers decide themselves.
	// Unsaid declares none.
	MaxTokens int64
	// Stream is the share of calls that are streamed, Disconnect the share of those that
	// are broken off after a random part of the answer.
	Stream, Disconnect float64
	Burst              Burst
	Storm              Storm
	Retry              Retry
}

// Unsaid, as MaxTokens, is that calls do not say how long their answers may be.
const Unsaid = -1

// Arrivals is the law of the times between calls.
type Arrivals int

const (
	// Poisson is many independent callers.
	Poisson Arrivals = iota
	// Constant is equal intervals.
	Constant
)

// Burst is a number of calls that are due in one instant, again and again. Every 0 is none.
type Burst struct {
	Every time.Duration
	Size  int64
}

// Storm breaks off a share of a tenant's running streams in one instant, again and again,
// as the restart of a frontend does. Every 0 is none.
type Storm struct {
	Every time.Duration
	Share float64
}

// Retry is the behaviour of callers that are refused.
type Retry int

const (
	// RetryNone gives up.
	RetryNone Retry = iota
	// RetryHinted obeys Retry-After until the timeout.
	RetryHinted
	// RetrySDK makes two more attempts, as OpenAI's libraries do: at the time of Retry-After if that
	// is within a minute, else after half a second, then a second.
	RetrySDK
)

// Path is the endpoint that is called.
type Path int

// The endpoints.
const (
	Chat Path = iota
	Responses
	Messages // Anthropic's
	Embeddings
)

var paths = [...]string{"/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1/embeddings"}

// DefaultTenant sends ten short chats a second.
func DefaultTenant() Tenant {
	return Tenant{
		Name: "all", Model: "gpt-4o-mini", Rate: 10,
		Prompt: distribution.Distribution{Mean: 500, Sigma: 0.8, Min: 1, Max: 8000},
		Output: distribution.Distribution{Mean: 200, Sigma: 0.8, Min: 1, Max: 4000},
		Stream: 1,
	}
}
