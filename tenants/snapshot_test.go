package tenants

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgov/llmgov/governor/terms"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/tenants/keyfile"
)

func tenant(name, key string, models ...string) Tenant {
	return Tenant{Name: name, Keys: []Key{{Hash: HashKey(key)}}, Models: models}
}

func mustBuild(t testing.TB, cfg Config, list ...Tenant) *Snapshot {
	t.Helper()
	return testkit.Must(Build(cfg, list))(t)
}

func TestKeyHash(t *testing.T) {
	h := HashKey("abc")
	const want = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
	if h.String() != want {
		t.Errorf("HashKey(abc) = %s, want %s", h, want)
	}
	if back, ok := keyfile.ParseHash(want); !ok || back != h {
		t.Errorf("ParseKeyHash(%s) = %s, %v", want, back, ok)
	}
	for _, bad := range []string{"", want[7:], want + "0", want[:70], strings.ToUpper(want), "sha256:" + strings.ToUpper(want[7:]), want[:70] + "g", " " + want} {
		if _, ok := keyfile.ParseHash(bad); ok {
			t.Errorf("ParseKeyHash(%q) accepted it", bad)
		}
	}
}

func TestSnapshot_Lookups(t *testing.T) {
	s := mustBuild(t, configOf([]string{"gpt-4o", "gpt-*"}, []string{"gpt-4o-*", "o1"}),
		tenant("a", "ka", "gpt-4o*"), tenant("b", "kb"))
	for model, want := range map[string]string{
		"gpt-4o": "A", "gpt-4o-mini": "B", "gpt-5": "A", "o1": "B", "o1-mini": "", "": "", "GPT-4o": "",
	} {
		got := ""
		if p, ok := s.PoolOf(model); ok {
			got = p.Name
		}
		if got != want {
			t.Errorf("PoolOf(%q) = %q, want %q", model, got, want)
		}
	}
	a, _, ok := s.Lookup("ka")
	if !ok || a.Name != "a" {
		t.Fatalf("Lookup(ka) = %v, %v", a, ok)
	}
	for _, key := range []string{"", "kA", "ka ", a.Keys[0].Hash.String()} {
		if got, _, ok := s.Lookup(key); ok {
			t.Errorf("Lookup(%q) = %s, want none", key, got.Name)
		}
	}
	if b, ok := s.TenantByName("b"); !ok || b.Index != 1 || &s.Tenants()[1] != b {
		t.Errorf("TenantByName(b) = %v, %v", b, ok)
	}
	if a.MayUse("o1") || !a.MayUse("gpt-4o-mini") || (&Tenant{}).MayUse("gpt-4o") {
		t.Error("MayUse: want a grant of gpt-4o* alone, and nothing for the zero tenant")
	}
}

func TestSnapshot_ModelsFor(t *testing.T) {
	s := mustBuild(t, configOf([]string{"x", "gpt-*"}, []string{"z-*", "y"}),
		tenant("all", "1"), tenant("some", "2", "x", "gpt-5", "z-*"), tenant("globs", "3", "z-*"))
	for name, want := range map[string][]ModelInfo{
		"all":   {{"x", "A"}, {"y", "B"}},
		"some":  {{"gpt-5", "A"}, {"x", "A"}}, // named by the grant, served by a glob
		"globs": nil,
	} {
		tn, _ := s.TenantByName(name)
		if diff := cmp.Diff(want, s.ModelsFor(tn)); diff != "" {
			t.Errorf("ModelsFor(%s) (-want +got):\n%s", name, diff)
		}
	}
}

