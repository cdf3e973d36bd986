package report

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/llmgov/llmgov/internal/testkit"
	"github.com/llmgov/llmgov/tenants"
)

// TestCheck_TwelveTeamsFitOnAScreen: the summary has a line for each tenant in each pool, in columns, and no more than a
// few others.
func TestCheck_TwelveTeamsFitOnAScreen(t *testing.T) {
	var policy strings.Builder
	policy.WriteString("tiers: {pro: {rpm: 600, tpm: 60000, concurrency: 16, max_wait: 5s, budgets: [{usd: 5000, per: month}]}}\ntenants:\n")
	for i := range 12 {
		fmt.Fprintf(&policy, "  team-%d: {tier: pro, weight: %d, keys: [%s]}\n", i, i+1, tenants.HashKey(fmt.Sprint(i)))
	}
	r := reportOf(t, oneUpstream+"pools: {a: {models: [a], tpm: 2000000}, b: {models: [b], rpm: 5000}}\nprices: {\"*\": {input: 1, output: 1}}\n", policy.String())
	var out strings.Builder
	testkit.OK(t, r.WriteSummary(&out))
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) > 24+14 {
		t.Errorf("%d lines:\n%s", len(lines), &out)
	}
	column := 0
	for _, l := range lines {
		if strings.HasPrefix(l, "  TENANT") {
			column = strings.Index(l, "SETTINGS")
		}
		if !strings.HasPrefix(l, "  team-") {
			continue
		}
		if at := strings.Index(l, "weight "); at != column {
			t.Errorf("settings begin in column %d, not %d: %s", at, column, l)
		}
		if !strings.Contains(l, "tpm 60,000") || !strings.Contains(l, "5,000 usd per month") {
			t.Errorf("without separators: %s", l)
		}
	}
}

// TestCheck_OwnKeysShareWithTeams: what the README says of acme, its own key and its teams.
func TestCheck_OwnKeysShareWithTeams(t *testing.T) {
	r := reportOf(t, oneUpstream+"pools: {a: {models: [a], tpm: 300000}}\n", fmt.Sprintf(
		"tenants: {acme: {keys: [%s], teams: {search: {weight: 3, keys: [%s]}, batch: {priority: background, keys: [%s]}}}}\n",
		tenants.HashKey("a"), tenants.HashKey("s"), tenants.HashKey("b")))
	got := map[string]float64{}
	for _, row := range r.Pools[0].Tenants {
		got[row.Name] = row.Share
	}
	if got["acme/search"] != 0.6 || got["acme/batch"] != 0.2 || got["acme"] != 0.2 {
		t.Errorf("shares are %v, want 0.6, 0.2 and 0.2", got)
	}
	readme := testkit.Must(os.ReadFile("../../../README.md"))(t)
	if !strings.Contains(string(readme), "# divide acme's share, 3 : 1 : 1 with acme's own key") {
		t.Error("README.md says something else")
	}
}

const oneUpstream = "upstreams: {o: {base_url: \"https://o/v1\"}}\n"

// reportOf is the report of a config, and of a policy.
func reportOf(t *testing.T, config, policy string) *Policy {
	t.Helper()
	snap := testkit.Must(tenants.LoadFS(fstest.MapFS{
		"llmgov.yaml":    &fstest.MapFile{Data: []byte(config)},
		"tenants/a.yaml": &fstest.MapFile{Data: []byte(policy)},
	}, "llmgov.yaml", tenants.Options{}))(t)
	return New("llmgov.yaml", snap, time.Now())
}

func TestGrouped(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "0": "0", "999": "999", "1000": "1,000", "297000": "297,000", "20000000 tokens per day": "20,000,000 tokens per day",
		"2500.5000 usd per month": "2,500.5000 usd per month", "0.01": "0.01", "5s": "5s", "admit_max": "admit_max",
	} {
		if got := grouped(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// TestCheck_UpstreamsOwnNames: the summary shows under which names each upstream is asked for a model, also with an order and of a
// pattern, and the JSON the weights beside them.
func TestCheck_UpstreamsOwnNames(t *testing.T) {
	r := reportOf(t, `upstreams: {o: {base_url: "https://o/v1"}, p: {base_url: "https://p/v1"}, q: {base_url: "https://q/v1"}}
pools:
  chat:
    models: [gpt-4o, {fast: mini}, "o*"]
    rpm: 60
    upstreams:
    - {name: o, weight: 3, order: 1, models: {gpt-4o: chat-eu-ptu}}
    - {name: p, weight: 2, order: 1, models: {mini: mini-us, o3: think}}
    - {name: q, weight: 5, order: 2}
`, "tenants: {a: {keys: ["+tenants.HashKey("a").String()+"]}}\n")
	const want = "Pool chat, upstreams o (3), p (2), then q (5), models gpt-4o (chat-eu-ptu at o, gpt-4o at p, gpt-4o at q), " +
		"fast (mini at o, mini-us at p, mini at q), o*, o3 (o3 at o, think at p, o3 at q)"
	if got := r.Pools[0].title(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	text := testkit.Must(json.Marshal(r.Pools[0].Upstreams))(t)
	const wantJSON = `[{"name":"o","weight":3,"order":1,"models":{"gpt-4o":"chat-eu-ptu"}},` +
		`{"name":"p","weight":2,"order":1,"models":{"mini":"mini-us","o3":"think"}},{"name":"q","weight":5,"order":2}]`
	if string(text) != wantJSON {
		t.Errorf("got  %s\nwant %s", text, wantJSON)
	}
}
