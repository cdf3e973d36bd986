package dialect

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/run/admission/ask"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/tenants"
)

func TestErrorEvent(t *testing.T) {
	f := ask.Refusal{Status: 502, Code: ask.CodeUpstream, Message: "It broke off."}
	const detail = `{"message":"It broke off.","type":"upstream_error","param":null,"code":"upstream_error"}`
	for _, tt := range []struct {
		name string
		d    *Dialect
		want string
	}{
		{"openai", OpenAI, `data: {"error":` + detail + "}\n\n"},
		{"responses", Responses, "event: error\n" +
			`data: {"type":"error","sequence_number":0,"code":"upstream_error","message":"It broke off.","param":null,"error":` + detail + "}\n\n"},
		{"anthropic", Anthropic, "event: error\n" + `data: {"type":"error","error":{"type":"api_error","message":"It broke off.","code":"upstream_error"}}` + "\n\n"},
	} {
		if got := string(tt.d.ErrorEvent(&f)); got != tt.want {
			t.Errorf("%s:\n got %q\nwant %q", tt.name, got, tt.want)
		}
	}
}

// Agents end at the third overload, so only a full queue or memory is one.
func TestAnthropicType(t *testing.T) {
	for _, tt := range []struct {
		status int
		code   string
		want   string
	}{
		{503, ask.CodeDraining, "api_error"},
		{503, ask.CodeStore, "api_error"},
		{503, ask.CodeUpstream, "api_error"},
		{503, ask.CodeOverloaded, "overloaded_error"},
		{502, ask.CodeUpstream, "api_error"},
		{504, ask.CodeUpstreamLate, "timeout_error"},
		{500, ask.CodeInternal, "api_error"},
		{429, ask.CodeRate, "rate_limit_error"},
		{402, ask.CodeBudget, "billing_error"},
		{400, ask.CodeInvalid, "invalid_request_error"},
		{426, ask.CodeInvalid, "invalid_request_error"},
	} {
		if got := anthropicType(&ask.Refusal{Status: tt.status, Code: tt.code}); got != tt.want {
			t.Errorf("%d %s is %s, want %s", tt.status, tt.code, got, tt.want)
		}
	}
}

// A value that lacks something would panic at the first refusal, and a path of two dialects would be
// answered in either.
func TestAll_AreWhole(t *testing.T) {
	paths := map[string]string{}
	for _, d := range All {
		if d.Name == "" || d.ErrorBody == nil || d.ErrorEvent == nil || len(d.Routes) == 0 {
			t.Errorf("%q lacks something: %+v", d.Name, d)
		}
		for _, r := range d.Routes {
			if other := paths[r.Path]; other != "" {
				t.Errorf("%s is a route of %s and of %s", r.Path, other, d.Name)
			}
			paths[r.Path] = d.Name
		}
	}
	kinds := map[string]bool{}
	for _, p := range Providers {
		if p.Kind == "" || p.Convention == "" || p.KeyHeader == "" || kinds[p.Kind] {
			t.Errorf("%q lacks something, or is there twice: %+v", p.Kind, p)
		}
		kinds[p.Kind] = true
		if ProviderOf(p.Kind) != p {
			t.Errorf("%q is not found by its kind", p.Kind)
		}
	}
	for _, kind := range []string{tenants.OpenAI, tenants.Azure, tenants.Anthropic} {
		if !kinds[kind] {
			t.Errorf("policies have upstreams of kind %q, and there is no such provider", kind)
		}
	}
}

// A reset is told in whole seconds, and never too early: who comes back then is served.
func TestResetIsNotToldTooEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, reset := range []time.Duration{0, time.Millisecond, 300 * time.Millisecond, time.Second, 1500 * time.Millisecond, time.Minute} {
			time.Sleep(130 * time.Millisecond)
			h := http.Header{}
			Anthropic.ShowRate(h, Tokens, governor.Quota{Limit: 10, Reset: reset}, time.Now())
			at := testkit.Must(time.Parse(time.RFC3339, h.Get("Anthropic-Ratelimit-Tokens-Reset")))(t)
			if late := at.Sub(time.Now().Add(reset)); late < 0 || late >= time.Second {
				t.Errorf("a reset in %v is told %v late", reset, late)
			}
		}
	})
}
