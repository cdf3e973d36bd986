package objects

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/llmgov/llmgov/internal/test/e2e/harness/sockets"
	"github.com/llmgov/llmgov/tenants"
)

// newGrantedStack has a tenant that may use one model of several, and every route.
func newGrantedStack(t *testing.T) *sockets.Stack {
	t.Helper()
	return sockets.New(t, sockets.World{
		Pool: sockets.Pool(func(p *tenants.Pool) { p.Models = []string{"*"} }),
		Tenants: []tenants.Tenant{sockets.Tenant("acme", func(t *tenants.Tenant) {
			sockets.Granted(t)
			t.DefaultPool = "main"
			t.Models = []string{"gpt-4o"}
			t.MaxOutputTokens = 100
			t.ServiceTiers = []string{"flex"}
			t.LowerTiers = true
		})},
	})
}

// refuses sends bodies of which none may reach the upstream.
func refuses(s *sockets.Stack, t *testing.T, path string, status int, bodies ...string) {
	t.Helper()
	for _, body := range bodies {
		before := s.Seen.Count()
		got, text := s.SendAs("acme", http.MethodPost, path, "application/json", body)
		if got != status || s.Seen.Count() != before {
			t.Errorf("%s: %d %s, want %d, and nothing sent", body, got, text, status)
		}
	}
}

// A tool that asks a model, or would take the provider's default, needs a model that is granted.
func TestAudit_M5_ToolsNameGrantedModels(t *testing.T) {
	s := newGrantedStack(t)
	tools := func(tool string) string {
		return `{"model":"gpt-4o","input":"x","messages":[{"role":"user","content":"x"}],"tools":[` + tool + `]}`
	}
	for _, path := range []string{"/v1/responses", "/v1/chat/completions", "/v1/messages"} {
		refuses(s, t, path, http.StatusBadRequest,
			tools(`{"type":"image_generation"}`),
			tools(`{"type":"Image_Generation"}`),
			tools(`{"type":"image_generation","model":null}`),
			tools(`{"type":"image_generation","Model":"gpt-4o"}`),
			tools(`{"type":"image_generation","model":"gpt-4o","model":null}`),
			tools(`{"type":"advisor_20260301"}`),
			tools(`{"type":"namespace","tools":[{"type":"advisor_20260301","name":"a"}]}`),
			tools(`{"type":"openrouter:image_generation","parameters":{}}`),
			tools(`{"type":"openrouter:fusion","parameters":{"model":"gpt-4o","analysis_models":[]}}`),
			tools(`{"type":"openrouter:fusion","parameters":{"model":"gpt-4o","model":"gpt-4o"}}`),
		)
		refuses(s, t, path, http.StatusForbidden,
			tools(`{"type":"image_generation","model":"gpt-image-1"}`),
			tools(`{"type":"advisor_20260301","model":"o3"}`),
		)
	}
	for _, tool := range []string{
		`{"type":"image_generation","model":"gpt-4o"}`,
		`{"type":"advisor_20260301","model":"gpt-4o"}`,
		`{"type":"function","function":{"name":"image_generation","parameters":{}}}`,
		`{"type":"function","name":"advisor_20260301","parameters":{"type":"object"}}`,
	} {
		s.SendOK("acme", http.MethodPost, "/v1/chat/completions", tools(tool))
	}
}

// The graders of a fine-tuning job ask models, too, also those that are parts of others.
func TestAudit_M5_GradersNameGrantedModels(t *testing.T) {
	s := newGrantedStack(t)
	mine := makeAll(s, "acme")
	job := func(grader string) string {
		return `{"model":"gpt-4o","training_file":"` + mine["file"] + `","method":{"type":"reinforcement","reinforcement":{"grader":` + grader + `}}}`
	}
	refuses(s, t, "/v1/fine_tuning/jobs", http.StatusForbidden,
		job(`{"type":"score_model","model":"o3"}`),
		job(`{"type":"score_model","m\u006fdel":"o3"}`),
		job(`{"type":"score_model","Model":"o3","model":"gpt-4o"}`),
		job(`{"type":"multi","graders":{"a":{"type":"label_model","model":"o3"},"b":{"type":"score_model","model":"gpt-4o"}}}`),
		job(`{"type":"multi","graders":[{"type":"multi","graders":[{"type":"label_model","model":"o3"}]}]}`),
	)
	for _, grader := range []string{
		`{"type":"score_model","model":"gpt-4o","name":"x"}`,
		`{"type":"multi","graders":{"model":{"type":"label_model","model":"gpt-4o"}}}`,
	} {
		s.SendOK("acme", http.MethodPost, "/v1/fine_tuning/jobs", job(grader))
	}
}

