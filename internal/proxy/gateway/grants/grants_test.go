package grants

import (
	"strings"
	"testing"

	"github.com/llmgov/llmgov/internal/lib/splice"
	"github.com/llmgov/llmgov/internal/proxy/gateway/head"
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
		f := Tiers(some, h)
		switch {
		case (f == nil) != (param == ""):
			t.Errorf("%s: %+v", members, f)
		case f != nil && (f.Status != 400 || f.Param != param || !strings.Contains(f.Message, "but for default, flex.")):
			t.Errorf("%s: %d %s: %s", members, f.Status, f.Param, f.Message)
		}
		if f := Tiers(&tenants.Tenant{Name: "any"}, h); f != nil {
			t.Errorf("%s is refused where all are allowed: %+v", members, f)
		}
	}
}

// TestTiers_Lowered: where others are lowered, the body asks for the usual tier, and the call for none; what it may name stays.
func TestTiers_Lowered(t *testing.T) {
	some := &tenants.Tenant{Name: "acme", ServiceTiers: []string{"flex"}, LowerTiers: true}
	for body, want := range map[string]struct{ tier, body string }{
		`{"model":"m"}`:                                       {"", `{"model":"m"}`},
		`{"model":"m","service_tier":"auto"}`:                 {"", `{"model":"m","service_tier":"auto"}`},
		`{"model":"m","service_tier":"flex"}`:                 {"flex", `{"model":"m","service_tier":"flex"}`},
		`{"service_tier": "priority","model":"m"}`:            {"", `{"service_tier": "default","model":"m"}`},
		`{"model":"m","service_tier":"prior\u0069ty" }`:       {"", `{"model":"m","service_tier":"default" }`},
		`{"model":"m","service_tier":"made up"}`:              {"", `{"model":"m","service_tier":"default"}`},
		`{"model":"m","speed":"fast"}`:                        {"", `{"model":"m","speed":"standard"}`},
		`{"model":"m","speed":1.5}`:                           {"", `{"model":"m","speed":1.5}`},
		`{"speed":"fast","model":"m","service_tier":"flex"}`:  {"flex", `{"speed":"standard","model":"m","service_tier":"flex"}`},
		`{"service_tier":"flex","model":"m","speed":"fast"}`:  {"flex", `{"service_tier":"flex","model":"m","speed":"standard"}`},
		`{"service_tier":"scale","model":"m","speed":"fast"}`: {"", `{"service_tier":"default","model":"m","speed":"standard"}`},
	} {
		h, err := head.Read([]byte(body))
		if err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		for range 2 { // a call may begin again
			if f := Tiers(some, h); f != nil {
				t.Errorf("%s is refused: %+v", body, f)
			}
			edits := h.Lowered(nil)
			splice.Sort(edits)
			if got := string(splice.Copy([]byte(body), edits)); got != want.body || h.Tier != want.tier {
				t.Errorf("%s becomes %s, of tier %q", body, got, h.Tier)
			}
		}
		if Tiers(&tenants.Tenant{Name: "any"}, h); len(h.Lowered(nil)) > 0 {
			t.Errorf("%s stays lowered under a policy that allows all", body)
		}
	}
}
