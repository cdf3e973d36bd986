package upstreams

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/internal/e2e/harness"
	"github.com/llmgov/llmgov/internal/mock"
	"github.com/llmgov/llmgov/tenants"
)

// With 200k tokens a minute provisioned and 600k on demand, callers that want more than both together see no refusal of
// either. What is provisioned is used whole, and refuses a call or two a minute, which go on to the other.
func TestUpstreams_SpillsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		provisioned := harness.NewUpstream(t, mock.Config{TPM: 200_000})
		onDemand := harness.NewUpstream(t, mock.Config{TPM: 600_000})
		p := harness.Pool(800_000, 0, 0)
		p.Upstreams = []tenants.PoolUpstream{{Name: "ptu", Weight: 1}, {Name: "paid", Weight: 3, Order: 1}}
		who := harness.Tenant("a", 1)
		who.MaxWait = time.Minute
		s := harness.New(t, harness.World{Pool: p, Tenants: []tenants.Tenant{who}, Upstreams: map[string]http.Handler{"ptu": provisioned, "paid": onDemand}})
		body := `{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("word ", 1900) + `"}],"max_tokens":100,"mock":{"output_tokens":100}}`
		const minutes = 3
		end := time.Now().Add(minutes * time.Minute)
		var callers sync.WaitGroup
		var mu sync.Mutex
		seen := map[int]int{}
		for range 40 {
			callers.Go(func() {
				for time.Now().Before(end) {
					status := s.Call(t.Context(), "a", body).Status
					mu.Lock()
					seen[status]++
					mu.Unlock()
				}
			})
		}
		callers.Wait()
		used := func(u *harness.Upstream, tpm float64) float64 {
			st := u.Mock.Stats()
			return float64(st.TokensProduced) / (tpm * minutes)
		}
		first := used(provisioned, 200_000)
		spare := used(onDemand, 600_000)
		refused := provisioned.Mock.Stats().Refused
		t.Logf("of what is provisioned %.0f %% are used, with %d refusals, and %.0f %% on demand", first*100, refused, spare*100)
		if len(seen) != 1 || seen[http.StatusOK] == 0 {
			t.Errorf("callers saw %v", seen)
		}
		if first < .99 || spare < .65 {
			t.Errorf("of what is provisioned %.2f are used, and %.2f on demand, want .99 and .65", first, spare)
		}
		if n := onDemand.Mock.Stats().Refused; refused == 0 || refused > 4*minutes || n > 0 {
			t.Errorf("what is provisioned refused %d calls in %d minutes, and %d were refused on demand", refused, minutes, n)
		}
	})
}
