package main

import (
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/tenants"
	"go.yaml.in/yaml/v3"
)

var update = flag.Bool("update", false, "write the tables of docs/comparison.json into docs/comparison.md")

// TestPage_HasTheFiguresOfTheRun: no figure of the page's tables is typed by hand.
func TestPage_HasTheFiguresOfTheRun(t *testing.T) {
	r := testkit.Must(readReport("../../../docs/comparison.json"))(t)
	if len(r.Tables) != len(cases) {
		t.Errorf("%d tables for %d cases", len(r.Tables), len(cases))
	}
	const path = "../../../docs/comparison.md"
	page := testkit.Must(os.ReadFile(path))(t)
	want := testkit.Must(withTables(string(page), tables(r)))(t)
	if *update {
		testkit.OK(t, os.WriteFile(path, []byte(want), 0o644))
		return
	}
	testkit.Same(t, want, string(page), "the page has other figures than comparison.json; go test ./internal/lab/versus -update writes these")
}

func TestTables(t *testing.T) {
	r := &report{Machine: "4 cores"}
	r.Gateways = []description{{Name: "a", Version: "1.2.3", Setting: "bare"}}
	f := r.table("x", "A case", "About it.", []string{"a", "b"})
	f.When = "1 May 2026, 10:00 UTC"
	f.Load = "0.10 to 2.00"
	f.Commit = "01234567"
	calls := f.row("calls", "")
	for _, n := range []float64{10, 12, 11} {
		calls.add(0, n)
	}
	calls.say(1, "no such limit")
	cpu := f.row("CPU", "ms")
	cpu.add(0, 0.126)
	cpu.add(0, 0.134)
	want := `Machine: 4 cores. A cell is the median of the rounds, with the least and the greatest if they differ.

| | version | how it was run |
|---|---|---|
| a | 1.2.3 | bare |

### A case

About it.

*1 May 2026, 10:00 UTC; load average 0.10 to 2.00; llmgov at commit 01234567.*

| | a | b |
|---|---|---|
| calls | 11 (10 … 12) | no such limit |
| CPU | 0.13 ms | – |
`
	testkit.Same(t, want, tables(r))
}

// TestReport_With: a run of some cases leaves the figures of the others as they were.
func TestReport_With(t *testing.T) {
	earlier := &report{Tables: []*figures{{Name: "budget"}, {Name: "hog", When: "before"}}}
	now := &report{Machine: "m", Tables: []*figures{{Name: "start"}, {Name: "hog", When: "now"}}}
	want := &report{Machine: "m", Tables: []*figures{{Name: "budget"}, {Name: "hog", When: "now"}, {Name: "start"}}}
	testkit.Same(t, want, now.with(earlier))
}

func TestWithTables(t *testing.T) {
	page := "before\n" + pageBegin + "old\n" + pageEnd + "after\n"
	got, err := withTables(page, "new\n")
	if want := strings.Replace(page, "old", "new", 1); err != nil || got != want {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	for _, bad := range []string{"", pageBegin, pageEnd + pageBegin} {
		if _, err := withTables(bad, "new\n"); err == nil {
			t.Errorf("%q has no place for figures", bad)
		}
	}
}

func TestInUnit(t *testing.T) {
	for _, c := range []struct {
		x    float64
		unit string
		want string
	}{
		{0.126, "ms", "0.13"},
		{12.34, "ms", "12.3"},
		{123.4, "ms", "123"},
		{-0.5, "ms", "-0.50"},
		{99.6, "%", "100"},
		{150, "calls", "150"},
		{2, "", "2"},
	} {
		if got := inUnit(c.x, c.unit); got != c.want {
			t.Errorf("%v %s: %s, want %s", c.x, c.unit, got, c.want)
		}
	}
}

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