// TestSnapshot_Hash checks what the digest is of: the policy in effect, not how or where it is written.
func TestSnapshot_Hash(t *testing.T) {
	load := func(sections map[string]string) *Snapshot {
		t.Helper()
		return testkit.Must(loadSections(sections))(t)
	}
	base := load(nil)
	for name, c := range map[string]struct {
		sections          map[string]string
		sameHash, isEqual bool
	}{
		"again":         {nil, true, true},
		"comment":       {map[string]string{"llmgov.yaml": "# x\n\n" + goodConfig, "tenants/a.yaml": "\n" + goodPolicy}, true, true},
		"said default":  {map[string]string{"llmgov.yaml": goodConfig + "region: local\n"}, true, true},
		"own address":   {map[string]string{"llmgov.yaml": goodConfig + "listen: \":1\"\n"}, true, false},
		"admin token":   {map[string]string{"env": "LLMGOV_ADMIN_TOKEN=x23456789012345x"}, true, false},
		"admission":     {map[string]string{"env": "LLMGOV_ADMISSION_LISTEN=127.0.0.1:9091"}, true, false},
		"upstream key":  {map[string]string{"llmgov.yaml": strings.Replace(goodConfig, "{base_url", "{api_key: k, base_url", 1)}, true, false},
		"a limit":       {map[string]string{"llmgov.yaml": strings.Replace(goodConfig, "1000", "1001", 1)}, false, false},
		"a tenant's":    {map[string]string{"tenants/a.yaml": strings.Replace(goodPolicy, "{keys", "{rpm: 1, keys", 1)}, false, false},
		"a timeout":     {map[string]string{"env": "LLMGOV_TIMEOUTS_DRAIN=1s"}, false, false},
		"state folder":  {map[string]string{"env": "LLMGOV_STATE_DIR=/x"}, true, false},
		"no budgets":    {map[string]string{"tenants/a.yaml": strings.Replace(goodPolicy, "{keys", "{budgets: [], credit: 0s, priority: interactive, keys", 1)}, true, true},
		"no prices":     {map[string]string{"llmgov.yaml": goodConfig + "prices: {}\ntimezone: UTC\nstate_dir: \"\"\n"}, true, true},
		"time zone":     {map[string]string{"env": "LLMGOV_TIMEZONE=Asia/Tokyo"}, false, false},
		"a price":       {map[string]string{"llmgov.yaml": goodConfig + "prices: {x: {input: 1, output: 1}}\n"}, false, false},
		"ticket wait":   {map[string]string{"llmgov.yaml": strings.Replace(goodConfig, "tpm", "ticket_wait: 9s, tpm", 1)}, false, false},
		"pool budget":   {map[string]string{"llmgov.yaml": strings.Replace(goodConfig, "tpm", "budgets: [{tokens: 1, per: day}], tpm", 1)}, false, false},
		"law":           {map[string]string{"llmgov.yaml": strings.Replace(goodConfig, "tpm", "concurrency: {max: 9, adaptive: aimd}, tpm", 1)}, false, false},
		"reserve":       {map[string]string{"llmgov.yaml": strings.Replace(goodConfig, "tpm", "concurrency: {max: 2, interactive_reserve: 1}, tpm", 1)}, false, false},
		"priority":      {map[string]string{"tenants/a.yaml": strings.Replace(goodPolicy, "{keys", "{priority: background, keys", 1)}, false, false},
		"floor":         {map[string]string{"tenants/a.yaml": strings.Replace(goodPolicy, "{keys", "{floor_tpm: 1, keys", 1)}, false, false},
		"credit":        {map[string]string{"tenants/a.yaml": strings.Replace(goodPolicy, "{keys", "{credit: 1s, keys", 1)}, false, false},
		"a budget":      {map[string]string{"tenants/a.yaml": strings.Replace(goodPolicy, "{keys", "{budgets: [{tokens: 1, per: day}], keys", 1)}, false, false},
		"another model": {map[string]string{"llmgov.yaml": strings.Replace(goodConfig, "[gpt-4o]", "[gpt-4o, x]", 1)}, false, false},
	} {
		s := load(c.sections)
		if got := s.Hash() == base.Hash(); got != c.sameHash {
			t.Errorf("%s: same hash = %v, want %v", name, got, c.sameHash)
		}
		if got := s.Equal(base); got != c.isEqual {
			t.Errorf("%s: equal = %v, want %v", name, got, c.isEqual)
		}
	}
}

