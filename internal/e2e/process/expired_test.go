package process

import (
	"net/http"
	"testing"

	"github.com/llmgov/llmgov/internal/testkit/processtest"
)

// Calls that were in flight when the process was killed are counted by the next one,
// and those of that one not again by the third.
func TestExpiredByAKill(t *testing.T) {
	t.Parallel()
	dir := newFolder(t, upstream(t), "rpm: 1000", kept)
	for life, want := range []float64{0, 2, 0} {
		p := processtest.Start(t, dir, config)
		if got := processtest.Sum(p.Scrape(t), "llmgov_lease_expired_total"); got != want {
			t.Errorf("%v expired leases, want %v", got, want)
		}
		if life == 0 {
			for range 2 {
				body := processtest.Chat(`"stream":true,"mock":{"output_tokens":480,"token_ms":50}`)
				resp, err := processtest.Send(t.Context(), http.MethodPost, p.Data+"/v1/chat/completions", "key-of-a", body)
				if err != nil || resp.StatusCode != http.StatusOK {
					t.Fatal(resp, err)
				}
				defer resp.Body.Close()
			}
		}
		p.Kill()
	}
}
