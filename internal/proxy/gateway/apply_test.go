package gateway

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/governor/terms"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/internal/test/testkit/admissiontest"
	"github.com/llmgov/llmgov/tenants"
)

// rules are a policy: tenants with the models that they may use, and pools with those
// that they serve. A tenant's name is its key.
type rules struct {
	tenants, pools map[string]string
	zone           string
	upstream       string // its host, and its key
	routes         tenants.Routes
	tiers          []string // for which calls may ask; they are lowered to these
}

var before = rules{
	tenants: map[string]string{"acme": "m", "other": "m"},
	pools:   map[string]string{"p": "m"},
}

func (r rules) snapshot(t *testing.T) *tenants.Snapshot {
	t.Helper()
	cfg := tenants.DefaultConfig()
	host := cmp.Or(r.upstream, "upstream")
	cfg.Upstreams = []tenants.Upstream{{Name: "u", BaseURL: "http://" + host + "/v1", APIKey: "key-of-" + host}}
	cfg.Timezone = cmp.Or(r.zone, "UTC")
	for name, models := range r.pools {
		p := tenants.DefaultPool(name)
		p.Concurrency = 100
		for _, model := range strings.Fields(models) {
			alias, real, aliased := strings.Cut(model, "=")
			if aliased {
				p.Aliases = append(p.Aliases, tenants.Alias{Name: alias, Model: real})
			} else {
				p.Models = append(p.Models, model)
			}
		}
		cfg.Pools = append(cfg.Pools, p)
	}
	var list []tenants.Tenant
	for name, models := range r.tenants {
		list = append(list, tenants.Tenant{
			Name: name, Tier: "t", Keys: []tenants.Key{{Hash: tenants.HashKey(name)}}, Models: strings.Fields(models), Routes: r.routes,
			ServiceTiers: r.tiers, LowerTiers: r.tiers != nil, MaxOutputTokens: int64(9 * len(r.tiers)),
			Budgets: []tenants.Budget{{Unit: tenants.Tokens, Limit: 1_000_000, Per: tenants.Day}},
		})
	}
	snap := testkit.Must(tenants.Build(cfg, list))(t)
	return snap
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// answerOK is an upstream that answers each call with a few tokens.
func answerOK(r *http.Request) (*http.Response, error) {
	if _, err := io.ReadAll(r.Body); err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
		Body: io.NopCloser(strings.NewReader(`{"usage":{"prompt_tokens":7,"completion_tokens":5,"total_tokens":12}}`)),
	}, nil
}

func newGateway(t *testing.T, r rules, upstream transport) *Gateway {
	t.Helper()
	g := testkit.Must(New(Options{Admission: admissiontest.New(t, r.snapshot(t)), Log: slog.New(slog.DiscardHandler), Transport: upstream}))(t)
	return g
}

// bodyAfter is a body during whose reading something happens.
type bodyAfter struct {
	happens func()
	io.Reader
}

func (b *bodyAfter) Read(p []byte) (int, error) {
	if b.happens != nil {
		b.happens()
		b.happens = nil
	}
	return b.Reader.Read(p)
}

// askMeanwhile sends acme's call for m, and does something while its body is read.
func askMeanwhile(g *Gateway, meanwhile func()) (status int, body string) {
	r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", &bodyAfter{meanwhile, strings.NewReader(`{"model":"m","max_tokens":9}`)})
	r.Header.Set("Authorization", "Bearer acme")
	w := httptest.NewRecorder()
	g.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// counted is who there are requests of, with how many.
func counted(t *testing.T, g *Gateway) string {
	t.Helper()
	families := testkit.Must(g.metrics.Registry().Gather())(t)
	var out []string
	for _, f := range families {
		if f.GetName() != "llmgov_requests_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			if n := m.GetCounter().GetValue(); n > 0 {
				by := map[string]string{}
				for _, l := range m.GetLabel() {
					by[l.GetName()] = l.GetValue()
				}
				out = append(out, fmt.Sprintf("%s/%s %s%s %v", by["tenant"], by["pool"], by["outcome"], by["reason"], n))
			}
		}
	}
	return strings.Join(out, ", ")
}