// TestBuild_SameAsFiles checks that code and files come to the same.
func TestBuild_SameAsFiles(t *testing.T) {
	fromFiles := testkit.Must(loadSections(nil))(t)
	cfg := DefaultConfig()
	cfg.Timezone = ""
	cfg.Prices = []ModelPrice{}
	cfg.Upstreams = []Upstream{{Name: "openai", BaseURL: "https://api.openai.com/v1/"}}
	pool := DefaultPool("main", "gpt-4o")
	pool.TPM = 1000
	cfg.Pools = []Pool{pool}
	built := mustBuild(t, cfg, Tenant{Name: "acme", Keys: []Key{{Hash: hash(t, key1)}}, Budgets: []Budget{}})
	if !built.Equal(fromFiles) {
		t.Errorf("differs (-files +code):\n%s%s", cmp.Diff(fromFiles.Config(), built.Config()), cmp.Diff(fromFiles.Tenants(), built.Tenants()))
	}
}

// TestBuild_Copies checks that a snapshot does not change with what it was made from.
func TestBuild_Copies(t *testing.T) {
	cfg := configOf([]string{"m"})
	list := []Tenant{tenant("b", "kb", "m"), tenant("a", "ka", "m")}
	s := testkit.Must(Build(cfg, list))(t)
	if list[0].Name != "b" || list[0].Weight != 0 || cfg.Pools[0].Upstreams != nil {
		t.Error("Build wrote to its arguments")
	}
	cfg.Pools[0].Models[0], list[0].Models[0], list[0].Keys[0], cfg.Upstreams[0].Name = "x", "x", Key{}, "x"
	if p := s.Pools()[0]; p.Models[0] != "m" || p.Upstreams[0].Name != "u" || s.Config().Upstreams[0].Name != "u" {
		t.Errorf("pool %v changed with the arguments", p)
	}
	if b, _, ok := s.Lookup("kb"); !ok || !b.MayUse("m") || b.Keys[0].Hash != HashKey("kb") {
		t.Errorf("tenant %v changed with the arguments", b)
	}
}

func TestBuild_Problems(t *testing.T) {
	cfg := configOf([]string{"m", ""}, []string{"m"})
	cfg.Listen = "8080"
	cfg.Timeouts.Drain = -time.Second
	cfg.Store = "etcd://h"
	cfg.Upstreams[0].BaseURL = "u"
	cfg.Pools[0].TPM = -1
	cfg.Pools[0].HeadroomPPM = 500_000
	cfg.Pools[0].Accounting = 9
	cfg.Pools[1].Name = "A"
	_, err := Build(cfg, []Tenant{
		{Name: "a/b", Weight: -0.001, MaxWait: -1, Models: []string{}},
		{Name: "c", Keys: []Key{{}}, Limits: terms.Limits{RPM: -1}},
		{Name: "c", Keys: []Key{{Hash: HashKey("k")}, {Hash: HashKey("k")}}, DefaultPool: "Z"},
	})
	const want = `listen: "8080" is not an address; write host:port or :port, such as ":8080"
tenants.a/b: there is no "a" that it could be a team of; define it, or write the name without a slash
pools.A.accounting: "9" is not an accounting rule; use admit_max, production or settle
pools.A.headroom: 0.5 is out of range; use 0 to 0.499999
pools.A.models[0]: "m" is also a model of pool "A" at its list; leave it in one
pools.A.models[1]: "" is not a model; write a name or a pattern
pools.A.tpm: -1 is out of range; use 0 to 1000000000000
pools: "A" is defined twice; remove one
store: the address (not shown) has an unknown scheme; write memory, postgres://user:password@host/database or redis://user:password@host:6379
`
	problems, ok := errors.AsType[Problems](err)
	if !ok {
		t.Fatalf("got %v, want problems", err)
	}
	for line := range strings.Lines(want) {
		if !strings.Contains(problems.Error()+"\n", line) {
			t.Errorf("lacks %sin\n%v", line, problems)
		}
	}
	for _, part := range []string{"timeouts.drain: ", "upstreams.u.base_url: ", "tenants.a/b.weight", "tenants.a/b.max_wait", "tenants.a/b.models: is empty", "tenants.a/b: has no keys", "tenants.c.keys[0]: is the zero hash", "tenants.c.rpm: -1", `tenants: "c" is defined twice`, "listed twice; the other is at its list", `tenants.c.default_pool: there is no pool "Z"`} {
		if !strings.Contains(problems.Error(), part) {
			t.Errorf("lacks %q in\n%v", part, problems)
		}
	}
}

