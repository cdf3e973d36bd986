package litellm

import (
	"errors"
	"flag"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/tenants"
)

var update = flag.Bool("update", false, "write what configs come to into testdata")

// convert converts a text, with the prices beside the file of testdata that has this name, if there are any.
func convert(name, text string) (*Result, error) {
	var prices Prices
	if data, err := os.ReadFile("testdata/" + strings.TrimSuffix(name, ".yaml") + ".prices.json"); err == nil {
		if prices, err = ReadPrices(data); err != nil {
			return nil, err
		}
	}
	return Convert(name, []byte(text), Options{
		Prices:  prices,
		Include: func(name string) ([]byte, error) { return os.ReadFile("testdata/included/" + name) },
		Env:     map[string]string{"SEARCH_KEY": "sk-search-Vb7Qp2Lm9Xt4Rc6Yz8Kd"},
		NewKey: func(tenant string) (string, string) {
			return "key-of-" + tenant, tenants.HashKey("key-of-" + tenant).String()
		},
	})
}

// transcript is all of a result as text.
func transcript(r *Result, err error) string {
	var b strings.Builder
	if err != nil {
		fmt.Fprintf(&b, "error: %v\n", err)
	}
	if r == nil {
		return b.String()
	}
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "%d %s:%d:%d: %s: %s\n", n.Weight, n.File, n.Line, n.Col, n.Path, n.What)
	}
	for _, k := range r.Keys {
		fmt.Fprintf(&b, "new key of %s: %s\n", k.Tenant, k.Key)
	}
	for _, f := range r.Files {
		fmt.Fprintf(&b, "-- %s --\n%s", f.Name, f.Text)
	}
	return b.String()
}

// load is what llmgov makes of the files, where every variable is set.
func load(files []File) (*tenants.Snapshot, error) {
	fsys := fstest.MapFS{}
	for _, f := range files {
		fsys[f.Name] = &fstest.MapFile{Data: []byte(f.Text)}
	}
	return tenants.LoadFS(fsys, "llmgov.yaml", tenants.Options{Env: StandIns(files)})
}

// TestConvert compares what each config of testdata comes to, word for word, and loads it. Run with -update after a
// change, and read the diff.
func TestConvert(t *testing.T) {
	configs, _ := filepath.Glob("testdata/*.yaml")
	if len(configs) < 5 {
		t.Fatalf("found %q", configs)
	}
	for _, config := range configs {
		name := filepath.Base(config)
		t.Run(name, func(t *testing.T) {
			text := testkit.Must(os.ReadFile(config))(t)
			r, err := convert(name, string(text))
			got := transcript(r, err)
			file := strings.TrimSuffix(config, ".yaml") + ".want"
			if *update {
				testkit.OK(t, os.WriteFile(file, []byte(got), 0o644))
			}
			want, _ := os.ReadFile(file)
			testkit.Same(t, string(want), got)
			if err != nil {
				return
			}
			if _, err := load(r.Files); err != nil {
				t.Errorf("it does not load: %v", err)
			}
		})
	}
}

// TestConvert_Meaning looks at what the loader makes of it.
func TestConvert_Meaning(t *testing.T) {
	text := testkit.Must(os.ReadFile("testdata/teams.yaml"))(t)
	r := testkit.Must(convert("teams.yaml", string(text)))(t)
	s := testkit.Must(load(r.Files))(t)
	for key, want := range map[string]string{"sk-search-Vb7Qp2Lm9Xt4Rc6Yz8Kd": "Search-Team", "sk-labs-Vb7Qp2Lm9Xt4Rc6Yz8Kd": "notebook", "sk-1234": "labs"} {
		if got, _, ok := s.Lookup(key); !ok || got.Name != want {
			t.Errorf("key %s is of %v, want %s", key, got, want)
		}
	}
	if p, ok := s.PoolOf("fast"); !ok || p.TPM != 2_000_000 || s.RealModel("fast") != "gpt-4o-mini" {
		t.Errorf("fast is served by %v as %s", p, s.RealModel("fast"))
	}
	if _, ok := s.PoolOf("gpt-4o-mini"); ok {
		t.Error("a name is served that nobody could ask for")
	}
	team, _ := s.TenantByName("Search-Team")
	if team.TPM != 100_000 || team.RPM != 600 || team.Concurrency != 16 || team.GroupWeight != 90 ||
		team.MayUse("claude") || !team.MayUse("gpt-4o") {
		t.Errorf("the team is %+v", team)
	}
	testkit.Same(t, []tenants.Budget{{Unit: tenants.MicroUSD, Limit: 500_000_000, Per: tenants.Month}}, team.Budgets, "budgets")
	if p := s.Price("gpt-4o"); p.Input != 2_500_000 || p.CachedInput != 1_250_000 || p.Output != 10_000_000 {
		t.Errorf("price %+v", p)
	}
}

