package tenants

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/llmgov/llmgov/governor/terms"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/tenants/internal/glob"
)

const teamConfig = `upstreams: {o: {base_url: "http://o"}}
pools:
  main: {models: [m, n, "x-*"], tpm: 1000, headroom: 0}
  side: {models: [s], rpm: 1}
default_pool: side
`

const teamPolicy = `tiers:
  pro:
    weight: 2
    rpm: 60
    routes: [inference, models, files]
    max_wait: 2s
    credit: 5s
    max_output_tokens: 100
    shadow: true
tenants:
  acme:
    tier: pro
    keys: [` + key1 + `]
    models: [m, "x-*"]
    tpm: 500
    floor_tpm: 300
    budgets: [{tokens: 9, per: day}]
    pools: {main: {rpm: 7}}
    teams:
      search:
        weight: 3
        tpm: 400
        max_output_tokens: 50
        default_pool: main
        priority: background
        budgets: [{tokens: 10, per: day}]
        teams:
          ranking: {keys: [` + key2 + `], models: ["*"], max_output_tokens: 70, tpm: 600, max_wait: 9s, budgets: [{tokens: 5, per: day}, {tokens: 6, per: week}]}
      labs: {keys: [` + key3 + `], models: ["x-*-mini", n, m], routes: [inference]}
`

// TestTeams_Inherit: what a team does not say it has from above, except for limits, which are its parents' own.
func TestTeams_Inherit(t *testing.T) {
	s := testkit.Must(loadSections(map[string]string{"llmgov.yaml": teamConfig, "tenants/a.yaml": strings.Replace(teamPolicy, ", n, m]", ", m]", 1)}))(t)
	grant := []string{"m", "x-*"}
	all := RouteInference | RouteModels | RouteFiles
	team := func(name string, parent, index int, edit func(*Tenant)) Tenant {
		tn := Tenant{
			Name: name, Parent: parent, Index: index, Tier: "pro", Models: grant, DefaultPool: "side", Weight: 1, Credit: 5 * time.Second,
			MaxWait: 2 * time.Second, MaxOutputTokens: 100, Routes: all, Shadow: true,
		}
		edit(&tn)
		return tn
	}
	want := []Tenant{
		team("acme", -1, 0, func(t *Tenant) {
			t.Weight = 2
			t.RPM = 60
			t.TPM = 500
			t.FloorTPM = 300
			t.Budgets = []Budget{{Unit: Tokens, Limit: 9, Per: Day}}
			t.Pools = []PoolLimits{{Pool: "main", Limits: terms.Limits{RPM: 7}}}
		}),
		team("acme/labs", 0, 1, func(t *Tenant) {
			t.Models = []string{"x-*-mini", "m"}
			t.Bounds = [][]string{grant}
			t.Routes = RouteInference
		}),
		team("acme/search", 0, 2, func(t *Tenant) {
			t.Weight = 3
			t.TPM = 400
			t.MaxOutputTokens = 50
			t.DefaultPool = "main"
			t.Background = true
			t.Budgets = []Budget{{Unit: Tokens, Limit: 10, Per: Day}}
		}),
		team("acme/search/ranking", 2, 3, func(t *Tenant) {
			t.Models = []string{"*"}
			t.Bounds = [][]string{grant}
			t.TPM = 600
			t.MaxWait = 9 * time.Second
			t.MaxOutputTokens = 50
			t.DefaultPool = "main"
			t.Background = true
			t.Budgets = []Budget{{Unit: Tokens, Limit: 5, Per: Day}, {Unit: Tokens, Limit: 6, Per: Week}}
		}),
	}
	got := slices.Clone(s.Tenants())
	for i := range got {
		got[i].Keys = nil
		got[i].Source = ""
		got[i].Order = 0
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("tenants (-want +got):\n%s", diff)
	}
	if a, _, ok := s.Lookup("x"); ok {
		t.Errorf("an unknown key is of %s", a.Name)
	}
	ranking, _ := s.TenantByName("acme/search/ranking")
	for model, want := range map[string]bool{"m": true, "x-1": true, "n": false, "s": false} {
		if ranking.MayUse(model) != want {
			t.Errorf("MayUse(%s) = %v, want %v", model, !want, want)
		}
	}
	if s.Reaches(ranking, &s.Pools()[1]) {
		t.Error("a team reaches a pool that its parent does not")
	}
	if diff := cmp.Diff([]ModelInfo{{"m", "main"}}, s.ModelsFor(ranking)); diff != "" {
		t.Errorf("models of a team (-want +got):\n%s", diff)
	}
}

