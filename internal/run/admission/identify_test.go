package admission_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/ops/telemetry"
	"github.com/llmgov/llmgov/internal/run/admission"
	"github.com/llmgov/llmgov/internal/run/policy"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/tenants"
)

// TestIdentify_Token: wherever a key counts a token does, beside keys; what is wrong with one is told to the operator alone.
func TestIdentify_Token(t *testing.T) {
	private := testkit.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	key := jose.JSONWebKey{Key: private, KeyID: "1", Algorithm: "ES256"}
	signer := testkit.Must(jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, nil))(t)
	long := strings.Repeat("a", 250)
	token := func(org, sub string, last time.Duration) string {
		claims := testkit.Must(json.Marshal(map[string]any{"iss": "https://id", "aud": "llmgov", "sub": sub, "org": org, "exp": time.Now().Add(last).Unix()}))(t)
		return testkit.Must(testkit.Must(signer.Sign(claims))(t).CompactSerialize())(t)
	}
	cfg := tenants.DefaultConfig()
	cfg.Upstreams = []tenants.Upstream{{Name: "up", BaseURL: "http://up/v1"}}
	pool := tenants.DefaultPool("p")
	pool.Models = []string{"*"}
	pool.TPM = 1000
	cfg.Pools = []tenants.Pool{pool}
	keys := string(testkit.Must(json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{key.Public()}}))(t))
	cfg.Identity = tenants.Identity{Tenant: "{org}", Issuers: []tenants.Issuer{{Issuer: "https://id", Audience: "llmgov", JWKS: "keys.json", Keys: keys, Algorithms: []string{"ES256"}}}}
	snap := testkit.Must(tenants.Build(cfg, []tenants.Tenant{{Name: "acme", Members: &tenants.Members{By: tenants.MemberBy{Source: tenants.ByClaim, Of: "sub"}}}, {
		Name: "keys", Members: &tenants.Members{By: tenants.MemberBy{Source: tenants.ByKey}},
		Keys: []tenants.Key{{Hash: tenants.HashKey("sk-ci"), Name: "ci"}, {Hash: tenants.HashKey("sk-sub"), Name: "sub:ci"}},
	}, {Name: "beta", Keys: []tenants.Key{{Hash: tenants.HashKey("sk-1")}}}}))(t)
	told := 0
	ctl := admission.New(admission.Options{
		Snapshot: snap, Governor: testkit.Must(governor.New(policy.Governor(snap)))(t), Metrics: telemetry.New(), TokenRefused: func(error) { told++ },
	})
	for _, c := range []struct {
		name, credential, tenant, counted string
		told                              int
	}{
		{"a key", "sk-1", "beta", "beta", 0},
		{"an unknown key", "sk-2", "", "", 0},
		{"a token", token("acme", "ann", time.Hour), "acme", "acme/~ann", 0},
		{"a token that is over", token("acme", "ann", -time.Hour), "", "", 0},
		{"a token of nobody", token("none", "ann", time.Hour), "", "", 1},
		{"a key by its name", "sk-ci", "keys", "keys/~key:ci", 0},
		{"a token whose subject is a key's name", token("keys", "ci", time.Hour), "keys", "keys/~key:sub:ci", 0},
		{"a key that is named as such a token", "sk-sub", "keys", "keys/~key:" + tenants.MemberOf("key sub:ci"), 0},
		{"a long subject", token("keys", long+"1", time.Hour), "keys", "keys/~key:" + tenants.MemberOf("sub:"+long+"1"), 0},
	} {
		told = 0
		var call admission.Call
		call.Begin(t.Context(), ctl, ctl.Policy(), "req-1")
		refused := call.Identify(c.credential, "")
		call.Ask.Header = map[string][]string{"Sub": {"bob"}} // says nothing
		if refused == nil && call.Counted() != c.counted {
			t.Errorf("%s: counts as %s, want %s", c.name, call.Counted(), c.counted)
		}
		call.Close()
		if got := call.Tenant; (refused == nil) != (c.tenant != "") || got != nil && got.Name != c.tenant || told != c.told {
			t.Errorf("%s: tenant %v, refused %v, told %d times; want %q", c.name, got, refused, told, c.tenant)
		}
		if name, ok := ctl.TenantOf(c.credential); name != c.tenant || ok != (c.tenant != "") {
			t.Errorf("%s: TenantOf finds %q, want %q", c.name, name, c.tenant)
		}
	}
}
