package upstreams

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"

	"github.com/llmgov/llmgov/internal/e2e/harness"
	"github.com/llmgov/llmgov/internal/e2e/harness/sockets"
	"github.com/llmgov/llmgov/internal/mock"
	"github.com/llmgov/llmgov/internal/testkit"
	"github.com/llmgov/llmgov/tenants"
)

// A call costs what the upstream that served it takes, in budgets and in the log: nothing where capacity is provisioned, the price of
// the upstream on demand there, and that of the model at one that has no price. Before, it is held at the dearest.
func TestUpstreams_Prices(t *testing.T) {
	for name, limits := range map[string][3]int64{"with limits of their own": {1, 1, 1}, "without": {}} {
		testkit.Virtual(t, name, func(t *testing.T) {
			p := harness.Pool(0, 0, 1000)
			handlers := map[string]http.Handler{}
			ups := map[string]*harness.Upstream{}
			list := []tenants.PoolUpstream{{Name: "ptu", Price: &tenants.Price{}}, {Name: "paid", Price: &tenants.Price{Input: 4e6, CachedInput: 4e6, Output: 8e6}}, {Name: "usual"}}
			for i, u := range list {
				u.Weight = 1
				u.Order = int64(i)
				u.Concurrency = limits[i]
				p.Upstreams = append(p.Upstreams, u)
				ups[u.Name] = harness.NewUpstream(t, mock.Config{})
				handlers[u.Name] = ups[u.Name]
			}
			who := harness.Tenant("a", 1)
			who.Budgets = []tenants.Budget{{Unit: tenants.MicroUSD, Limit: 1e9, Per: tenants.Day}}
			s := harness.New(t, harness.World{
				Pool: p, Tenants: []tenants.Tenant{who}, Upstreams: handlers,
				Prices: []tenants.ModelPrice{{Model: "*", Price: tenants.Price{Input: 1e6, CachedInput: 1e6, Output: 2e6}}},
			})
			spent := func() int64 { return s.Governor.State().Tenants[0].Budgets[0].Used }
			answer := make(chan struct{})
			ups["ptu"].AnswerWith(func(rw http.ResponseWriter, r *http.Request) {
				<-answer
				ups["ptu"].Mock.ServeHTTP(rw, r)
			})
			go s.Call(t.Context(), "a", harness.Chat(false, 500, ""))
			synctest.Wait()
			if held := spent(); held < 500*8 {
				t.Errorf("a call is held at %d millionths of a dollar, want %d at least, as at the dearest", held, 500*8)
			}
			close(answer)
			time.Sleep(time.Minute)
			for _, tt := range []struct {
				served        string
				input, output int64
			}{{"ptu", 0, 0}, {"paid", 4, 8}, {"usual", 1, 2}} {
				before := spent()
				ans := s.Call(t.Context(), "a", harness.Chat(false, 5, ""))
				input := gjson.Get(ans.Body, "usage.prompt_tokens").Int()
				output := gjson.Get(ans.Body, "usage.completion_tokens").Int()
				if cost := spent() - before; ans.Status != 200 || output == 0 || cost != input*tt.input+output*tt.output {
					t.Errorf("%s: %d, %d and %d tokens cost %d millionths of a dollar, want %d and %d each", tt.served, ans.Status, input, output, cost, tt.input, tt.output)
				}
				ups[tt.served].AnswerWith(harness.Status(http.StatusInternalServerError))
			}
		})
	}
}

// A stream that is cancelled before its first delta is charged what may have been produced by then.
func TestAudit_L2_CancelledBeforeTheFirstDelta(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := harness.New(t, harness.World{Mock: mock.Config{TokensPerSecond: 40}, Pool: harness.Pool(1_000_000, 0, 0), Tenants: []tenants.Tenant{harness.Tenant("a", 1)}})
		s.Call(t.Context(), "a", harness.Chat(true, 400, "")) // 40 tokens a second is learned
		before := s.Charged("a", "output")
		for name, tt := range map[string]struct {
			after time.Duration
			most  int
			want  int64
		}{
			"soon":  {2500 * time.Millisecond, 4000, 100},
			"bound": {90 * time.Second, 1000, 1000},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), tt.after)
			if ans := s.Call(ctx, "a", harness.Chat(true, tt.most, `,"mock":{"first_token_ms":100000}`)); ans.Err == nil {
				t.Errorf("%s: answered with %d %s", name, ans.Status, ans.Body)
			}
			cancel()
			synctest.Wait()
			took := s.Charged("a", "output") - before
			before += took
			if took < tt.want || took > tt.want+10 {
				t.Errorf("%s: %d tokens are charged, want %d", name, took, tt.want)
			}
		}
	})
}

// A stream that the upstream ends before its first delta is charged its prompt.
func TestAudit_L2_OutagesAreFree(t *testing.T) {
	s := sockets.New(t, sockets.World{Upstream: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})})
	s.Post("/v1/chat/completions", sockets.Chat(`,"stream":true`))
	s.WaitIdle()
	if took := s.Charged("output"); took != 0 {
		t.Errorf("%d tokens are charged", took)
	}
}