// TestTeams_Limits names the line of each value of a team, and the strictest limit above it.
func TestTeams_Limits(t *testing.T) {
	s := testkit.Must(loadSections(map[string]string{"llmgov.yaml": teamConfig, "tenants/a.yaml": strings.Replace(teamPolicy, ", n, m]", ", m]", 1)}))(t)
	ranking, _ := s.TenantByName("acme/search/ranking")
	var got strings.Builder
	for _, l := range s.Limits(ranking, &s.Pools()[0]) {
		got.WriteString(strings.TrimSpace(limitLines([]Limit{l})) + " " + l.Of + "\n")
	}
	want := `weight 1 
rpm 60 tenants/a.yaml:4:10 acme
tpm 600 tenants/a.yaml:28:145 
tpm 400 tenants/a.yaml:22:14 acme/search
pools.main.rpm 7 tenants/a.yaml:18:25 acme
max_output_tokens 50 tenants/a.yaml:23:28 
max_wait 9s tenants/a.yaml:28:160 
priority background tenants/a.yaml:25:19 
credit 5s tenants/a.yaml:7:13 
shadow true tenants/a.yaml:9:13 
routes inference, models, files tenants/a.yaml:5:5 
budgets[0] 5 tokens per day tenants/a.yaml:28:174 
budgets[1] 6 tokens per week tenants/a.yaml:28:197 
`
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
	search, _ := s.TenantByName("acme/search")
	list := s.Limits(search, &s.Pools()[0])
	if last := list[len(list)-1]; last.Of != "acme" || last.Value != "9 tokens per day" || last.From != "tenants/a.yaml:17:15" {
		t.Errorf("the stricter budget above is shown as %+v", last)
	}
}

// TestReaches_Oracle: a team reaches a pool exactly when there is a name that all its grants allow and the pool serves.
func TestReaches_Oracle(t *testing.T) {
	var names []string
	for last := []string{""}; len(last[0]) < 8; {
		var next []string
		for _, n := range last {
			next = append(next, n+"a", n+"b")
		}
		names = append(names, next...)
		last = next
	}
	patterns := rapid.SliceOfN(rapid.StringMatching(`[ab*]{1,3}`), 1, 3)
	rapid.Check(t, func(rt *rapid.T) {
		draw := func(what string) []string {
			list := patterns.Draw(rt, what)
			for i := range list {
				list[i] = glob.Plain(list[i])
			}
			return list
		}
		tn := &Tenant{Models: draw("own")}
		for range rapid.IntRange(0, 2).Draw(rt, "depth") {
			tn.Bounds = append(tn.Bounds, draw("bound"))
		}
		s := &Snapshot{cfg: Config{Pools: []Pool{{Pool: terms.Pool{Name: "p"}, Models: draw("pool")}}}}
		s.routes = newRoutes(s.cfg.Pools)
		p := &s.cfg.Pools[0]
		want := slices.ContainsFunc(names, func(n string) bool {
			_, served := s.PoolOf(n)
			return served && tn.MayUse(n)
		})
		if got := s.Reaches(tn, p); got != want {
			rt.Fatalf("Reaches of %q within %q, pool %q: %v, want %v", tn.Models, tn.Bounds, p.Models, got, want)
		}
	})
}

// TestReaches_Overlap: of "b*" and "*b" together the shortest name is one letter.
func TestReaches_Overlap(t *testing.T) {
	s := &Snapshot{cfg: Config{Pools: []Pool{{Pool: terms.Pool{Name: "p"}, Models: []string{"*"}}}}}
	s.routes = newRoutes(s.cfg.Pools)
	tn := &Tenant{Models: []string{"*gpt"}, Bounds: [][]string{{"gpt*"}, {"gpt"}}}
	if !s.Reaches(tn, &s.cfg.Pools[0]) {
		t.Error("a team does not reach the pool of the one model that all its grants allow")
	}
}

// TestBuild_Teams: in code a name is the path, and the same follows from it as in files.
func TestBuild_Teams(t *testing.T) {
	cfg := configOf([]string{"m", "n"})
	acme := tenant("acme", "1", "m")
	search := tenant("acme/search", "2")
	acme.Shadow = true
	acme.Background = true
	acme.Routes = RouteInference
	s := mustBuild(t, cfg, search, tenant("zoo", "3"), acme)
	got := s.Tenants()[1]
	if got.Name != "acme/search" || got.Parent != 0 || !got.Shadow || !got.Background || got.Routes != RouteInference || got.MayUse("n") || s.Tenants()[2].Parent != -1 {
		t.Errorf("team %+v", got)
	}
	search.Group = "g"
	search.GroupWeight = 1
	_, err := Build(cfg, []Tenant{search, tenant("a//b", "4")})
	for _, want := range []string{
		`tenants.acme/search: there is no "acme" that it could be a team of`, "tenants.acme/search.group: a team is in no group", `tenants: name "a//b" is not a name`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestReaches(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Upstreams = []Upstream{{Name: "u", BaseURL: "http://localhost/v1"}}
	a := DefaultPool("a", "gpt-4o")
	b := DefaultPool("b", "gpt-*", "o3")
	a.TPM = 1
	b.TPM = 1
	cfg.Pools = []Pool{a, b}
	for _, c := range []struct {
		grant string
		want  [2]bool
	}{
		{"gpt-4o", [2]bool{true, false}}, // the exact name wins over b's glob
		{"gpt-4o-mini", [2]bool{false, true}},
		{"gpt-4*", [2]bool{true, true}},
		{"o*", [2]bool{false, true}},
		{"*", [2]bool{true, true}},
	} {
		s := testkit.Must(Build(cfg, []Tenant{{Name: "t", Keys: []Key{{Hash: HashKey("k")}}, Models: []string{c.grant}}}))(t)
		for i := range s.Pools() {
			if got := s.Reaches(&s.Tenants()[0], &s.Pools()[i]); got != c.want[i] {
				t.Errorf("a grant of %q reaches pool %s: %v, want %v", c.grant, s.Pools()[i].Name, got, c.want[i])
			}
		}
	}
}