// TestConvert_KeysOfTeams: a key opens its team, or, where it has less than that, a team of it.
func TestConvert_KeysOfTeams(t *testing.T) {
	text := testkit.Must(os.ReadFile("testdata/keys.yaml"))(t)
	r := testkit.Must(convert("keys.yaml", string(text)))(t)
	s := testkit.Must(load(r.Files))(t)
	end := time.Date(2027, 1, 31, 17, 0, 0, 0, time.UTC)
	for key, want := range map[string]struct {
		tenant string
		rpm    int64
		big    bool
		end    time.Time
	}{
		"sk-1-Vb7Qp2Lm9Xt4Rc6Yz8Kd": {"search", 600, true, time.Time{}},
		"sk-2-Vb7Qp2Lm9Xt4Rc6Yz8Kd": {"search/ci", 60, false, time.Time{}},
		"sk-3-Vb7Qp2Lm9Xt4Rc6Yz8Kd": {"search/ci-2", 0, true, time.Time{}},
		"sk-4-Vb7Qp2Lm9Xt4Rc6Yz8Kd": {"search", 600, true, end},
		"sk-5-Vb7Qp2Lm9Xt4Rc6Yz8Kd": {"alone", 0, true, end.Add(time.Hour)},
	} {
		got, k, ok := s.Lookup(key)
		if !ok || got.Name != want.tenant || got.RPM != want.rpm || got.MayUse("gpt-4o") != want.big || !k.Expires.Equal(want.end) {
			t.Errorf("%s: %+v until %v, want %+v", key, got, k, want)
		}
	}
}

// TestConvert_NothingInSilence: each key that is added to a config is on the list, wherever it is.
func TestConvert_NothingInSilence(t *testing.T) {
	for _, c := range []struct{ config, path string }{
		{"model_list:\n- {model_name: m, litellm_params: {model: m, rpm: 1, frob: 1}}\n", "model_list[0].litellm_params.frob"},
		{"model_list:\n- {model_name: m, frob: 1, litellm_params: {model: m, rpm: 1}}\n", "model_list[0].frob"},
		{"model_list:\n- {model_name: m, litellm_params: {model: m, rpm: 1}, model_info: {frob: 1}}\n", "model_list[0].model_info.frob"},
		{minimal + "litellm_settings: {frob: 1}\n", "litellm_settings.frob"},
		{minimal + "litellm_settings: {default_team_settings: [{team_id: a, frob: {deep: 1}}]}\n", "litellm_settings.default_team_settings[0].frob"},
		{minimal + "router_settings: {frob: 1}\n", "router_settings.frob"},
		{minimal + "general_settings: {frob: [1]}\n", "general_settings.frob"},
		{minimal + "teams: {a: {frob: 1}}\n", "teams.a.frob"},
		{minimal + "keys: [{key_alias: a, frob: 1}]\n", "keys[0].frob"},
		{minimal + "frob: 1\n", "frob"},
		{minimal + "credential_list: [{credential_name: a, credential_values: {frob: 1}}]\n", "credential_list[0].credential_values.frob"},
		{minimal + "credential_list: [{credential_name: a, frob: 1}]\n", "credential_list[0].frob"},
		{minimal + "router_settings: {model_group_alias: {a: {model: m, frob: 1}}}\n", "router_settings.model_group_alias.a.frob"},
		{minimal + "- {model_name: m, litellm_params: {model: bedrock/m, frob: 1}}\n", "model_list[1].litellm_params.model"},
		{minimal + "- {model_name: m, litellm_params: {model: azure/m, api_base: 'https://h', frob: 1}}\n", "model_list[1].litellm_params.frob"},
		{"model_list:\n- {model_name: m, litellm_params: {<<: {rpm: 5, frob: 2}, frob: 1, model: m}}\n", "model_list[0].litellm_params.frob"},
	} {
		r, err := convert("c.yaml", c.config)
		if err != nil {
			t.Errorf("%s: %v", c.path, err)
			continue
		}
		found := 0
		for _, n := range r.Notes {
			if n.Path == c.path && n.Line > 0 {
				found++
			}
		}
		if found != 1 {
			t.Errorf("%s is %d times on the list %v", c.path, found, r.Notes)
		}
	}
}

