package report

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/llmgov/llmgov/internal/ops/adminapi"
	"github.com/llmgov/llmgov/internal/test/testkit"
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

// TestCheck_LimitsThatOneCallFills: a limit that a call without max_tokens fills is noted once, with its place, however many have it.
func TestCheck_LimitsThatOneCallFills(t *testing.T) {
	key := func(name string) string { return tenants.HashKey(name).String() }
	for what, c := range map[string]struct {
		pool, policy string
		want         []string // how each note begins
	}{
		"a tier's": {
			"tpm: 300000", "tiers: {free: {tpm: 4000}}\ntenants: {a: {tier: free, keys: [" + key("a") + "]}, b: {tier: free, keys: [" + key("b") + "]}}",
			[]string{"tenants/a.yaml:1: tpm 4,000 is filled by one call without max_tokens, which is held at 4,096 (default_max_output of pool a)"},
		},
		"with room":             {"tpm: 300000", "tenants: {a: {tpm: 4097, keys: [" + key("a") + "]}}", nil},
		"bounded answers":       {"tpm: 300000", "tenants: {a: {tpm: 4000, max_output_tokens: 1024, keys: [" + key("a") + "]}}", nil},
		"of prompts":            {"tpm: 300000", "tenants: {a: {itpm: 4000, keys: [" + key("a") + "]}}", nil},
		"bounded, and less":     {"tpm: 300000", "tenants: {a: {otpm: 1024, max_output_tokens: 1024, keys: [" + key("a") + "]}}", []string{"tenants/a.yaml:1: otpm 1,024 is filled by one call without max_tokens, which is held at 1,024"}},
		"the pool's default":    {"tpm: 300000, default_max_output: 500", "tenants: {a: {tpm: 4000, keys: [" + key("a") + "]}}", nil},
		"the pool":              {"tpm: 4096", "tenants: {a: {keys: [" + key("a") + "]}}", []string{"llmgov.yaml:2: tpm 4,096"}},
		"a department and team": {"tpm: 300000", "tenants: {a: {tpm: 200, keys: [], teams: {x: {keys: [" + key("a") + "]}}}}", []string{"tenants/a.yaml:1: tpm 200"}},
		"in one pool":           {"tpm: 300000", "tenants: {a: {pools: {a: {tpm: 200}}, keys: [" + key("a") + "]}}", []string{"tenants/a.yaml:1: tpm 200"}},
		"over an hour":          {"tpm: 300000", "tenants: {a: {limits: [{tokens: 4000, per: 1h}], keys: [" + key("a") + "]}}", []string{"tenants/a.yaml:1: tokens 4,000"}},
		"a budget":              {"tpm: 300000", "tenants: {a: {budgets: [{tokens: 4000, per: day}], keys: [" + key("a") + "]}}", []string{"tenants/a.yaml:1: tokens 4,000"}},
	} {
		r := reportOf(t, oneUpstream+"pools: {a: {models: [a], "+c.pool+"}}\n", c.policy+"\n")
		var got []string
		for _, n := range r.Notes {
			if strings.Contains(n, "is filled by") {
				got = append(got, n)
			}
		}
		if len(got) != len(c.want) {
			t.Errorf("%s: notes %q, want %q", what, got, c.want)
			continue
		}
		for i, want := range c.want {
			if !strings.HasPrefix(got[i], want) {
				t.Errorf("%s: note %q, want %q", what, got[i], want)
			}
		}
	}
}

// A limit that moves is told as it is now, with what it may come to.
func TestAdaptiveLimitIsExplained(t *testing.T) {
	l := adminapi.ExplainedLimit{Of: "p", Kind: "pool", Pool: "p", Key: "concurrency", Axis: "concurrency", Limit: 32, Most: 256}
	if got := valueOf(&l); got != "32 (adaptive, up to 256)" {
		t.Errorf("it is told as %q", got)
	}
}

// Used and asked may be less than the limit, and the call wait all the same: that is said.
func TestPaceIsExplained(t *testing.T) {
	for _, c := range []struct {
		name       string
		kind       string
		left, wait float64
		want       bool
	}{
		{"a pool's pace", "pool", 500, 14, true},
		{"a pool that is full", "pool", 100, 14, false},
		{"a pool with room now", "pool", 500, 0, false},
		{"a tenant's own", "limit", 500, 14, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			used := 0.0
			decides := 0
			a := &Answer{Explanation: &adminapi.Explanation{
				Pool: "p", Decision: &adminapi.Decision{Outcome: "refuse", Limit: &decides},
				Limits: []adminapi.ExplainedLimit{{Of: "p", Kind: c.kind, Pool: "p", Key: "tpm", Asked: 400, Used: &used, Left: &c.left, Wait: &c.wait}},
			}}
			var out strings.Builder
			testkit.OK(t, a.Write(&out))
			if got := strings.Contains(out.String(), "\nNote: pool p has room in its minute"); got != c.want {
				t.Errorf("noted %v, want %v:\n%s", got, c.want, out.String())
			}
		})
	}
}

// A wait is rounded up: who comes back too early is refused again.
func TestSeconds(t *testing.T) {
	for s, want := range map[float64]string{
		0: "-", 0.0001: "0.1s", 0.5: "0.5s", 1.01: "1.1s", 9.99: "10.0s", 10: "10s", 59.1: "60s", 119.2: "120s", 120: "2m0s", 3661.5: "1h1m2s",
	} {
		if got := seconds(s); got != want {
			t.Errorf("%v is %s, want %s", s, got, want)
		}
	}
}

// What explain shows of a limit over another time: of a bucket it is not the amount in the time, but as much as it lets go at once.
func TestValueOf_Windows(t *testing.T) {
	for axis, want := range map[string]string{
		"tokens per 5h":                "1200 tokens per 5h",
		"tokens per 5h fixed_window":   "1200 tokens per 5h fixed_window",
		"tokens per 5h gcra":           "1200 at once of tokens per 5h gcra",
		"requests per 5h token_bucket": "1200 at once of requests per 5h token_bucket",
	} {
		if got := valueOf(&adminapi.ExplainedLimit{Of: "t", Kind: adminapi.KindLimit, Axis: axis, Limit: 1200}); got != want {
			t.Errorf("of %s it is %q, want %q", axis, got, want)
		}
	}
}

// An upstream that has room and is not chosen has a reason, too: which comes first depends on the one that is.
func TestUpstreamsWithRoom(t *testing.T) {
	list := []adminapi.ExplainedUpstream{{Name: "a"}, {Name: "b"}, {Name: "c", Order: 1}}
	for i := range list {
		list[i].State = adminapi.UpstreamRoom
	}
	for chosen, want := range map[string]string{
		"a": "the call goes here; has room; it is the turn of a; has room; comes after order 0",
		"c": "has room, but earlier calls wait for it; has room, but earlier calls wait for it; the call goes here",
		"":  "has room; has room; has room",
	} {
		a := &Answer{Explanation: &adminapi.Explanation{Upstreams: list, Decision: &adminapi.Decision{Upstream: chosen}}}
		var got []string
		for i := range list {
			got = append(got, a.stateOf(&list[i]))
		}
		if text := strings.Join(got, "; "); text != want {
			t.Errorf("with %q chosen: %s", chosen, text)
		}
	}
}
