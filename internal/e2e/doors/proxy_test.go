package doors

import (
	"context"
	"net/http"
	"strings"
	"testing"
)

// proxy is llmgov as the proxy of its callers.
var proxy = Door{
	Name:     "proxy",
	Open:     func(_ *testing.T, s *Site) Post { return postTo(http.DefaultClient, s.Serve()) },
	InFlight: BreaksOff,
	Away:     Fails,
}

// postTo posts calls to a server, with the tenant's key.
func postTo(c *http.Client, base string) Post {
	return func(ctx context.Context, tenant, body string) (*http.Response, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/v1/chat/completions", strings.NewReader(body))
		if err != nil {
			return nil, err
		}
		req.Header.Set("Authorization", "Bearer "+KeyOf(tenant))
		req.Header.Set("Content-Type", "application/json")
		return c.Do(req)
	}
}
