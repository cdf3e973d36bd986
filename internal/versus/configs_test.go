package main

import (
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/llmgov/llmgov/internal/testkit"
	"github.com/llmgov/llmgov/tenants"
)

// siteOfEverything has a tenant of each kind of limit.
func siteOfEverything(t *testing.T) *site {
	return &site{
		dir: t.TempDir(), model: &model{url: "http://127.0.0.1:1"}, store: "127.0.0.1:2", gateways: 2, rpm: 300,
		tenants: []tenant{unlimited, {name: "ten", calls: 10}, {name: "minute", rpm: 5, tpm: 7}},
	}
}

// TestConfigs_Llmgov: the comparison is not part of every test run, but its configuration stays a valid one.
func TestConfigs_Llmgov(t *testing.T) {
	s := siteOfEverything(t)
	testkit.Must(s.write("tenants.yaml", llmgovTenants(s)))(t)
	path := testkit.Must(s.write("llmgov.yaml", llmgovConfig(s, "127.0.0.1:3", "127.0.0.1:4")))(t)
	snap := testkit.Must(tenants.Load(path, tenants.Options{}))(t)
	ten, _, err := snap.Ask("ten", "gpt-4o")
	if err != nil || len(ten.Budgets) != 1 || ten.Budgets[0].Limit != 10 {
		t.Errorf("%+v, %v; want a budget of 10 calls", ten, err)
	}
}

// TestConfigs_Others: what the templates make is YAML, and has the limits.
func TestConfigs_Others(t *testing.T) {
	s := siteOfEverything(t)
	about := envoySite{Global: true, Port: "1", ModelPort: "2", RatePort: "3", Keys: envoyKeys(s)}
	var global, local, rates strings.Builder
	testkit.OK(t, envoyTemplate.Execute(&global, about))
	testkit.OK(t, rateLimitTemplate.Execute(&rates, about))
	about.Global = false
	testkit.OK(t, envoyTemplate.Execute(&local, about))
	for name, text := range map[string]string{
		"Envoy, global": global.String(), "Envoy, local": local.String(), "rate limit service": rates.String(), "LiteLLM": string(liteLLMConfig(s)),
	} {
		var any map[string]any
		if err := yaml.Unmarshal([]byte(text), &any); err != nil {
			t.Errorf("%s: %v in\n%s", name, err, text)
		}
	}
	for _, want := range []string{"{unit: day, requests_per_unit: 10}", "{unit: minute, requests_per_unit: 5}", "{unit: minute, requests_per_unit: 7}"} {
		if !strings.Contains(rates.String(), want) {
			t.Errorf("the rate limit service has no %s:\n%s", want, rates.String())
		}
	}
	if want := "{max_tokens: 10, tokens_per_fill: 10, fill_interval: 86400s}"; !strings.Contains(local.String(), want) {
		t.Errorf("Envoy has no bucket %s:\n%s", want, local.String())
	}
	keys, err := liteLLMKeys(s)
	if want := `"sk-minute-0123456789abcdef":{"key_alias":"minute","rpm_limit":5,"tpm_limit":7}`; err != nil || !strings.Contains(string(keys), want) {
		t.Errorf("LiteLLM's keys have no %s: %s, %v", want, keys, err)
	}
}

func TestParseCPU(t *testing.T) {
	const stat = "7 (a ) b) S 1 7 7 0 -1 4194304 2000 0 5 0 150 50 0 0 20 0 9 0 100 1000 500"
	if got, err := parseCPU(stat); err != nil || got != 2*time.Second {
		t.Errorf("%v, %v; want 2s", got, err)
	}
	if _, err := parseCPU("nonsense"); err == nil {
		t.Error("nonsense is no stat of a process")
	}
}

func TestTokensOf(t *testing.T) {
	const metrics = `llmgov_tokens_total{kind="input",pool="p",tenant="a",tier=""} 10
llmgov_tokens_total{kind="output",pool="p",tenant="a",tier=""} 5
llmgov_tokens_total{kind="held",pool="p",tenant="a",tier=""} 100
llmgov_tokens_total{kind="input",pool="p",tenant="b",tier=""} 1000
`
	if got, err := tokensOf(strings.NewReader(metrics), "a"); err != nil || got != 15 {
		t.Errorf("%d, %v; want 15", got, err)
	}
}
