package grants

import (
	"strings"
	"testing"

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