// The policy changes while a call's body comes in. Who is in both policies notices
// nothing; all others are told the truth. Seen to fail without looking at Hold, and
// without looking at ReasonUnknown.
func TestApply_MeanwhileABodyComes(t *testing.T) {
	for name, c := range map[string]struct {
		after   []rules
		status  int
		counted string
	}{
		"nothing":         {[]rules{before}, 200, "acme/p ok 1"},
		"another tenant":  {[]rules{{tenants: map[string]string{"acme": "m", "new": "m"}, pools: before.pools}}, 200, "acme/p ok 1"},
		"a pool renamed":  {[]rules{{tenants: before.tenants, pools: map[string]string{"q": "m"}}}, 200, "acme/q ok 1"},
		"a pool split":    {[]rules{{tenants: before.tenants, pools: map[string]string{"p": "x", "q": "m"}}}, 200, "acme/q ok 1"},
		"the tenant gone": {[]rules{{tenants: map[string]string{"other": "m"}, pools: before.pools}}, 401, "/ refusedinvalid_api_key 1"},
		"the model granted no more": {
			[]rules{{tenants: map[string]string{"acme": "x", "other": "m"}, pools: map[string]string{"p": "m", "q": "x"}}},
			403, "acme/ refusedmodel_not_allowed 1",
		},
		"the model gone": {[]rules{{tenants: map[string]string{"acme": "*"}, pools: map[string]string{"q": "x"}}}, 404, "acme/ refusedmodel_not_found 1"},
		// Its account is another one by then, and it is to count in that.
		"the tenant gone and back": {[]rules{{tenants: map[string]string{"other": "m"}, pools: before.pools}, before}, 200, "acme/p ok 1"},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGateway(t, before, answerOK)
			status, body := askMeanwhile(g, func() {
				for _, r := range c.after {
					if err := g.Apply(r.snapshot(t)); err != nil {
						t.Error(err)
					}
				}
			})
			if got := counted(t, g); status != c.status || got != c.counted {
				t.Errorf("status %d, counted %q, want %d, %q: %s", status, got, c.status, c.counted, body)
			}
			if running, waiting := g.gov.Leases(); running+waiting != 0 {
				t.Errorf("%d run, %d wait", running, waiting)
			}
		})
	}
}

// TestLoweredTiers: beside what else is edited in a body, a tier of service that is not allowed becomes the usual one, or is taken out.
func TestLoweredTiers(t *testing.T) {
	sent := ""
	policy := rules{tenants: map[string]string{"acme": "*"}, pools: map[string]string{"p": "m alias=real"}, tiers: []string{"flex"}}
	g := newGateway(t, policy, func(r *http.Request) (*http.Response, error) {
		body, _ := io.ReadAll(r.Body)
		sent = string(body)
		return answerOK(r)
	})
	for _, c := range []struct{ path, body, sent string }{
		{"/v1/chat/completions", `{"service_tier":"priority","model":"alias","stream":true,"max_tokens":90}`, `{"stream_options":{"include_usage":true},"service_tier":"default","model":"real","stream":true,"max_tokens":9}`},
		{"/v1/chat/completions", `{"speed":"fast","model":"alias","stream":true}`, `{"max_completion_tokens":9,"stream_options":{"include_usage":true},"model":"real","stream":true}`},
		{"/v1/responses", `{"model":"m","speed":"fast","service_tier":"priority"}`, `{"max_output_tokens":9,"model":"m","service_tier":"default"}`},
		{"/v1/messages", `{"max_tokens":90,"speed":"fast","service_tier":"priority","model":"alias"}`, `{"max_tokens":9,"speed":"standard","service_tier":"standard_only","model":"real"}`},
		{"/v1/embeddings", `{"service_tier":"priority","model":"alias"}`, `{"model":"real"}`},
	} {
		r := httptest.NewRequest(http.MethodPost, c.path, strings.NewReader(c.body))
		r.Header.Set("Authorization", "Bearer acme")
		w := httptest.NewRecorder()
		g.ServeHTTP(w, r)
		if w.Code != http.StatusOK || sent != c.sent {
			t.Errorf("%s %s: %d, the upstream gets %s, want %s", c.path, c.body, w.Code, sent, c.sent)
		}
	}
}

