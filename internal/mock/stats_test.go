package mock

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgov/llmgov/internal/testkit"
)

// TestStatsAreWhatClientsSaw runs a mixture of calls, counts on the client's side, and
// compares the moment the last answer has been read.
func TestStatsAreWhatClientsSaw(t *testing.T) {
	for _, accounting := range []string{AdmitMax, Production, Settle} {
		synctest.Test(t, func(t *testing.T) {
			r := inBubble(t, Config{
				TPM: 20000, RPM: 300, Slots: 8, Accounting: accounting, FirstToken: 20 * time.Millisecond, TokensPerSecond: 1000,
				ErrorRate: 0.05, HangupRate: 0.1, SlowRate: 0.1, SlowChunk: 5 * time.Millisecond, Seed: 7,
			})
			var (
				wg  sync.WaitGroup
				mu  sync.Mutex
				saw Stats
			)
			for worker := range 16 {
				rng := rand.New(rand.NewPCG(1, uint64(worker)))
				wg.Go(func() {
					for range 40 {
						got := r.chat(fmt.Sprintf(`"stream":true,"max_tokens":%d`, 1+rng.IntN(60)))
						mu.Lock()
						saw.count(got)
						mu.Unlock()
						time.Sleep(time.Duration(rng.IntN(1e9)))
					}
				})
			}
			wg.Wait()
			synctest.Wait()
			if saw.Refused == 0 || saw.Hangups == 0 || saw.Errors == 0 || saw.Completed == 0 {
				t.Fatalf("the mixture lacks something: %+v", saw)
			}
			r.wantStats(saw)
			st := r.s.Stats()
			if st.PeakRunning != 8 || st.TokensProduced != saw.PromptTokens+saw.OutputTokens {
				t.Errorf("peak %d, produced %d", st.PeakRunning, st.TokensProduced)
			}
			if accounting == AdmitMax && (st.WindowTokensPeak > 20000 || st.WindowRequestsPeak > 300) {
				t.Errorf("peaks %d and %d exceed the limits", st.WindowTokensPeak, st.WindowRequestsPeak)
			}
		})
	}
}

func (s *Stats) count(got reply) {
	s.Requests++
	switch {
	case got.status == 429:
		s.Refused++
		return
	case got.status == 500:
		s.Errors++
		return
	case got.err != nil:
		s.Hangups++
	case strings.HasSuffix(got.body, "data: [DONE]\n\n"):
		s.Completed++
	}
	s.Admitted++
	s.PromptTokens += chatPrompt
	s.OutputTokens += tokens(got.body)
}

func TestStatsEndpoints(t *testing.T) {
	r := onSocket(t, Config{TPM: 1000, RPM: 10, OutputTokens: 5})
	r.chat("")
	r.chat("")
	var got, again Stats
	testkit.OK(t, json.Unmarshal([]byte(r.get("/_stats").body), &got))
	want := Stats{
		Requests: 2, Admitted: 2, Completed: 2, PeakRunning: 1, PromptTokens: 16, OutputTokens: 10, TokensProduced: 26,
		WindowTokens: 26, WindowRequests: 2, WindowTokensPeak: 26, WindowRequestsPeak: 2,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("stats (-want +got):\n%s", d)
	}
	r.post("/_stats/reset", "")
	testkit.OK(t, json.Unmarshal([]byte(r.get("/_stats").body), &again))
	want = Stats{WindowTokens: 26, WindowRequests: 2, WindowTokensPeak: 26, WindowRequestsPeak: 2}
	if d := cmp.Diff(want, again); d != "" {
		t.Errorf("after the reset (-want +got):\n%s", d)
	}
}

func TestIDsAreUniqueAndRepeatable(t *testing.T) {
	ids := func(seed uint64) (out []string) {
		r := onSocket(t, Config{Seed: seed})
		for range 2 {
			out = append(out, r.chat("").get("id").Str)
		}
		return append(out, r.chat(`"stream":true`).header.Get("X-Request-Id"))
	}
	a := ids(1)
	if d := cmp.Diff(a, ids(1)); d != "" {
		t.Errorf("two runs differ:\n%s", d)
	}
	if b := ids(2); a[0] == a[1] || a[0] == b[0] || !strings.HasPrefix(a[0], "chatcmpl-") {
		t.Errorf("ids %v and %v", a, b)
	}
}