const minimal = "model_list:\n- {model_name: m, litellm_params: {model: m, rpm: 1}}\n"

// TestConvert_NoSecrets: what is a secret is in no note.
func TestConvert_NoSecrets(t *testing.T) {
	r := testkit.Must(convert("c.yaml", "model_list:\n- {model_name: m, litellm_params: {model: m, rpm: 1, api_key: sk-secret}}\n"+
		"general_settings: {master_key: sk-secret, database_url: 'postgres://u:sk-secret@h'}\nkeys: [{key: sk-secret, key_alias: a}]\n"))(t)
	if !r.Secrets {
		t.Error("the config file holds a key, and that is not said")
	}
	for _, n := range r.Notes {
		if strings.Contains(n.What+n.Path, "sk-secret") {
			t.Errorf("note %+v", n)
		}
	}
	for _, f := range r.Files[1:] {
		if strings.Contains(f.Text, "sk-secret") {
			t.Errorf("%s holds a key", f.Name)
		}
	}
}

// TestConvert_Bad gives it what is no config.
func TestConvert_Bad(t *testing.T) {
	for text, want := range map[string]string{
		"":                          "holds no mapping",
		"- a\n":                     "holds no mapping",
		"a: [":                      "yaml:",
		"a: 1\n":                    "nothing to import",
		"model_list: {}\n":          "nothing to import",
		"model_list: &a [*a]\n":     "yaml:",
		"a: &a {b: *a, <<: *a}\n":   "yaml:",
		"model_list: [1, {}, null]": "nothing to import",
	} {
		_, err := convert("c.yaml", text)
		if err == nil || !strings.HasPrefix(err.Error(), "c.yaml: ") {
			t.Errorf("%q: %v; want an error with %q", text, err, want)
		} else if want != "yaml:" && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %q", text, err, want)
		}
	}
}

// FuzzConvert: any text is a config, or an error; what is written is YAML.
func FuzzConvert(f *testing.F) {
	configs, _ := filepath.Glob("testdata/*.yaml")
	for _, config := range configs {
		text := testkit.Must(os.ReadFile(config))(f)
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := convert("c.yaml", text)
		if err != nil {
			return
		}
		if _, err := load(r.Files); err != nil {
			for _, sign := range []string{"YAML syntax", "unknown key", "duplicate key", "not supported", "has no value"} {
				if strings.Contains(err.Error(), sign) {
					t.Errorf("%s\n%v", transcript(r, nil), err)
				}
			}
		}
	})
}

