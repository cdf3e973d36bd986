package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/llmgov/llmgov/tenants"
)

// The test below was seen to fail without state_dir, which it shows itself, and with
// state_dir: with admissions not appended, with nothing remembered, and with a
// journal that begins anew each time.

// restartConfig is a gateway whose limits are the provider's, to the last call.
func restartConfig(t *testing.T, dir, upstream, limits string, kept bool) string {
	t.Helper()
	text := "upstreams: {mock: {base_url: " + upstream + "}}\npools:\n  p: {models: [\"*\"], headroom: 0, burst: 0s, max_queue: 100, " + limits + "}\n"
	if kept {
		text += "state_dir: " + filepath.Join(dir, "state") + "\n"
	}
	// Two of them: in a pool of one the burst would be a whole minute.
	policy := "tenants:\n"
	for _, name := range []string{"a", "b"} {
		policy += fmt.Sprintf("  %s: {keys: [%q], max_wait: 50ms}\n", name, tenants.HashKey("key-of-"+name).String())
	}
	if err := os.Mkdir(filepath.Join(dir, "tenants"), 0o700); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "llmgov.yaml")
	for file, text := range map[string]string{config: text, filepath.Join(dir, "tenants", "all.yaml"): policy} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return config
}

// startMock starts the simulated model server with limits of its own.
func startMock(t *testing.T, args ...string) (url string) {
	t.Helper()
	p, err := launch(t.TempDir(), []string{"PATH=" + os.Getenv("PATH")}, append([]string{"mock", "--listen", "127.0.0.1:0"}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	if err := poll(func() error {
		m := regexp.MustCompile(`listens on (http://\S+)/v1,`).FindStringSubmatch(read(p.stdout))
		if m == nil {
			return fmt.Errorf("no address: %s", read(p.stderr))
		}
		url = m[1]
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return url
}

type mockStats struct {
	Admitted, Refused, Running int64
	Peak                       int64 `json:"peak_running"`
	WindowTokensPeak           int64 `json:"window_tokens_peak"`
}

func statsOf(t *testing.T, mock string) (s mockStats) {
	t.Helper()
	resp, err := http.Get(mock + "/_stats")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&s); err != nil {
		t.Fatal(err)
	}
	return s
}

// flood sends calls until ctx ends, some short and some that are still running when
// the gateway is killed. Which are short differs by round: what is cut off is given
// back, so if always the same worker were first, nothing might ever be used.
func flood(ctx context.Context, round int, url string, served, refused *atomic.Int64) {
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				extra := ""
				if (i+n+round)%5 == 0 {
					extra = `,"mock":{"output_tokens":480,"token_ms":5}`
				}
				body := `{"model":"m","messages":[{"role":"user","content":"How long is a piece of string?"}],"stream":true,"max_tokens":480` + extra + `}`
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", strings.NewReader(body))
				if err != nil {
					return
				}
				req.Header.Set("Authorization", "Bearer key-of-"+string("ab"[i%2]))
				resp, err := http.DefaultClient.Do(req)
				if err != nil {
					continue
				}
				switch resp.StatusCode {
				case http.StatusOK:
					served.Add(1)
				case http.StatusTooManyRequests:
					refused.Add(1)
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		})
	}
	wg.Wait()
}

// A gateway is killed again and again under full load, and started at once. The
// provider, which counts strictly, refuses nobody. A gateway that forgets gets a
// second of the rate too much each time, and here that is a whole call.
func TestKill9(t *testing.T) {
	const kills = 16
	for name, limit := range map[string]struct{ mock, pool string }{
		"rpm": {"--rpm=8", "rpm: 8"},
		// A prompt is estimated, and each is a little different for the two.
		"tpm": {"--tpm=4000", "tpm: 3900"},
	} {
		for _, kept := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/state_dir=%v", name, kept), func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				mock := startMock(t, limit.mock, "--output-tokens=480")
				config := restartConfig(t, dir, mock+"/v1", limit.pool, kept)
				var served, refused atomic.Int64
				began := time.Now()
				// shown reports whether there were enough calls to see something, because a busy machine serves few before a kill.
				shown := func(st mockStats) bool {
					return !kept && st.Refused > 0 || kept && st.Admitted >= 4 && refused.Load() > 0
				}
				for n := 0; n < kills || !shown(statsOf(t, mock)) && time.Since(began) < 55*time.Second; n++ {
					p := serveIn(t, dir, config)
					ctx, cancel := context.WithCancel(t.Context())
					time.AfterFunc(time.Duration(60+20*(n%6))*time.Millisecond, p.kill)
					go func() { <-p.done; cancel() }()
					flood(ctx, n, p.data, &served, &refused)
					cancel()
				}
				st := statsOf(t, mock)
				t.Logf("kills for %v: the provider admitted %d and refused %d; llmgov refused %d", time.Since(began).Round(time.Millisecond), st.Admitted, st.Refused, refused.Load())
				if time.Since(began) > 55*time.Second {
					t.Skip("this machine is too slow: the minute rolls on meanwhile, and jitter counts")
				}
				if kept && (st.Refused != 0 || st.Admitted < 4 || refused.Load() == 0) {
					t.Errorf("with state_dir the provider refused %d of %d", st.Refused, st.Admitted)
				}
				if !kept && st.Refused == 0 {
					t.Errorf("without state_dir the provider refused nobody: this test can see nothing")
				}
			})
		}
	}
}
