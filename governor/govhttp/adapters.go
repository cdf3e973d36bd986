package govhttp

import (
	"net/http"

	"github.com/llmgov/llmgov/governor/client"
)

// Transport governs the calls that a program sends through next; nil is http.DefaultTransport.
func Transport(c *client.Client, next http.RoundTripper, opt Options) http.RoundTripper {
	if next == nil {
		next = http.DefaultTransport
	}
	return &transport{newGoverned(c, opt, FromContext), next}
}

type transport struct {
	governed *governed
	next     http.RoundTripper
}

func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	return t.governed.send(r, t.next.RoundTrip)
}

// ClientMiddleware governs the calls of SDKs that take such functions: option.WithMiddleware of openai-go and
// anthropic-sdk-go. Each of their retries is a call of its own.
func ClientMiddleware(c *client.Client, opt Options) func(*http.Request, func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	return newGoverned(c, opt, FromContext).send
}

// HTTPDoer sends requests: *http.Client, and what SDKs such as sashabaranov/go-openai take in its place.
type HTTPDoer interface {
	Do(*http.Request) (*http.Response, error)
}

// Doer governs the calls that a program sends through next; nil is http.DefaultClient.
func Doer(c *client.Client, next HTTPDoer, opt Options) HTTPDoer {
	if next == nil {
		next = http.DefaultClient
	}
	return &doer{newGoverned(c, opt, FromContext), next}
}

type doer struct {
	governed *governed
	next     HTTPDoer
}

// Do implements HTTPDoer.
func (d *doer) Do(r *http.Request) (*http.Response, error) { return d.governed.send(r, d.next.Do) }