func TestOverlay(t *testing.T) {
	base := configOf([]string{"m"})
	base.Policies = nil
	cfg := testkit.Must(Overlay(base, Options{
		Env:   []string{"LLMGOV_LISTEN=:1", "LLMGOV_REGION=env", "LLMGOV_TIMEOUTS_DRAIN=5s"},
		Flags: map[string]string{"listen": ":0", "node": ""},
	}))(t)
	want := base
	want.Listen = ":0"
	want.Region = "env"
	want.Timeouts.Drain = 5 * time.Second
	if diff := cmp.Diff(want, cfg); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
	if _, err := Overlay(base, Options{Flags: map[string]string{"listen": "x"}}); err == nil || !strings.HasPrefix(err.Error(), "flag --listen: ") {
		t.Errorf("bad flag: %v", err)
	}
}

// large is a snapshot of n tenants, and the key of one in the middle.
func large(t testing.TB, n int) (*Snapshot, string) {
	list := make([]Tenant, n)
	for i := range list {
		list[i] = tenant(fmt.Sprintf("t%05d", i), fmt.Sprintf("sk-llmgov-%032d", i))
	}
	return mustBuild(t, configOf([]string{"gpt-4o", "gpt-*"}, []string{"claude-*", "o*"}), list...), fmt.Sprintf("sk-llmgov-%032d", n/2)
}

func TestAllocs_Lookups(t *testing.T) {
	s, key := large(t, 100)
	tn, _, _ := s.Lookup(key)
	long := strings.Repeat("k", 5000)
	for name, f := range map[string]func(){
		"Lookup":          func() { s.Lookup(key) },
		"Lookup, unknown": func() { s.Lookup(long) },
		"TenantByName":    func() { s.TenantByName("t00001") },
		"PoolOf, exact":   func() { s.PoolOf("gpt-4o") },
		"PoolOf, glob":    func() { s.PoolOf("claude-x") },
		"PoolOf, none":    func() { s.PoolOf("x") },
		"Price":           func() { s.Price("gpt-4o") },
		"MayUse":          func() { tn.MayUse("gpt-4o") },
	} {
		if n := testkit.Allocs(t, 100, f); n != 0 {
			t.Errorf("%s: %v allocations, want 0", name, n)
		}
	}
}

// TestSince counts what has changed by name, wherever it stands: not places, and not the order of what stays.
func TestSince(t *testing.T) {
	of := func(policy string) *Snapshot {
		return testkit.Must(loadSections(map[string]string{"tenants/a.yaml": "# " + policy + "\n\ntenants: {keep: {keys: [], teams: {x: {keys: []}}}, " + policy + "}\n"}))(t)
	}
	for _, c := range []struct {
		before, after           string
		added, removed, changed int
	}{
		{"b: {rpm: 1, keys: []}", "b: {keys: [], rpm: 1}", 0, 0, 0},
		{"b: {rpm: 1, keys: []}", "b: {rpm: 2, keys: []}", 0, 0, 1},
		{"b: {keys: []}", "a: {keys: []}, b: {keys: []}, z: {keys: []}", 2, 0, 0},
		{"a: {keys: []}, b: {keys: []}, z: {keys: []}", "b: {rpm: 5, keys: []}", 0, 2, 1},
		{"m: {keys: []}", "n: {keys: []}, o: {keys: []}", 2, 1, 0},
	} {
		added, removed, changed := of(c.after).Since(of(c.before))
		if added != c.added || removed != c.removed || changed != c.changed {
			t.Errorf("%s → %s: %d added, %d removed, %d changed", c.before, c.after, added, removed, changed)
		}
	}
}
