package upstream

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/llmgov/llmgov/internal/proxy/upstreams"
	"github.com/llmgov/llmgov/tenants"
)

// AskLimits has a model answer with one token, and returns the limits that the upstream declares with it. The error is that it does not
// answer, or refuses the call.
func (u *Upstream) AskLimits(ctx context.Context, through http.RoundTripper, model string) (told upstreams.Told, err error) {
	path := "/chat/completions"
	if u.Provider.Kind == tenants.Anthropic {
		path = "/messages"
	}
	for _, bound := range []string{"max_tokens", "max_completion_tokens"} { // some models know only the second
		body, _ := json.Marshal(map[string]any{"model": model, bound: 1, "messages": []any{map[string]string{"role": "user", "content": "."}}})
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, u.Address.URL(path, model, nil), bytes.NewReader(body))
		if err != nil {
			return told, err
		}
		r.Header.Set("Content-Type", "application/json")
		u.Sign(r.Header)
		resp, err := u.RoundTrip(through, r)
		if err != nil {
			return told, err
		}
		_ = resp.Body.Close()
		told = u.Provider.Limits.Read(resp.Header)
		if resp.StatusCode/100 == 2 || told != (upstreams.Told{}) {
			return told, nil
		}
		if resp.StatusCode != http.StatusBadRequest {
			return told, fmt.Errorf("it answers %s", resp.Status)
		}
	}
	return told, fmt.Errorf("it answers %d %s", http.StatusBadRequest, http.StatusText(http.StatusBadRequest))
}

// AskTimeout is how long to wait for the answer to AskLimits.
const AskTimeout = 30 * time.Second
