package report

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/llmgov/llmgov/governor/terms"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/tenants"
	"github.com/llmgov/llmgov/tenants/keyfile"
)

// TestNotes_Keys notes what has expired and what soon will, in the config's zone, and nothing else.
func TestNotes_Keys(t *testing.T) {
	now := time.Date(2026, 12, 20, 0, 0, 0, 0, time.UTC)
	key := func(name string, days int) tenants.Key {
		return tenants.Key{Hash: tenants.HashKey(name), Name: name, Expires: now.AddDate(0, 0, days)}
	}
	cfg := tenants.DefaultConfig()
	cfg.Timezone = "Asia/Tokyo"
	cfg.Upstreams = []tenants.Upstream{{Name: "o", BaseURL: "http://o"}}
	pool := tenants.DefaultPool("m", "m")
	pool.RPM = 1
	cfg.Pools = []tenants.Pool{pool}
	unnamed := key("", 1)
	snap := testkit.Must(tenants.Build(cfg, []tenants.Tenant{{Name: "acme", Keys: []tenants.Key{
		key("old", -1), key("now", 0), key("soon", 30), key("later", 31), unnamed, {Hash: tenants.HashKey("never")},
	}}}))(t)
	notes := expiring(snap, now)
	want := []string{
		"tenant acme: key " + unnamed.Hash.String()[:15] + "… expires at 2026-12-21T09:00:00+09:00; make another with llmgov keys new",
		"tenant acme: key now expired at 2026-12-20T09:00:00+09:00; remove it",
		"tenant acme: key old expired at 2026-12-19T09:00:00+09:00; remove it",
		"tenant acme: key soon expires at 2027-01-19T09:00:00+09:00; make another with llmgov keys new",
	}
	testkit.Same(t, want, notes, "notes")
	late := key("late", -2)
	notes = expiring(snap.WithKeys(keyfile.Content{
		Keys:    []keyfile.Entry{{Key: late, Tenant: "acme"}, {Key: key("mine", 2), Tenant: "acme"}},
		Revoked: []keyfile.Revoked{{Hash: unnamed.Hash}, {Hash: tenants.HashKey("old")}, {Hash: tenants.HashKey("now")}, {Hash: tenants.HashKey("soon")}},
	}), now)
	want = []string{
		"tenant acme: key " + late.Hash.ID() + " expired at 2026-12-18T09:00:00+09:00; revoke it",
		"tenant acme: key " + tenants.HashKey("mine").ID() + " expires at 2026-12-22T09:00:00+09:00; make another with llmgov keys new --tenant acme",
	}
	testkit.Same(t, want, notes, "notes of keys made at run time")
}

// TestReport_RuntimeKeys: a share has who can call, by whatever key, and nobody else.
func TestReport_RuntimeKeys(t *testing.T) {
	cfg := tenants.DefaultConfig()
	cfg.Upstreams = []tenants.Upstream{{Name: "o", BaseURL: "http://o"}}
	pool := tenants.DefaultPool("m", "m", "n")
	pool.TPM = 900
	pool.HeadroomPPM = 0
	cfg.Pools = []tenants.Pool{pool}
	key := func(name string) []tenants.Key { return []tenants.Key{{Hash: tenants.HashKey(name)}} }
	snap := testkit.Must(tenants.Build(cfg, []tenants.Tenant{
		{Name: "acme", Keys: key("a"), Models: []string{"m"}},
		{Name: "bob", Keys: key("b"), Models: []string{"m"}},
		{Name: "dora", Keys: key("d"), Weight: 2},
		{Name: "dora/team", Keys: key("t"), Weight: 2},
	}))(t)
	own := keyfile.Entry{Key: key("run")[0], Tenant: "dora"}
	for _, c := range []struct {
		keys keyfile.Content
		want string
	}{
		{keyfile.Content{}, "acme 1 225, bob 1 225, dora 1 150, dora/team 1 300, ; 0 notes"},
		{keyfile.Content{Revoked: []keyfile.Revoked{{Hash: tenants.HashKey("b")}}}, "acme 1 300, dora 1 200, dora/team 1 400, ; 2 notes"},
		{keyfile.Content{Revoked: []keyfile.Revoked{{Hash: tenants.HashKey("d")}}}, "acme 1 225, bob 1 225, dora 0 0, dora/team 1 450, ; 1 notes"},
		{keyfile.Content{
			Keys:    []keyfile.Entry{own},
			Revoked: []keyfile.Revoked{{Hash: tenants.HashKey("b")}, {Hash: tenants.HashKey("d")}, {Hash: tenants.HashKey("t")}},
		}, "acme 1 300, dora 1 600, ; 4 notes"},
		{keyfile.Content{
			Revoked: []keyfile.Revoked{{Hash: tenants.HashKey("d")}, {Hash: tenants.HashKey("t")}},
		}, "acme 1 450, bob 1 450, ; 4 notes"}, // nobody may call n
	} {
		r := New("c", snap.WithKeys(c.keys), time.Now())
		got := ""
		for _, row := range r.Pools[0].Tenants {
			got += fmt.Sprintf("%s %d %d, ", row.Name, row.Keys, row.TPM)
		}
		got += fmt.Sprintf("; %d notes", len(r.Notes))
		if got != c.want {
			t.Errorf("%v: %s, want %s: %q", c.keys, got, c.want, r.Notes)
		}
	}
}