// References to what is of the whole account at the provider lead nowhere; the provider's own skills and
// stored prompts stay.
func TestAudit_M5_ReferencesToTheAccount(t *testing.T) {
	s := newGrantedStack(t)
	chat := func(more string) string {
		return `{"model":"gpt-4o","messages":[{"role":"user","content":"x"}],"input":"x",` + more + `}`
	}
	for _, path := range []string{"/v1/messages", "/v1/responses", "/v1/chat/completions"} {
		refuses(s, t, path, http.StatusNotFound,
			chat(`"container":{"skills":[{"type":"custom","skill_id":"skill_01"}]}`),
			chat(`"container":{"skills":[{"skill_id":"skill_01"}]}`),
			chat(`"container":{"skills":[{"type":"anthropic","type":"custom","skill_id":"skill_01"}]}`),
			chat(`"container":{"skills":[{"Type":"anthropic","skill_id":"skill_01"}]}`),
			chat(`"tools":[{"type":"shell","environment":{"skills":[{"type":"skill_reference","skill_id":"skill_01"}]}}]`),
			chat(`"cached_content":"cachedContents/1"`),
			chat(`"extra_body":{"google":{"cached_content":"cachedContents/1"}}`),
		)
		refuses(s, t, path, http.StatusBadRequest, chat(`"Cached_Content":"cachedContents/1"`), chat(`"container":{"skills":[{"Skill_ID":"skill_01"}]}`))
		for _, more := range []string{
			`"container":{"skills":[{"type":"anthropic","skill_id":"pptx","version":"latest"}]}`,
			`"prompt":{"id":"pmpt_1"}`,
		} {
			s.SendOK("acme", http.MethodPost, path, chat(more))
		}
	}
}

// extra_body has no second place for what is governed in the body.
func TestAudit_M6_ExtraBody(t *testing.T) {
	s := newGrantedStack(t)
	chat := func(extra string) string {
		return `{"model":"gpt-4o","messages":[{"role":"user","content":"x"}],"input":"x","extra_body":{` + extra + `}}`
	}
	for _, path := range []string{"/v1/responses", "/v1/chat/completions", "/v1/messages"} {
		refuses(s, t, path, http.StatusBadRequest,
			chat(`"max_tokens":5000`), chat(`"max_completion_tokens":5000`), chat(`"max_output_tokens":5000`), chat(`"n":500`), chat(`"best_of":9`),
			chat(`"stream":true`), chat(`"stream_options":{}`), chat(`"Max_Tokens":5000`), chat(`"max_\u0074okens":5000`), chat(`"a":1,"background":true`),
			chat(`"store":true`), chat(`"conversation":"conv_1"`), chat(`"prompt":["a","b"]`), chat(`"extra_body":{}`),
		)
	}
	_, text := s.SendAs("acme", http.MethodPost, "/v1/chat/completions", "application/json", chat(`"n":500`))
	if want := `extra_body holds \"n\". Write it into the body itself.`; !strings.Contains(text, want) {
		t.Errorf("the message is %s, want %s", text, want)
	}
	s.SendOK("acme", http.MethodPost, "/v1/chat/completions", chat(`"top_k":5,"models":["gpt-4o"],"model":"gpt-4o"`))
}

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
		s.SendOK("acme", http.MethodPost, "/v1/chat/completions", body)
		s.WaitIdle()
		st := s.Mock.Stats()
		state, _ := s.Governor.TenantState("acme")
		if got, want := state.Budgets[0].Used, st.TokensProduced*micros; got != want {
			t.Errorf("with %q %d millionths of a dollar are charged, want %d", fields, got, want)
		}
	}
}
