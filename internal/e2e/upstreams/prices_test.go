package upstreams

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"

	"github.com/llmgov/llmgov/internal/e2e/harness"
	"github.com/llmgov/llmgov/internal/mock"
	"github.com/llmgov/llmgov/tenants"
)

// A call costs what the upstream that served it takes, in budgets and in the log: nothing where capacity is provisioned, the price of
// the upstream on demand there, and that of the model at one that has no price. Before, it is held at the dearest.
func TestUpstreams_Prices(t *testing.T) {
	for name, limits := range map[string][3]int64{"with limits of their own": {1, 1, 1}, "without": {}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
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
		})
	}
}