// TestConvert_GrantsNoMore: whoever had less than all, or nothing any more, has no more here.
func TestConvert_GrantsNoMore(t *testing.T) {
	const models = `model_list:
  - {model_name: gpt-4o, litellm_params: {model: openai/gpt-4o, tpm: 1000}}
  - {model_name: mini, litellm_params: {model: openai/gpt-4o-mini, tpm: 1000}}
  - {model_name: eu, litellm_params: {model: openai/gpt-4o, api_base: "https://eu.example/v1", tpm: 1000}}
  - {model_name: claude, litellm_params: {model: bedrock/claude-sonnet-4}}
litellm_settings:
  default_team_params: {tpm_limit: 50, rpm_limit: 5}
  priority_reservation: {dev: 0.1}
teams: [{team_id: ok, models: [gpt-4o, mini]}, `
	for what, c := range map[string]struct{ rest, want string }{
		"a key of a team without imported models": {`{team_id: t, models: [claude]}]
keys: [{key: sk-t-Vb7Qp2Lm9Xt4Rc6Yz8Kd, team_id: t}]`, ""},
		"a key of a team whose name is taken": {`{team_id: a b, models: [gpt-4o]}, {team_id: a-b, models: [mini]}]
keys: [{key: sk-t-Vb7Qp2Lm9Xt4Rc6Yz8Kd, team_id: a-b, key_alias: other}]`, "a-b: gpt-4o "},
		"a team of another upstream's model, by its own name": {`{team_id: t, models: [eu]}]`, "t: eu "},
		"a blocked team":                {"{team_id: t, blocked: true}]\nkeys: [{key: sk-t-Vb7Qp2Lm9Xt4Rc6Yz8Kd, team_id: t}]", ""},
		"models that are no list":       {`{team_id: t, models: gpt-4o}]`, ""},
		"a blocked key":                 {"]\nkeys: [{key: sk-t-Vb7Qp2Lm9Xt4Rc6Yz8Kd, key_alias: t, blocked: true}]", ""},
		"a key whose end is not known":  {"]\nkeys: [{key: sk-t-Vb7Qp2Lm9Xt4Rc6Yz8Kd, key_alias: t, expires: soon}]", ""},
		"a key of a team, likewise":     {"]\nkeys: [{key: sk-t-Vb7Qp2Lm9Xt4Rc6Yz8Kd, team_id: ok, expires: 0001-01-01}]", ""},
		"a key with fewer models":       {"]\nkeys: [{key: sk-t-Vb7Qp2Lm9Xt4Rc6Yz8Kd, team_id: ok, models: [mini, eu]}]", "ok/key: mini (ok) "},
		"a key with none of its team's": {"]\nkeys: [{key: sk-t-Vb7Qp2Lm9Xt4Rc6Yz8Kd, team_id: ok, models: [eu]}]", ""},
		"a blocked key of a team":       {"]\nkeys: [{key: sk-t-Vb7Qp2Lm9Xt4Rc6Yz8Kd, team_id: ok, blocked: true}]", ""},
		"a key with its team's models":  {"]\nkeys: [{key: sk-t-Vb7Qp2Lm9Xt4Rc6Yz8Kd, team_id: ok, models: [mini, gpt-4o]}]", "(ok) "},
		"a key that says so":            {"]\nkeys: [{key: sk-t-Vb7Qp2Lm9Xt4Rc6Yz8Kd, team_id: ok, models: [all-team-models]}]", "(ok) "},
		"limits of all, and a priority": {
			"{team_id: t, models: [mini], rpm_limit: 7, metadata: {priority: dev}}]", "t: mini tpm 50 rpm 7 ",
		},
	} {
		r, err := convert("x.yaml", models+c.rest)
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		s, err := load(r.Files)
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		got := ""
		for _, o := range s.Tenants() {
			if o.Name != "ok" {
				got += o.Name + ": " + strings.Join(o.Models, " ") + " "
				if o.Tier == "dev" {
					got += fmt.Sprintf("tpm %d rpm %d ", o.TPM, o.RPM)
				}
			}
		}
		if strings.Contains(transcript(r, nil), tenants.HashKey("sk-t-Vb7Qp2Lm9Xt4Rc6Yz8Kd").String()) {
			got += "(ok) "
		}
		if got != c.want {
			t.Errorf("%s: %q, not %q", what, got, c.want)
		}
	}
}

