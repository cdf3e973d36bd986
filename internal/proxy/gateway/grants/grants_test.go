package grants

import (
	"strings"
	"testing"

	"github.com/llmgov/llmgov/internal/lib/splice"
	"github.com/llmgov/llmgov/internal/proxy/gateway/head"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/tenants"
)

// TestTiers: a tenant asks for the tiers of service that it may have, whichever key names them, and for the usual one.
func TestTiers(t *testing.T) {
	some := &tenants.Tenant{Name: "acme", ServiceTiers: []string{"default", "flex"}}
	for members, param := range map[string]string{
		``:                                           "",
		`,"service_tier":"flex"`:                     "",
		`,"service_tier":"auto"`:                     "",
		`,"service_tier":"standard_only"`:            "",
		`,"service_tier":null`:                       "",
		`,"speed":1.5`:                               "", // of speech
		`,"service_tier":"priority"`:                 "service_tier",
		`,"service_tier":"prior\u0069ty"`:            "service_tier",
		`,"service_tier":"FLEX"`:                     "service_tier",
		`,"service_tier":"made up"`:                  "service_tier",
		`,"service_tier":""`:                         "service_tier",
		`,"speed":"fast"`:                            "speed",
		`,"speed":"fast","service_tier":"flex"`:      "speed",
		`,"service_tier":"scale","speed":"standard"`: "service_tier",
	} {
		h, err := head.Read([]byte(`{"model":"m"` + members + `}`))
		if err != nil {
			t.Fatalf("%s: %v", members, err)
		}
		f := (&Scope{Tenant: some}).Tiers("", h)
		switch {
		case (f == nil) != (param == ""):
			t.Errorf("%s: %+v", members, f)
		case f != nil && (f.Status != 400 || f.Param != param || !strings.Contains(f.Message, "but for default, flex.")):
			t.Errorf("%s: %d %s: %s", members, f.Status, f.Param, f.Message)
		}
		if f := (&Scope{Tenant: &tenants.Tenant{Name: "any"}}).Tiers("", h); f != nil {
			t.Errorf("%s is refused where all are allowed: %+v", members, f)
		}
	}
}

// TestTiers_Lowered: where others are lowered, the body asks for the usual tier by the word of its dialect, or by none where the route or an
// upstream has no such word, and the call for none; what it may name stays.
func TestTiers_Lowered(t *testing.T) {
	some := &tenants.Tenant{Name: "acme", ServiceTiers: []string{"flex"}, LowerTiers: true}
	const (
		openAI = "https://api.openai.com/v1"
		groq   = "https://api.groq.com/openai/v1"
		google = "https://generativelanguage.googleapis.com/v1beta/openai"
	)
	for _, c := range []struct{ base, path, body, sent, tier string }{
		{openAI, "/chat/completions", `{"model":"m"}`, `{"model":"m"}`, ""},
		{openAI, "/chat/completions", `{"model":"m","service_tier":"auto"}`, `{"model":"m","service_tier":"auto"}`, ""},
		{groq, "/chat/completions", `{"model":"m","service_tier":"flex"}`, `{"model":"m","service_tier":"flex"}`, "flex"},
		{openAI, "/chat/completions", `{"service_tier": "priority","model":"m"}`, `{"service_tier": "default","model":"m"}`, ""},
		{openAI, "/responses", `{"model":"m","service_tier":"prior\u0069ty" }`, `{"model":"m","service_tier":"default" }`, ""},
		{"http://127.0.0.1:8000/v1", "/responses", `{"model":"m","service_tier":"made up"}`, `{"model":"m","service_tier":"default"}`, ""},
		{"https://bedrock-runtime.us-west-2.amazonaws.com/openai/v1", "/chat/completions", `{"model":"m","service_tier":"reserved"}`, `{"model":"m","service_tier":"default"}`, ""},
		{openAI, "/messages", `{"model":"m","service_tier":"priority"}`, `{"model":"m","service_tier":"standard_only"}`, ""},
		{openAI, "/messages", `{"model":"m","speed":"fast"}`, `{"model":"m","speed":"standard"}`, ""},
		{openAI, "/messages", `{"speed":"fast","model":"m","service_tier":"flex"}`, `{"speed":"standard","model":"m","service_tier":"flex"}`, "flex"},
		{openAI, "/messages", `{"service_tier":"scale","model":"m","speed":"fast"}`, `{"service_tier":"standard_only","model":"m","speed":"standard"}`, ""},
		{openAI, "/audio/speech", `{"model":"m","speed":1.5}`, `{"model":"m","speed":1.5}`, ""},
		// what has no word for it
		{openAI, "/chat/completions", `{"service_tier":"flex","model":"m","speed":"fast"}`, `{"service_tier":"flex","model":"m"}`, "flex"},
		{openAI, "/chat/completions", `{"service_tier":"scale","speed":"fast","model":"m"}`, `{"service_tier":"default","model":"m"}`, ""},
		{openAI, "/embeddings", `{"model":"m" , "service_tier" : "priority" , "input":"x"}`, `{"model":"m"  , "input":"x"}`, ""},
		{openAI, "/messages/count_tokens", `{"model":"m","service_tier":"priority"}`, `{"model":"m"}`, ""},
		{groq, "/chat/completions", `{"service_tier":"performance","model":"m"}`, `{"model":"m"}`, ""},
		{groq, "/chat/completions", `{ "service_tier":"performance" , "speed":"fast", "model":"m"}`, `{ "model":"m"}`, ""},
		{google, "/chat/completions", `{"service_tier":"x","model":"m","speed":"fast"}`, `{"model":"m"}`, ""},
		{google, "/chat/completions", `{"model":"m","service_tier":"x","speed":"fast"}`, `{"model":"m"}`, ""},
		{google, "/chat/completions", `{"service\u005ftier":"x","speed":"fast"}`, `{"speed":null}`, ""},
		{google, "/chat/completions", `{"service_tier":"x"}`, `{"service_tier":null}`, ""},
		{google, "/files", `{"model":"m","service_tier":"x"}`, `{"model":"m"}`, ""},
	} {
		cfg := tenants.DefaultConfig()
		cfg.Upstreams = []tenants.Upstream{{Name: "u", BaseURL: c.base}, {Name: "another", BaseURL: groq}}
		cfg.Pools = []tenants.Pool{tenants.DefaultPool("p")}
		cfg.Pools[0].Models = []string{"m"}
		cfg.Pools[0].TPM = 1000
		cfg.Pools[0].Upstreams = []tenants.PoolUpstream{{Name: "u"}}
		snap := testkit.Must(tenants.Build(cfg, []tenants.Tenant{{Name: "acme", Tier: "t", Keys: []tenants.Key{{Hash: tenants.HashKey("k")}}}}))(t)
		scope := Scope{Snapshot: snap, Tenant: some, Pool: &snap.Pools()[0]}
		h, err := head.Read([]byte(c.body))
		if err != nil {
			t.Fatalf("%s: %v", c.body, err)
		}
		for range 2 { // a call may begin again
			if f := scope.Tiers(c.path, h); f != nil {
				t.Errorf("%s is refused: %+v", c.body, f)
			}
			if got := string(splice.Copy([]byte(c.body), h.Lowered(nil))); got != c.sent || h.Tier != c.tier {
				t.Errorf("to %s%s %s becomes %s, of tier %q", c.base, c.path, c.body, got, h.Tier)
			}
		}
		scope.Tenant = &tenants.Tenant{Name: "any"}
		if scope.Tiers("", h); len(h.Lowered(nil)) > 0 {
			t.Errorf("%s stays lowered under a policy that allows all", c.body)
		}
	}
}
