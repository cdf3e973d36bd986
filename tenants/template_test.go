package tenants

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgov/llmgov/internal/testkit"
)

// TestTemplate_Override checks, for each key that a tier gives, that a tenant takes it or replaces it.
func TestTemplate_Override(t *testing.T) {
	from := func(tier, own string) Tenant {
		t.Helper()
		policy := "tiers: {pro: {" + tier + "}}\ntenants: {acme: {tier: pro, keys: [\"" + key1 + "\"]" + own + "}}\n"
		config := strings.Replace(goodConfig, "tpm: 1000", "tpm: 1000, concurrency: {max: 10, hold_back: 0.5}", 1)
		s := testkit.Must(loadSections(map[string]string{"llmgov.yaml": config, "tenants/a.yaml": policy}))(t)
		tn := s.Tenants()[0]
		tn.Keys = nil
		tn.Source = ""
		return tn
	}
	plain := Tenant{Name: "acme", Parent: -1, Routes: DefaultRoutes, Tier: "pro", Models: []string{"*"}, DefaultPool: "main", Weight: 1000}
	with := func(edit func(*Tenant)) Tenant {
		tn := plain
		edit(&tn)
		return tn
	}
	for _, c := range []struct {
		tier, own string
		want      Tenant
	}{
		{"", "", plain},
		{"priority: background", "", with(func(t *Tenant) { t.Background = true })},
		{"priority: 3", "", with(func(t *Tenant) { t.Below = 6 })},
		{"priority: 9", "", with(func(*Tenant) {})},
		{"priority: background", ", priority: interactive", plain},
		{"floor_tpm: 5", "", with(func(t *Tenant) { t.FloorTPM = 5 })},
		{"floor_tpm: 5000", ", floor_tpm: 990", with(func(t *Tenant) { t.FloorTPM = 990 })},
		{"credit: 500ms", "", with(func(t *Tenant) { t.Credit = time.Second / 2 })},
		{"credit: 500ms", ", credit: 0s", plain},
		{"budgets: [{tokens: 5, per: day}]", "", with(func(t *Tenant) { t.Budgets = []Budget{{Tokens, 5, Day}} })},
		{"budgets: [{tokens: 5, per: day}]", ", budgets: [{tokens: 6, per: week}]", with(func(t *Tenant) { t.Budgets = []Budget{{Tokens, 6, Week}} })},
		{"budgets: [{usd: 5, per: day}]", ", budgets: []", plain}, // nobody counts usd, so no price is needed
		{"routes: [models]", "", with(func(t *Tenant) { t.Routes = RouteModels })},
		{"routes: [models]", ", routes: [realtime, inference]", with(func(t *Tenant) { t.Routes = RouteInference | RouteRealtime })},
		{"pools: {main: {tpm: 5}}", "", with(func(t *Tenant) { t.Pools = []PoolLimits{{Pool: "main", TPM: 5}} })},
		{"pools: {main: {tpm: 5, rpm: 6}}", ", pools: {main: {rpm: 1, itpm: 7}}", with(func(t *Tenant) { t.Pools = []PoolLimits{{Pool: "main", RPM: 1, TPM: 5, ITPM: 7}} })},
		{"shadow: true", "", with(func(t *Tenant) { t.Shadow = true })},
		{"shadow: true", ", shadow: false", plain},
		{"weight: 3, group: false", "", with(func(t *Tenant) { t.Weight = 3000 })},
		{"group: true", "", with(func(t *Tenant) {
			t.Group = "pro"
			t.GroupWeight = 1000
		})},
		{"group: true, weight: 3", "", with(func(t *Tenant) {
			t.Group = "pro"
			t.GroupWeight = 3000
		})},
		{"tenant_weight: 0.5, weight: 3, group: true", "", with(func(t *Tenant) {
			t.Group = "pro"
			t.GroupWeight = 3000
			t.Weight = 500
		})},
		{"weight: 3, group: true, tenant_weight: 2", ", tenant_weight: 4", with(func(t *Tenant) {
			t.Group = "pro"
			t.GroupWeight = 3000
			t.Weight = 4000
		})},
	} {
		if diff := cmp.Diff(c.want, from(c.tier, c.own)); diff != "" {
			t.Errorf("tier {%s}, tenant {%s} (-want +got):\n%s", c.tier, c.own, diff)
		}
	}
}

// TestShadow_File: what a file says holds for its own tenants alone, over their tiers, wherever it stands in the file.
func TestShadow_File(t *testing.T) {
	s := testkit.Must(loadSections(map[string]string{
		"tenants/a.yaml": "tiers: {dark: {shadow: true}, lit: {}}\ntenants:\n  a: {tier: lit, keys: [" + key1 + "]}\n" +
			"  b: {tier: lit, shadow: false, keys: [" + key2 + "]}\nshadow: true\n",
		"tenants/b.yaml": "shadow: false\ntenants: {c: {tier: dark, keys: [" + key3 + "]}}\n",
		"tenants/c.yaml": "tenants: {d: {tier: dark, keys: [sha256:" + strings.Repeat("4", 64) + "]}}\n",
	}))(t)
	for i, want := range []struct {
		shadow bool
		from   string
	}{{true, "tenants/a.yaml:5:9"}, {false, "tenants/a.yaml:4:26"}, {false, "tenants/b.yaml:1:9"}, {true, "tenants/a.yaml:1:24"}} {
		tn := &s.Tenants()[i]
		if got := s.Origin(tn, "shadow"); tn.Shadow != want.shadow || got != want.from {
			t.Errorf("%s: shadow %v from %s, want %v from %s", tn.Name, tn.Shadow, got, want.shadow, want.from)
		}
	}
}