// Budgets in dollars are never lost in silence: without the prices of their models nothing is converted, and each is listed.
func TestConvert_BudgetsNeedPrices(t *testing.T) {
	const config = `model_list:
  - {model_name: gpt-4o, litellm_params: {model: openai/gpt-4o, tpm: 1000}, model_info: {input_cost_per_token: 1e-6, output_cost_per_token: 1e-6}}
  - {model_name: mini, litellm_params: {model: azure/mini, api_base: "https://h.openai.azure.com", tpm: 1000}}
`
	prices := testkit.Must(ReadPrices([]byte(`{"azure/mini": {"input_cost_per_token": 1e-7, "output_cost_per_token": 4e-7}, "mini": {"input_cost_per_token": 9, "output_cost_per_token": 9}}`)))(t)
	for what, c := range map[string]struct {
		rest   string
		lost   []string // without prices
		listed string   // a line of the files, with them
	}{
		"a team's":           {"teams: [{team_id: t, max_budget: 5, budget_duration: 1d}]", []string{"4:22 teams[0].max_budget: needs prices of mini"}, "budgets: [{usd: 5, per: day}]"},
		"a team's of others": {"teams: [{team_id: t, models: [gpt-4o], max_budget: 5, budget_duration: 1d}]", nil, "budgets: [{usd: 5, per: day}]"},
		"all teams'":         {"litellm_settings: {default_team_params: {max_budget: 5, budget_duration: 7d}}", []string{"4:42 litellm_settings.default_team_params.max_budget: needs prices of mini"}, "budgets: [{usd: 5, per: week}]"},
		"a key's": {"keys: [{key_alias: a, max_budget: 1, budget_duration: 1h}, {key_alias: b, max_budget: 2, budget_duration: 30d}]", []string{
			"4:23 keys[0].max_budget: needs prices of mini", "4:75 keys[1].max_budget: needs prices of mini",
		}, "budgets: [{usd: 2, per: month}]"},
	} {
		r, err := Convert("c.yaml", []byte(config+c.rest), Options{NewKey: func(string) (string, string) { return "k", tenants.HashKey("k").String() }})
		var lost []string
		if errors.Is(err, ErrPrices) {
			for _, n := range r.Notes {
				lost = append(lost, fmt.Sprintf("%d:%d %s: %s", n.Line, n.Col, n.Path, n.What))
			}
		} else if err != nil {
			t.Fatal(err)
		}
		testkit.Same(t, c.lost, lost, what, "budget, without prices")
		r, err = Convert("c.yaml", []byte(config+c.rest), Options{Prices: prices, NewKey: func(string) (string, string) { return "k", tenants.HashKey("k").String() }})
		if err != nil {
			t.Errorf("%s budget, with prices: %v", what, err)
			continue
		}
		if text := transcript(r, nil); !strings.Contains(text, c.listed) || !strings.Contains(text, "mini: {input: 0.1, output: 0.4}") {
			t.Errorf("%s budget, with prices:\n%s", what, text)
		}
	}
}

// An included file that cannot be read, or is no config, is named together with the place that includes it.
func TestConvert_BadInclude(t *testing.T) {
	for name, want := range map[string]string{
		"nothing.yaml": "c.yaml:1:11: cannot read the included file nothing.yaml: open testdata/included/nothing.yaml: no such file or directory",
		"list":         "list: holds no mapping, and is included at c.yaml:1:11",
	} {
		_, err := convert("c.yaml", "include: [ "+name+" ]\n"+minimal)
		if err == nil || !strings.HasPrefix(err.Error(), strings.Replace(want, ":1:11", ":1:12", 1)) {
			t.Errorf("%s: %v\nwant %s", name, err, want)
		}
	}
}

func TestReadPrices_Bad(t *testing.T) {
	for _, text := range []string{"", "[]", "{}", `{"dall-e-3": {"output_cost_per_image": 0.04}}`} {
		if _, err := ReadPrices([]byte(text)); err == nil {
			t.Errorf("%q is taken for a price map", text)
		}
	}
}