// TestNotes_Keyless notes who has neither key nor teams, and does not list a crowd. Where programs name tenants, these need no keys.
func TestNotes_Keyless(t *testing.T) {
	named := "admission: {listen: \"127.0.0.1:9091\"}\n"
	for _, c := range []struct {
		files, note, config string
	}{
		{"acme: {}, bob: {keys: []}, carl: {teams: {x: {}}}", "", named},
		{"acme: {teams: {x: {keys: [KEY]}}}", "", ""},
		{"acme: {keys: []}, bob: {keys: [KEY]}", "nobody can call as acme, until a key is made: llmgov keys new --tenant acme", ""},
		{"acme: {keys: [KEY], teams: {x: {keys: []}}}", "nobody can call as acme/x, until a key is made: llmgov keys new --tenant acme/x", ""},
		{"acme: {teams: {x: {keys: []}, y: {keys: []}}}", "nobody can call as acme/x, acme/y, until keys are made: llmgov keys new --tenant NAME", ""},
		{
			"a: {keys: []}, b: {keys: []}, c: {keys: []}, d: {keys: []}, e: {keys: []}, f: {keys: []}, g: {keys: []}",
			"nobody can call as a, b, c, d, e and 2 more, until keys are made: llmgov keys new --tenant NAME", "",
		},
	} {
		snap := testkit.Must(tenants.LoadFS(fstest.MapFS{
			"llmgov.yaml":    {Data: []byte("upstreams: {o: {base_url: http://o}}\npools: {m: {models: [m], rpm: 1}}\n" + c.config)},
			"tenants/a.yaml": {Data: []byte("tenants: {" + strings.ReplaceAll(c.files, "KEY", `"`+tenants.HashKey("k").String()+`"`) + "}\n")},
		}, "llmgov.yaml", tenants.Options{}))(t)
		if got := strings.Join(keyless(snap), "\n"); got != c.note {
			t.Errorf("%s: %q, want %q", c.files, got, c.note)
		}
	}
}

// Agents that call Anthropic's models need to wait, and more tokens a minute than one call declares.
func TestNotes_Agents(t *testing.T) {
	const whole = "tpm 60,000 lets a coding agent call pool m once a minute"
	for name, tt := range map[string]struct {
		tenant tenants.Tenant
		kind   string
		want   string // texts of the notes, in order
	}{
		"waits, no limit":          {tenants.Tenant{MaxWait: time.Minute}, tenants.Anthropic, ""},
		"waits, small":             {tenants.Tenant{MaxWait: time.Minute, Limits: terms.Limits{TPM: 60_000}}, tenants.Anthropic, "tenant a: " + whole},
		"waits, small, in a tier":  {tenants.Tenant{MaxWait: time.Minute, Limits: terms.Limits{TPM: 60_000}, Tier: "pro"}, tenants.Anthropic, "tier pro: " + whole},
		"waits, small of output":   {tenants.Tenant{MaxWait: time.Minute, Limits: terms.Limits{OTPM: 30_000}}, tenants.Anthropic, "tenant a: otpm 30,000"},
		"waits, large":             {tenants.Tenant{MaxWait: time.Minute, Limits: terms.Limits{TPM: 100_000}}, tenants.Anthropic, ""},
		"waits, small, but cut":    {tenants.Tenant{MaxWait: time.Minute, Limits: terms.Limits{TPM: 60_000}, MaxOutputTokens: 8000}, tenants.Anthropic, ""},
		"waits, small of input":    {tenants.Tenant{MaxWait: time.Minute, Limits: terms.Limits{ITPM: 60_000}}, tenants.Anthropic, ""},
		"does not wait":            {tenants.Tenant{}, tenants.Anthropic, "tenant a: has no max_wait"},
		"does neither, elsewhere":  {tenants.Tenant{Limits: terms.Limits{TPM: 60_000}}, tenants.OpenAI, ""},
		"does not wait, in a tier": {tenants.Tenant{Tier: "agents"}, tenants.Anthropic, "tier agents: has no max_wait"},
	} {
		cfg := tenants.DefaultConfig()
		cfg.Upstreams = []tenants.Upstream{{Name: "o", BaseURL: "http://o", Kind: tt.kind}}
		pool := tenants.DefaultPool("m", "m")
		pool.RPM = 1
		cfg.Pools = []tenants.Pool{pool}
		tt.tenant.Name = "a"
		tt.tenant.Keys = []tenants.Key{{Hash: tenants.HashKey("a")}}
		b := tt.tenant
		b.Name = "b"
		b.Tier = "other"
		b.MaxWait = time.Minute
		b.TPM = 0
		b.OTPM = 0
		b.Keys = []tenants.Key{{Hash: tenants.HashKey("b")}}
		snap := testkit.Must(tenants.Build(cfg, []tenants.Tenant{tt.tenant, b}))(t)
		notes := New("c", snap, time.Now()).Notes
		got := strings.Join(notes, "\n")
		if tt.want == "" && strings.Contains(got, "agent") || !strings.Contains(got, tt.want) || strings.Count(got, "agent") > 2 {
			t.Errorf("%s: %q, want %q", name, notes, tt.want)
		}
	}
}
