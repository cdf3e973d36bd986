package e2e

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/internal/mock"
	"github.com/llmgov/llmgov/tenants"
)

// fiftyAtOnce sends a call fifty times at once, and counts the answers by status.
func fiftyAtOnce(s *stack, path, body string) map[int]int {
	var mu sync.Mutex
	statuses := map[int]int{}
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			a := s.callTo(s.t.Context(), path, "a", body)
			mu.Lock()
			defer mu.Unlock()
			statuses[a.status]++
		})
	}
	all.Wait()
	return statuses
}

// Fifty prompts at once do not pass the tenant's limit together, however the words in them are
// joined.
func TestAudit_H1_FiftyPromptsWithoutSpaces(t *testing.T) {
	const limit, words = 100_000, 80_000
	for name, gap := range map[string]string{"spaces": " ", "hyphens": "-", "underscores": "_", "slashes": "/", "nothing": ""} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := tenant("a", 1)
				a.TPM = limit
				w := world{pool: pool(1_000_000, 0, 0), tenants: []tenants.Tenant{a}, mock: mock.Config{TPM: 1 << 40}}
				w.pool.Burst, w.pool.BurstSet = time.Minute, true
				s := newStack(t, w)
				defer s.close()
				time.Sleep(time.Minute) // so that the pool has all of its minute
				body := `{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("word"+gap, words) + `"}],"max_tokens":1}`
				statuses := fiftyAtOnce(s, "/chat/completions", body)
				one := mock.PromptTokens([]byte(body), "/v1/chat/completions") + 1
				st := s.mock.Stats()
				if counted := st.PromptTokens + st.OutputTokens; counted > limit+one || counted == 0 {
					t.Errorf("%v: the provider counted %d tokens at a limit of %d", statuses, counted, limit)
				}
				s.checkIdle()
			})
		})
	}
}