// TestConvert_Upstreams looks at what the loader makes of several deployments of a model.
func TestConvert_Upstreams(t *testing.T) {
	text := testkit.Must(os.ReadFile("testdata/azure.yaml"))(t)
	r := testkit.Must(convert("azure.yaml", string(text)))(t)
	s := testkit.Must(load(r.Files))(t)
	pool, _ := s.PoolOf("gpt-4-turbo")
	if pool.Name != "gpt-4o" || pool.TPM != 2_150_000 || pool.RPM != 12_500 || s.RealModel("gpt-4") != "gpt-4o" {
		t.Errorf("the pool is %+v", pool)
	}
	want := []tenants.PoolUpstream{
		{Name: "openai", Weight: 2},
		{Name: "azure-contoso-sweden", Weight: 1},
		{Name: "azure-contoso-france", Weight: 1},
		{Name: "azure-contoso-canada", Weight: 1, Models: map[string]string{"gpt-4o": "gpt-4o-canada"}},
	}
	testkit.Same(t, want, pool.Upstreams, "upstreams")
	if s.RealModel("gpt-4o-mini") != "mini-prod" {
		t.Errorf("Azure is asked for %s, not for its deployment", s.RealModel("gpt-4o-mini"))
	}
	app, _ := s.TenantByName("app")
	labs, _ := s.TenantByName("labs")
	if !app.MayUse("gpt-4o-mini") || app.MayUse("o3") || !labs.MayUse("gpt-4") || labs.MayUse("gpt-4o-mini") {
		t.Errorf("grants: app %v, labs %v", app.Models, labs.Models)
	}
}

// TestAzureBase: the ways in which configs say where a resource is.
func TestAzureBase(t *testing.T) {
	for _, c := range []struct{ params, want string }{
		{`api_base: "https://r.openai.azure.com/", api_version: "2024-10-21"`, "https://r.openai.azure.com?api-version=2024-10-21"},
		{`api_base: "https://r.openai.azure.com/openai/", api_version: "2024-10-21"`, "https://r.openai.azure.com?api-version=2024-10-21"},
		{`api_base: "https://r.openai.azure.com/openai/v1/", api_version: preview`, "https://r.openai.azure.com"},
		{`api_base: "https://r.openai.azure.com", api_version: v1`, "https://r.openai.azure.com"},
		{`api_base: "https://r.openai.azure.com"`, "https://r.openai.azure.com"},
		{`base_url: "https://r.openai.azure.com/openai/deployments/d/chat/completions?api-version=2024-06-01"`, "https://r.openai.azure.com?api-version=2024-06-01"},
		{`api_base: "https://gw.example/azure", api_version: "2024-10-21"`, "https://gw.example/azure?api-version=2024-10-21"},
		{`api_base: os.environ/BASE, api_version: os.environ/VERSION`, "${BASE}?api-version=${VERSION}"},
		{`api_key: k`, "${AZURE_API_BASE}"},
	} {
		r, err := convert("c.yaml", "model_list: [{model_name: m, litellm_params: {model: azure/m, rpm: 1, "+c.params+"}}]")
		if err != nil {
			t.Errorf("%s: %v", c.params, err)
			continue
		}
		if _, err := load(r.Files); err != nil {
			t.Errorf("%s: %v", c.params, err)
		}
		if want := "base_url: " + quote(c.want) + "\n    kind: azure\n"; !strings.Contains(r.Files[0].Text, want) {
			t.Errorf("%s: want %s in\n%s", c.params, want, r.Files[0].Text)
		}
	}
}

// TestWhole: weights are whole, from 1 to 1000, the largest stays the largest, and proportions that can be kept are.
func TestWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		small := rapid.SliceOfN(rapid.Int64Range(1, maxWeight), 1, 8).Draw(t, "small")
		factor := big.NewRat(rapid.Int64Range(1, 1e9).Draw(t, "factor"), rapid.Int64Range(1, 1000).Draw(t, "part"))
		var parts []*big.Rat
		for _, n := range small {
			parts = append(parts, new(big.Rat).Mul(big.NewRat(n, 1), factor))
		}
		got := whole(parts)
		for i := range got {
			if got[i] < 1 || got[i] > maxWeight || got[i]*small[0] != got[0]*small[i] {
				t.Fatalf("%v become %v", small, got)
			}
		}
	})
	for _, c := range []struct{ parts, want []int64 }{{[]int64{1_000_001, 1}, []int64{1000, 1}}, {[]int64{999_999, 500_001}, []int64{1000, 500}}} {
		if got := whole([]*big.Rat{big.NewRat(c.parts[0], 1), big.NewRat(c.parts[1], 1)}); !cmp.Equal(got, c.want) {
			t.Errorf("%v become %v, want %v", c.parts, got, c.want)
		}
	}
}
