package identity

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/tenants"
)

const spacing = 50 * time.Millisecond

// provider is an identity provider: it has keys, and can be asked for them.
type provider struct {
	*httptest.Server
	asked atomic.Int64 // for its keys

	mu   sync.Mutex
	keys []jose.JSONWebKey
}

func newProvider(t *testing.T) *provider {
	p := &provider{}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"issuer": %q, "jwks_uri": %q}`, p.URL, p.URL+"/keys")
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		p.asked.Add(1)
		_, _ = w.Write(p.published())
	})
	p.Server = httptest.NewServer(mux)
	t.Cleanup(p.Close)
	p.rotate(t)
	return p
}

// rotate makes a new key, by which tokens are signed from now on, and withdraws the one before the last.
func (p *provider) rotate(t *testing.T) {
	key := testkit.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keys = append(p.keys[max(0, len(p.keys)-1):], jose.JSONWebKey{Key: key, KeyID: fmt.Sprint(time.Now().UnixNano()), Algorithm: "ES256"})
}

func (p *provider) published() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	var set jose.JSONWebKeySet
	for _, k := range p.keys {
		set.Keys = append(set.Keys, k.Public())
	}
	data, _ := json.Marshal(set)
	return data
}

// token signs claims, with iss, aud and exp unless they say otherwise.
func (p *provider) token(t *testing.T, claims map[string]any) string {
	t.Helper()
	p.mu.Lock()
	key := p.keys[len(p.keys)-1]
	p.mu.Unlock()
	return sign(t, jose.SigningKey{Algorithm: jose.ES256, Key: key}, p.claims(claims))
}

func (p *provider) claims(more map[string]any) map[string]any {
	all := map[string]any{"iss": p.URL, "aud": []string{"other", "llmgov"}, "sub": "ann", "exp": time.Now().Add(time.Hour).Unix(), "org": "acme"}
	for name, value := range more {
		all[name] = value
	}
	return all
}

func sign(t *testing.T, by jose.SigningKey, claims map[string]any) string {
	t.Helper()
	signer := testkit.Must(jose.NewSigner(by, nil))(t)
	signed := testkit.Must(signer.Sign(testkit.Must(json.Marshal(claims))(t)))(t)
	return testkit.Must(signed.CompactSerialize())(t)
}

func policy(t *testing.T) *tenants.Snapshot {
	t.Helper()
	cfg := tenants.DefaultConfig()
	cfg.Upstreams = []tenants.Upstream{{Name: "up", BaseURL: "http://up/v1"}}
	pool := tenants.DefaultPool("p")
	pool.Models = []string{"*"}
	pool.TPM = 1000
	cfg.Pools = []tenants.Pool{pool}
	var list []tenants.Tenant
	tiers := map[string]string{"acme": "pro", "acme/ads": "free", "acme/search": "pro", "acme/search/old": "free"}
	for i, name := range []string{"acme", "acme/search", "acme/search/old", "acme-2", "acme/ads", "guests", "beta"} { // the policy's order
		list = append(list, tenants.Tenant{Name: name, Tier: tiers[name], Keys: []tenants.Key{{Hash: tenants.HashKey(fmt.Sprint("key-", i))}}})
	}
	return testkit.Must(tenants.Build(cfg, list))(t)
}

func config(p *provider) tenants.Identity {
	return tenants.Identity{
		Issuers: []tenants.Issuer{{Issuer: p.URL, Audience: "llmgov", Algorithms: []string{"RS256", "ES256"}, Leeway: time.Minute}},
		Tenant:  "{org}", Team: "{groups}",
	}
}

// TestWho: a token's claims name its tenant and its team, whichever comes first in the policy; without a team the tenant itself.
func TestWho(t *testing.T) {
	p := newProvider(t)
	snap := policy(t)
	nested := config(p)
	nested.Tenant = "{realm.org}"
	pointed := config(p)
	pointed.Tenant = "{kubernetes.io.namespace}"
	around := config(p)
	around.Tenant = "a{org}"
	guests := config(p)
	guests.Default = "guests"
	plans := config(p)
	plans.Tier = "{plan}"
	for _, c := range []struct {
		config tenants.Identity
		claims map[string]any
		want   string
	}{
		{config(p), nil, "acme"},
		{config(p), map[string]any{"groups": []string{"ads", "x", "search"}}, "acme/search"},
		{config(p), map[string]any{"groups": "search"}, "acme/search"},
		{config(p), map[string]any{"groups": []any{7, "x", ""}}, "acme"},
		{config(p), map[string]any{"org": []string{"none", "beta", "guests"}}, "guests"},
		{config(p), map[string]any{"org": "none"}, ""},
		{config(p), map[string]any{"org": map[string]any{"acme": true}}, ""},
		{config(p), map[string]any{"org": nil}, ""},
		{nested, map[string]any{"realm": map[string]any{"org": "beta"}}, "beta"},
		{nested, map[string]any{"realm": "beta"}, ""},
		{pointed, map[string]any{"kubernetes.io": map[string]any{"namespace": "beta"}}, "beta"},
		{around, map[string]any{"org": "cme"}, "acme"},
		{guests, map[string]any{"org": "none"}, "guests"},
		{guests, nil, "acme"},
		{plans, nil, "acme"},
		{plans, map[string]any{"plan": "pro"}, "acme"},
		{plans, map[string]any{"plan": "free"}, "acme/search/old"}, // the first of two
		{plans, map[string]any{"plan": []string{"gold", "free"}, "groups": "ads"}, "acme/ads"},
		{plans, map[string]any{"plan": "free", "groups": "search"}, "acme/search/old"},
		{plans, map[string]any{"plan": "pro", "groups": "ads"}, ""},
		{plans, map[string]any{"plan": "gold"}, ""},
		{plans, map[string]any{"plan": 3}, ""},
		{plans, map[string]any{"plan": []string{}}, ""},
		{plans, map[string]any{"plan": []string{}, "org": "beta"}, ""}, // which has no tier
		{plans, map[string]any{"plan": "", "org": "beta"}, ""},
		{plans, map[string]any{"plan": 5, "org": "beta"}, ""},
		{plans, map[string]any{"plan": "pro", "org": "beta"}, ""},
	} {
		who, key, err := New(c.config, nil).Who(t.Context(), snap, p.token(t, c.claims))
		switch {
		case c.want == "" && err == nil:
			t.Errorf("%v by %q: tenant %s, want none", c.claims, c.config.Tenant, who.Name)
		case c.want != "" && (err != nil || who.Name != c.want || key.Name != "ann" || key.Expires.IsZero()):
			t.Errorf("%v by %q: %v, %v, %v; want %s", c.claims, c.config.Tenant, who, key, err, c.want)
		}
		all, ok := Claims(p.token(t, c.claims))
		if named, why, err := Explain(&c.config, snap, all); !ok || (err == nil) != (c.want != "") || err == nil && (named != who || why == "") {
			t.Errorf("%v by %q is explained as of %v, %q, %v; want %s", c.claims, c.config.Tenant, named, why, err, c.want)
		}
	}
}

// TestGroups: a token has the groups of its claim, whatever tenant it is of.
func TestGroups(t *testing.T) {
	p := newProvider(t)
	roles := config(p)
	roles.Groups = "{realm_access.roles}"
	for _, c := range []struct {
		config tenants.Identity
		claims map[string]any
		want   string
	}{
		{config(p), map[string]any{"groups": []string{"b", "a"}}, "ann [b a]"},
		{config(p), map[string]any{"org": "none", "sub": "", "groups": "a"}, "somebody [a]"},
		{roles, map[string]any{"groups": "a", "realm_access": map[string]any{"roles": []string{"ops"}}}, "ann [ops]"},
		{roles, nil, "ann []"},
		{config(p), map[string]any{"groups": "a", "exp": time.Now().Add(-time.Hour).Unix()}, " []"},
		{tenants.Identity{}, map[string]any{"groups": "a"}, " []"},
	} {
		user, issuer, groups, err := New(c.config, nil).Groups(t.Context(), p.token(t, c.claims))
		if got := fmt.Sprint(user, " ", groups); got != c.want || (err == nil) == (user == "") || (err == nil) != (issuer == p.URL) {
			t.Errorf("%v: %s, %v; want %s", c.claims, got, err, c.want)
		}
	}
}

// TestWho_Refuses: a token that is not of the issuer, for somebody else, over or forged is refused, also beside a valid one that was seen.
func TestWho_Refuses(t *testing.T) {
	p := newProvider(t)
	other := newProvider(t)
	snap := policy(t)
	c := newChecker(config(p), spacing, time.Now)
	good := p.token(t, nil)
	testkit.Must(c.check(t.Context(), good))(t)
	head, rest, _ := strings.Cut(good, ".")
	body, signature, _ := strings.Cut(rest, ".")
	part := func(claims string) string { return base64.RawURLEncoding.EncodeToString([]byte(claims)) }
	changed := part(strings.Replace(string(testkit.Must(base64.RawURLEncoding.DecodeString(body))(t)), "acme", "beta", 1))
	public := testkit.Must(json.Marshal(p.keys[0].Public()))(t)
	for name, token := range map[string]string{
		"a key":                          "sk-1",
		"another issuer":                 other.token(t, nil),
		"another issuer's key":           other.token(t, map[string]any{"iss": p.URL}),
		"another audience":               p.token(t, map[string]any{"aud": "wiki"}),
		"no audience":                    p.token(t, map[string]any{"aud": []string{}}),
		"over":                           p.token(t, map[string]any{"exp": time.Now().Add(-2 * time.Minute).Unix()}),
		"endless":                        p.token(t, map[string]any{"exp": nil}),
		"not yet":                        p.token(t, map[string]any{"nbf": time.Now().Add(time.Hour).Unix()}),
		"no algorithm":                   part(`{"alg":"none"}`) + "." + body + ".",
		"no signature":                   head + "." + body + ".",
		"changed claims":                 head + "." + changed + "." + signature,
		"a secret that is no secret":     sign(t, jose.SigningKey{Algorithm: jose.HS256, Key: public}, p.claims(nil)),
		"an algorithm that does not fit": part(`{"alg":"RS256"}`) + "." + body + "." + signature,
		"too long":                       p.token(t, map[string]any{"pad": strings.Repeat("x", mostToken)}),
	} {
		if who, _, err := c.Who(t.Context(), snap, token); err == nil {
			t.Errorf("%s: is %s", name, who.Name)
		}
	}
	if _, _, err := c.Who(t.Context(), snap, good); err != nil {
		t.Errorf("the valid token: %v", err)
	}
	if _, _, err := (*Checker)(nil).Who(t.Context(), snap, good); !errors.Is(err, ErrNoToken) {
		t.Errorf("without issuers: %v", err)
	}
}

// TestWho_Ends: a token that was seen is over at its end and the leeway, and not before.
func TestWho_Ends(t *testing.T) {
	p := newProvider(t)
	now := time.Now()
	c := newChecker(config(p), spacing, func() time.Time { return now })
	token := p.token(t, map[string]any{"exp": now.Add(10 * time.Minute).Unix()})
	for after, ok := range map[time.Duration]bool{0: true, 10*time.Minute + 58*time.Second: true, 11*time.Minute + time.Second: false} {
		now = time.Now().Add(after)
		if _, err := c.check(t.Context(), token); (err == nil) != ok || !ok && !errors.Is(err, ErrExpired) {
			t.Errorf("after %s: %v, want %t", after, err, ok)
		}
	}
}

// TestWho_Rotation: tokens by a new key are good at once, however many come, and keys that nobody has make the provider be asked seldom.
func TestWho_Rotation(t *testing.T) {
	p := newProvider(t)
	c := newChecker(config(p), spacing, time.Now)
	testkit.Must(c.check(t.Context(), p.token(t, nil)))(t)
	began := time.Now()
	before := p.asked.Load()
	p.rotate(t)
	forged := sign(t, jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: testkit.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t), KeyID: "none"}}, p.claims(nil))
	var calls sync.WaitGroup
	for i := range 20 {
		calls.Go(func() {
			if i%2 == 0 {
				if _, err := c.check(t.Context(), p.token(t, map[string]any{"n": i})); err != nil {
					t.Errorf("a token by the new key: %v", err)
				}
				return
			}
			for range 3 {
				if _, err := c.check(t.Context(), forged); err == nil {
					t.Error("a token by a key that nobody has is good")
				}
			}
		})
	}
	calls.Wait()
	if asked, most := p.asked.Load()-before, int64(time.Since(began)/spacing)+1; asked > most {
		t.Errorf("the provider was asked %d times in %s, want at most %d", asked, time.Since(began), most)
	}
}

// TestNew: a reload that changes nothing for tokens keeps what is known of them; keys from a file need no provider.
func TestNew(t *testing.T) {
	p := newProvider(t)
	c := New(config(p), nil)
	if New(config(p), c) != c {
		t.Error("a reload without a change has another checker")
	}
	file := config(p)
	file.Issuers[0].JWKS = "keys.json"
	odd := `{"keys": [{"kty": "EC", "crv": "secp256k1", "alg": "ES256K", "x": "AA", "y": "AA"}, {"kty": "oct", "k": "AA"}, {"kty": "AKP"}, 7,`
	file.Issuers[0].Keys = strings.Replace(string(p.published()), `{"keys":[`, odd, 1)
	token := p.token(t, nil)
	p.Close()
	other := New(file, c)
	if other == c {
		t.Error("a reload with a change has the same checker")
	}
	if _, err := other.check(t.Context(), token); err != nil {
		t.Errorf("with keys from a file: %v", err)
	}
	if New(tenants.Identity{}, c) != nil {
		t.Error("without issuers there is a checker")
	}
}

// Calls that come while the issuer does not answer wait for each other, and most of them for too long.
func TestSpaced_Late(t *testing.T) {
	p := newProvider(t)
	s := &spaced{every: time.Second, last: map[string]time.Time{}}
	ask := func(patience time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		resp, err := s.RoundTrip(testkit.Must(http.NewRequestWithContext(ctx, http.MethodGet, p.URL+"/keys", nil))(t))
		if err == nil {
			_ = resp.Body.Close()
		}
		return err
	}
	for range 100 {
		if err := ask(0); err == nil {
			t.Fatal("a request was sent whose time was over")
		}
	}
	if err := ask(5 * time.Second); err != nil {
		t.Error("requests that came too late took the turn of the next one:", err)
	}
}