// In between, the governor knows the new policy and the gateway does not yet: a call
// that comes then waits for it.
func TestApply_InBetween(t *testing.T) {
	g := newGateway(t, before, answerOK)
	after := rules{tenants: before.tenants, pools: map[string]string{"q": "m"}}.snapshot(t)
	status, body := askMeanwhile(g, func() {
		g.telling.Lock() // which taking over the policy waits for
		go func() {
			if err := g.Apply(after); err != nil {
				t.Error(err)
			}
		}()
		for known := false; !known; {
			_, known = g.gov.Explain(governor.Request{Tenant: "acme", Pool: "q"})
			runtime.Gosched()
		}
		go func() {
			defer g.telling.Unlock()
			for range 1000 { // the call goes on meanwhile
				runtime.Gosched()
			}
		}()
	})
	if status != 200 {
		t.Errorf("status %d: %s", status, body)
	}
}

// A policy that the governor refuses changes nothing, and leaves no series.
func TestApply_Refused(t *testing.T) {
	g := newGateway(t, before, answerOK)
	bad := rules{tenants: map[string]string{"acme": "m", "new": "m"}, pools: map[string]string{"p": "m", "q": "x"}}.snapshot(t)
	bad.Pools()[1].HeadroomPPM = 1_000_000
	had := g.Snapshot()
	if err := g.Apply(bad); err == nil || !strings.Contains(err.Error(), "headroom") {
		t.Errorf("Apply: %v", err)
	}
	if status, body := askMeanwhile(g, nil); status != 200 || g.Snapshot() != had {
		t.Errorf("status %d: %s", status, body)
	}
	families := testkit.Must(g.metrics.Registry().Gather())(t)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetValue() == "new" || l.GetValue() == "q" {
					t.Errorf("there is %s%v", f.GetName(), m.GetLabel())
				}
			}
		}
	}
}

// Another address and key of an upstream are for calls that come from then on.
func TestApply_Upstream(t *testing.T) {
	var asked []string
	g := newGateway(t, rules{tenants: before.tenants, pools: map[string]string{"p": "m=real-model"}}, func(r *http.Request) (*http.Response, error) {
		asked = append(asked, r.URL.Host+" "+r.Header.Get("Authorization"))
		return answerOK(r)
	})
	after := rules{tenants: before.tenants, pools: before.pools, upstream: "other"}
	askMeanwhile(g, func() {
		if err := g.Apply(after.snapshot(t)); err != nil {
			t.Error(err)
		}
	})
	askMeanwhile(g, nil)
	if want := []string{"upstream Bearer key-of-upstream", "other Bearer key-of-other"}; !slices.Equal(asked, want) {
		t.Errorf("asked %q, want %q", asked, want)
	}
}

// Budgets go on in the zone in which they have begun.
func TestApply_Zone(t *testing.T) {
	g := newGateway(t, before, answerOK)
	testkit.OK(t, g.Apply(rules{tenants: before.tenants, pools: before.pools, zone: "Asia/Tokyo"}.snapshot(t)))
	if at := g.gov.State().Tenants[0].Budgets[0].Resets.UTC(); at.Hour() != 0 {
		t.Errorf("a day ends at %v", at)
	}
}

// What an upstream refused counts once it is known how much was used, and not before: with a store that does not answer, it is kept.
func TestMoveLimits_KeepsRefusals(t *testing.T) {
	for _, shared := range []bool{false, true} {
		snap := before.snapshot(t)
		cfg := *snap.Config()
		cfg.Pools = slices.Clone(cfg.Pools)
		cfg.Pools[0].TPM = 100
		cfg.Pools[0].Ranges[terms.Tokens] = tenants.Range{Max: 900, Adaptive: tenants.AdaptiveThrottles}
		ctl := admissiontest.New(t, testkit.Must(tenants.Build(cfg, snap.Tenants()))(t), func(c *governor.Config) { c.Shared = shared })
		g := testkit.Must(New(Options{Admission: ctl, Log: slog.New(slog.DiscardHandler)}))(t)
		p := g.world.Load().pools[0]
		p.Overloaded.Store(true)
		g.moveLimits(p)
		if kept := p.Overloaded.Load(); kept != shared {
			t.Errorf("with a store (%t) the refusal is kept: %t", shared, kept)
		}
	}
}
