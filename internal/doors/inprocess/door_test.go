package inprocess_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/governor/client"
	"github.com/llmgov/llmgov/governor/client/doors"
	sizes "github.com/llmgov/llmgov/governor/tokens"
	"github.com/llmgov/llmgov/internal/doors/inprocess"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/internal/test/testkit/admissiontest"
	"github.com/llmgov/llmgov/tenants"
)

// asked holds 100 tokens.
var asked = client.Request{ID: "req-1", Tenant: "acme", Model: "gpt-4o", InputTokens: 60, MaxOutput: 40}

func open(t testing.TB, change func(*tenants.Pool, *tenants.Tenant)) (*client.Client, *governor.Governor) {
	t.Helper()
	cfg, list := policy(change)
	ctl := admissiontest.Build(t, cfg, list...)
	return doors.Open(inprocess.New(ctl), doors.Options{}), ctl.Governor()
}

// policy is a pool with three tenants.
func policy(change func(*tenants.Pool, *tenants.Tenant)) (tenants.Config, []tenants.Tenant) {
	cfg := tenants.DefaultConfig()
	cfg.Upstreams = []tenants.Upstream{{Name: "openai", BaseURL: "https://api.openai.com/v1"}}
	pool := tenants.DefaultPool("gpt")
	pool.Models = []string{"gpt-*"}
	acme := tenants.Tenant{Name: "acme", Keys: []tenants.Key{{Hash: tenants.HashKey("sk-acme")}}, Models: []string{"gpt-4o"}, Routes: tenants.RouteInference}
	if change != nil {
		change(&pool, &acme)
	}
	cfg.Pools = []tenants.Pool{pool}
	keyless := tenants.Tenant{Name: "keyless", Keys: []tenants.Key{}, Models: []string{"gpt-4o"}, Routes: tenants.RouteInference}
	team := tenants.Tenant{Name: "keyless/team", Keys: []tenants.Key{{Hash: tenants.HashKey("sk-team")}}, Models: []string{"gpt-4o"}, Routes: tenants.RouteInference}
	return cfg, []tenants.Tenant{acme, keyless, team}
}

func tokens(gov *governor.Governor) int64 {
	return gov.Standing("acme", "gpt").Tokens.Limit - gov.Standing("acme", "gpt").Tokens.Remaining
}

// TestDoor_Holds: a call is held by whatever is known of its prompt, and one of which nothing is known as one that refers to something of
// unknown size: by the pool's default, then by what such calls have taken.
func TestDoor_Holds(t *testing.T) {
	text := strings.Repeat("A prompt of some words that nobody has counted. ", 200) // 9,600 bytes
	body, err := json.Marshal(map[string]any{"model": "gpt-4o", "messages": []map[string]string{{"role": "user", "content": text}}})
	if err != nil {
		t.Fatal(err)
	}
	const assumed = 3000
	for name, c := range map[string]struct {
		ask         client.Request
		least, most int64
	}{
		"tokens":                {client.Request{InputTokens: 60}, 60, 60},
		"tokens beside a body":  {client.Request{InputTokens: 60, Body: body}, 60, 60},
		"a size":                {client.Request{InputSize: sizes.Size{sizes.Text: 500 * sizes.Scale}}, 500, 500},
		"a size beside a body":  {client.Request{InputSize: sizes.Size{sizes.Text: 500 * sizes.Scale}, Body: body}, 500, 500},
		"a body":                {client.Request{Body: body}, 1500, 4000},
		"nothing":               {client.Request{}, assumed, assumed},
		"nothing, an embedding": {client.Request{NoOutput: true}, assumed, assumed},
		"free":                  {client.Request{Free: true}, 0, 0},
	} {
		governed, gov := open(t, func(p *tenants.Pool, _ *tenants.Tenant) {
			p.TPM = 10_000_000
			p.DefaultMaxOutput = assumed
		})
		c.ask.Tenant = "acme"
		c.ask.Model = "gpt-4o"
		answer := int64(40)
		if c.ask.NoOutput || c.ask.Free {
			answer = 0
		}
		c.ask.MaxOutput = answer
		hold := func() int64 {
			before := tokens(gov)
			l, err := governed.Reserve(t.Context(), c.ask)
			if err != nil {
				t.Fatal(err)
			}
			defer l.End(client.End{Usage: client.Usage{Input: 700}, Reported: true})
			return tokens(gov) - before - answer
		}
		if n := hold(); n < c.least || n > c.most {
			t.Errorf("%s: %d tokens are held for the prompt, not %d to %d", name, n, c.least, c.most)
		}
		for range 40 {
			hold()
		}
		if n := hold(); c.least == assumed && (n < 600 || n > 800) {
			t.Errorf("%s: %d tokens are held, when calls have taken 700 each", name, n)
		}
	}
}