// TestPrice checks which entry wins, whatever their order, and that no digit is lost.
func TestPrice(t *testing.T) {
	s := testkit.Must(loadSections(map[string]string{"llmgov.yaml": goodConfig + `
timezone: America/New_York
prices:
  "gpt-*": {input: 0.1, output: 0.2}
  gpt-4o: {input: 2.5, cached_input: 0, output: 10}
  "gpt-4o-**": {input: 0.000001, output: 9999.999999}
`}))(t)
	for model, want := range map[string]Price{
		"gpt-4o":      {2_500_000, 0, 10_000_000},
		"gpt-4o-mini": {1, 1, 9_999_999_999},
		"gpt-5":       {100_000, 100_000, 200_000},
	} {
		if got, ok := s.Price(model); !ok || got != want {
			t.Errorf("Price(%s) = %v, %v; want %v", model, got, ok, want)
		}
	}
	if got, ok := s.Price("o1"); ok {
		t.Errorf("Price(o1) = %v, want none", got)
	}
	if s.Location().String() != "America/New_York" {
		t.Errorf("location %v", s.Location())
	}
}

// TestBuild_TemplateProblems gives Build what files could not say.
func TestBuild_TemplateProblems(t *testing.T) {
	cfg := configOf([]string{"m"})
	cfg.Timezone = "Nowhere"
	cfg.StateDir = "a\nb"
	cfg.Prices = []ModelPrice{{"m", Price{Input: -1}}, {"", Price{}}, {"m", Price{}}}
	p := &cfg.Pools[0]
	p.Concurrency = 4
	p.InteractiveReserve = 4
	p.TicketWait = -1
	p.Adaptive = "vegas"
	p.MinConcurrency = 5
	p.Budgets = []Budget{{"words", 5, "year"}, {Tokens, 0, Day}}
	of := func(name string, edit func(*Tenant)) Tenant {
		tn := tenant(name, name)
		edit(&tn)
		return tn
	}
	_, err := Build(cfg, []Tenant{
		of("a", func(t *Tenant) {
			t.FloorTPM = -1
			t.Credit = time.Hour
		}),
		of("b", func(t *Tenant) { t.Budgets = []Budget{{Tokens, 1, Day}, {Tokens, 2, Day}} }),
		of("c", func(t *Tenant) {
			t.Group = "g"
			t.GroupWeight = 5
		}),
		of("d", func(t *Tenant) { t.Group = "g" }),
		of("e", func(t *Tenant) { t.GroupWeight = 5 }),
		of("f", func(t *Tenant) { t.FloorTPM = 991 }),
	})
	problems, ok := errors.AsType[Problems](err)
	if !ok {
		t.Fatalf("got %v, want problems", err)
	}
	for _, want := range []string{
		`timezone: "Nowhere" is not a time zone`,
		`state_dir: "a\nb" holds control characters`,
		"prices.m.input: -1 is out of range",
		`prices: "" is not a model`,
		`prices: "m" is priced twice`,
		"pools.A.interactive_reserve: 4 leaves background calls no slot of 4; write at most 3",
		`pools.A.adaptive: "vegas" is not an algorithm of an adaptive limit; use gradient or aimd`,
		"pools.A.min: 5 is above max; write at most 4",
		"pools.A.ticket_wait: -1ns is out of range",
		`pools.A.budgets[0]: "words" is not a budget unit`,
		`pools.A.budgets[0]: "year" is not a budget period`,
		"pools.A.budgets[1].limit: 0 is out of range",
		"tenants.a.floor_tpm: -1 is out of range",
		"tenants.a.credit: 1h0m0s is out of range; use 0s to 1m",
		"tenants.b.budgets[1]: tokens per day is also limited at an earlier entry; keep one",
		`tenants.d.group: "g" has a weight of 1000 here and of 5 elsewhere; give it one`,
		"tenants.e.group: is empty, so a group weight of 5 does nothing",
		`tenants.f.floor_tpm: the floors in pool "A" (tenants: 1) add up to 991, but its tpm less headroom is 990;`,
	} {
		if !strings.Contains(problems.Error(), want) {
			t.Errorf("lacks %q in\n%v", want, problems)
		}
	}
}

// TestBuild_Group fills in the weight of a group.
func TestBuild_Group(t *testing.T) {
	a := tenant("a", "k")
	a.Group = "g"
	s := mustBuild(t, configOf([]string{"m"}), a)
	if got := s.Tenants()[0]; got.GroupWeight != 1000 || got.Weight != 1000 {
		t.Errorf("weights %d of group, %d in it; want 1000 each", got.GroupWeight, got.Weight)
	}
}
