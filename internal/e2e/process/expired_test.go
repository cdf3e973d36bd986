package main

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// Calls that were in flight when the process was killed are counted by the next one,
// and those of that one not again by the third.
func TestExpiredByAKill(t *testing.T) {
	dir := t.TempDir()
	config := restartConfig(t, dir, startMock(t)+"/v1", "rpm: 1000", true)
	for life, want := range []string{"0", "2", "0"} {
		p := serveIn(t, dir, config)
		resp, err := http.Get(p.admin + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || !strings.Contains(string(text), "\nllmgov_lease_expired_total "+want+"\n") {
			t.Errorf("want %s expired leases (%v):\n%s", want, err, text)
		}
		if life == 0 {
			for range 2 {
				body := `{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true,"mock":{"output_tokens":480,"token_ms":50}}`
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.data+"/v1/chat/completions", strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Authorization", "Bearer key-of-a")
				resp, err := http.DefaultClient.Do(req)
				if err != nil || resp.StatusCode != http.StatusOK {
					t.Fatal(resp, err)
				}
				defer resp.Body.Close()
			}
		}
		p.kill()
		<-p.done
	}
}
