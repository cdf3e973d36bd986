package objects

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/llmgov/llmgov/internal/e2e/harness/sockets"
	"github.com/llmgov/llmgov/tenants"
)

// A body leads to no model that its caller may not use, and to none whose limits are elsewhere.
func TestOtherModelsAreTheCallersToo(t *testing.T) {
	s := sockets.New(t, sockets.World{
		Pool: sockets.Pool(func(p *tenants.Pool) {
			p.Models = []string{"small", "big", "nickname"}
			p.Aliases = []tenants.Alias{{Name: "nickname", Model: "big"}}
		}),
		Tenants: []tenants.Tenant{
			sockets.Tenant("acme", func(t *tenants.Tenant) { t.Models = []string{"small", "big", "nickname", "elsewhere"} }),
			sockets.Tenant("other", func(t *tenants.Tenant) { t.Models = []string{"small"} }),
		},
		Config: func(c *tenants.Config) {
			more := sockets.Pool(func(p *tenants.Pool) {
				p.Name = "more"
				p.Models = []string{"elsewhere"}
			})
			c.Pools = append(c.Pools, more)
		},
	})
	for _, c := range []struct {
		fields      string
		acme, other int
	}{
		{`"models":["small","big"]`, 200, 403},
		{`"fallbacks":[{"model":"big"}]`, 200, 403},
		{`"providerOptions":{"gateway":{"models":["big"]}}`, 200, 403},
		{`"tools":[{"type":"advisor_20260301","name":"advisor","model":"big"}]`, 200, 403},
		{`"models":["small"],"route":"fallback"`, 200, 200},
		{`"route":"fallback"`, 400, 400},
		{`"models":["nickname"]`, 400, 403},
		{`"models":["elsewhere"]`, 400, 403},
		{`"tools":[{"type":"image_generation","model":"elsewhere"}]`, 200, 403},
		{`"models":["nowhere"]`, 404, 404},
	} {
		for _, route := range []string{"/v1/chat/completions", "/v1/responses"} {
			body := `{"model":"small","messages":[{"role":"user","content":"hi"}],"input":"hi",` + c.fields + `}`
			for tenant, want := range map[string]int{"acme": c.acme, "other": c.other} {
				if status, text := s.SendAs(tenant, http.MethodPost, route, "application/json", body); status != want {
					t.Errorf("%s of %s at %s: %d, want %d: %s", c.fields, tenant, route, status, want, text)
				}
			}
		}
	}
}

// A call that dearer models may answer is held, and charged, at their price.
func TestOtherModelsArePaidFor(t *testing.T) {
	for fields, micros := range map[string]int64{"": 1, `,"models":["big"]`: 100, `,"tools":[{"type":"t","model":"big"}]`: 1} {
		s := sockets.New(t, sockets.World{
			Pool: sockets.Pool(func(p *tenants.Pool) { p.Models = []string{"small", "big"} }),
			Tenants: []tenants.Tenant{sockets.Tenant("acme", func(t *tenants.Tenant) {
				t.Budgets = []tenants.Budget{{Unit: tenants.MicroUSD, Limit: 1e12, Per: tenants.Day}}
			})},
			Config: func(c *tenants.Config) {
				for name, usd := range map[string]int64{"small": 1e6, "big": 1e8} {
					c.Prices = append(c.Prices, tenants.ModelPrice{Model: name, Price: tenants.Price{Input: usd, CachedInput: usd, Output: usd}})
				}
			},
		})
		body := fmt.Sprintf(`{"model":"small","messages":[{"role":"user","content":%q}]%s}`, strings.Repeat("hi ", 50), fields)
		if status, text := s.SendAs("acme", http.MethodPost, "/v1/chat/completions", "application/json", body); status != http.StatusOK {
			t.Fatalf("%s: %d %s", fields, status, text)
		}
		s.WaitIdle()
		st := s.Mock.Stats()
		state, _ := s.Governor.TenantState("acme")
		if got, want := state.Budgets[0].Used, st.TokensProduced*micros; got != want {
			t.Errorf("with %q %d millionths of a dollar are charged, want %d", fields, got, want)
		}
	}
}