// TestDoor_Instead: models that may answer in place of another are granted to the tenant, as the gateway has it.
func TestDoor_Instead(t *testing.T) {
	cfg, list := policy(func(p *tenants.Pool, acme *tenants.Tenant) {
		p.TPM = 600_000
		acme.Models = []string{"gpt-4o", "gpt-4o-mini", "far"}
	})
	far := tenants.DefaultPool("elsewhere")
	far.Models = []string{"far"}
	cfg.Pools = append(cfg.Pools, far)
	ctl := admissiontest.Build(t, cfg, list...)
	for name, c := range map[string]struct {
		pool    string
		instead []string
		status  int
	}{
		"granted":                           {"", []string{"gpt-4o-mini", "gpt-4o"}, 0},
		"not granted":                       {"", []string{"gpt-5"}, http.StatusForbidden},
		"not granted, the last":             {"", []string{"gpt-4o-mini", "gpt-5"}, http.StatusForbidden},
		"not granted, by a pool":            {"gpt", []string{"gpt-5"}, http.StatusForbidden},
		"nobody's":                          {"", []string{"none"}, http.StatusNotFound},
		"none":                              {"", []string{""}, http.StatusNotFound},
		"of another pool":                   {"", []string{"far"}, http.StatusBadRequest},
		"of another pool, but counted here": {"gpt", []string{"far"}, 0},
	} {
		req := asked
		req.Pool = c.pool
		req.Instead = c.instead
		l, err := doors.Open(inprocess.New(ctl), doors.Options{}).Reserve(t.Context(), req)
		if r, _ := errors.AsType[*client.Refusal](err); c.status != 0 && (r == nil || r.Status != c.status) || c.status == 0 && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if l != nil {
			l.Close()
		}
	}
	if n, _ := ctl.Governor().Leases(); n > 0 {
		t.Errorf("%d leases are left", n)
	}
}

func answer(context.Context, *client.Lease) (client.Usage, error) {
	return client.Usage{Input: 50, Output: 5}, nil
}

// Those who may not call at all are told why.
func TestDoor_BadInput(t *testing.T) {
	governed, gov := open(t, nil)
	for name, c := range map[string]struct {
		spoil  func(*client.Request)
		status int
		code   string
	}{
		"unknown tenant":    {func(r *client.Request) { r.Tenant = "nobody" }, 401, "invalid_api_key"},
		"no tenant":         {func(r *client.Request) { r.Tenant = "" }, 401, "invalid_api_key"},
		"without keys":      {func(r *client.Request) { r.Tenant = "keyless" }, 403, "invalid_api_key"},
		"unknown key":       {func(r *client.Request) { r.Tenant = ""; r.Key = "sk-wrong" }, 401, "invalid_api_key"},
		"two names":         {func(r *client.Request) { r.Key = "sk-acme" }, 400, "invalid_request_error"},
		"unknown model":     {func(r *client.Request) { r.Model = "claude" }, 404, "model_not_found"},
		"not granted":       {func(r *client.Request) { r.Model = "gpt-5" }, 403, "model_not_allowed"},
		"pool, not granted": {func(r *client.Request) { r.Model = "gpt-5"; r.Pool = "gpt" }, 403, "model_not_allowed"},
		"unknown pool":      {func(r *client.Request) { r.Pool = "none" }, 404, "model_not_found"},
		"no model":          {func(r *client.Request) { r.Model = "" }, 400, "invalid_request_error"},
		"negative":          {func(r *client.Request) { r.InputTokens = -1 }, 400, "invalid_request_error"},
		"absurd":            {func(r *client.Request) { r.InputTokens = 1 << 60 }, 400, "invalid_request_error"},
	} {
		req := asked
		c.spoil(&req)
		_, err := governed.Reserve(t.Context(), req)
		r, ok := errors.AsType[*client.Refusal](err)
		if !ok || r.Status != c.status || string(r.Code) != c.code || r.Message == "" {
			t.Errorf("%s: %+v", name, err)
		}
	}
	if n, _ := gov.Leases(); n > 0 {
		t.Errorf("%d leases are left", n)
	}
}

// A call in this process allocates what it holds, its lease and the context of that, and nothing that grows with the call.
func TestDoor_Allocations(t *testing.T) {
	governed, _ := open(t, func(p *tenants.Pool, _ *tenants.Tenant) { p.TPM = 1e12 })
	req := asked
	ctx := t.Context()
	if n := testkit.Allocs(t, 100, func() { _ = governed.Do(ctx, req, answer) }); n > 5 {
		t.Errorf("%v allocations for a call, more than for its lease", n)
	}
}
