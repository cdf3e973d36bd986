package dashboards_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/llmgov/llmgov/dashboards"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

var update = flag.Bool("update", false, "write what is exported to testdata, to be read as a diff")

// What is exported is in testdata, so that a change shows as what it is.
func TestFiles(t *testing.T) {
	const golden = "testdata/export"
	if *update {
		testkit.OK(t, os.RemoveAll(golden))
	}
	seen := map[string]bool{}
	for _, f := range dashboards.Files() {
		path := filepath.Join(golden, filepath.FromSlash(f.Path))
		seen[path] = true
		if *update {
			testkit.OK(t, os.MkdirAll(filepath.Dir(path), 0o755))
			testkit.OK(t, os.WriteFile(path, []byte(f.Text), 0o644))
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Errorf("%v: go test ./dashboards -update", err)
		} else if diff := cmp.Diff(string(want), f.Text); diff != "" {
			t.Errorf("%s is not what is in testdata; if that is meant: go test ./dashboards -update\n%s", f.Path, diff)
		}
	}
	err := filepath.Walk(golden, func(path string, info os.FileInfo, err error) error {
		if err == nil && !info.IsDir() && !seen[path] {
			t.Errorf("%s is not exported any more", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// Grafana passes over what it does not know, so a misspelt field would be silent.
func TestGrafanaKnowsEveryField(t *testing.T) {
	schema := testkit.Must(jsonschema.NewCompiler().Compile("testdata/grafana-9.4.schema.json"))(t)
	for _, d := range dashboards.All() {
		v := testkit.Must(jsonschema.UnmarshalJSON(strings.NewReader(d.JSON())))(t)
		if err := schema.Validate(v); err != nil {
			t.Errorf("%s: %v", d.UID, err)
		}
	}
}

func TestPanelsHaveTheirPlaces(t *testing.T) {
	for _, d := range dashboards.All() {
		ids := map[int]bool{}
		titles := map[string]bool{}
		for _, p := range d.AllPanels() {
			if ids[p.ID] || titles[p.Title] {
				t.Errorf("%s: a second panel has the id %d, or the title %q", d.UID, p.ID, p.Title)
			}
			ids[p.ID] = true
			titles[p.Title] = true
			refs := map[string]bool{}
			for _, q := range p.Targets {
				if refs[q.RefID] {
					t.Errorf("%s: %s has two queries %s", d.UID, p.Title, q.RefID)
				}
				refs[q.RefID] = true
			}
			wantApart(t, d.UID, p.Panels)
		}
		wantApart(t, d.UID, d.Panels)
	}
}

// wantApart fails if panels overlap, or leave the grid.
func wantApart(t *testing.T, board string, panels []dashboards.Panel) {
	t.Helper()
	taken := map[[2]int]string{}
	for _, p := range panels {
		if p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("%s: %s ends in column %d of 24", board, p.Title, p.GridPos.X+p.GridPos.W)
		}
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				if taken[at] != "" {
					t.Fatalf("%s: %s lies on %s at %v", board, p.Title, taken[at], at)
				}
				taken[at] = p.Title
			}
		}
	}
}

var variable = regexp.MustCompile(`\$\{?([a-z_]+)`)

// Every variable that is used is there, and every one that is there is used.
func TestVariablesAreThere(t *testing.T) {
	for _, d := range dashboards.All() {
		there := map[string]bool{}
		for _, v := range d.Templating.List {
			there[v.Name] = true
		}
		used := map[string]bool{}
		panels := testkit.Must(json.Marshal(struct{ P, A any }{d.Panels, d.Annotations}))(t)
		for _, m := range variable.FindAllStringSubmatch(string(panels), -1) {
			if !strings.HasPrefix(m[1], "__") {
				used[m[1]] = true
			}
		}
		testkit.Same(t, there, used, d.UID, "(-there +used)")
		for _, asked := range queries(d) {
			if strings.Contains(asked, "@") || !strings.Contains(asked, `job=~"$job"`) {
				t.Errorf("%s asks %s, whichever job is chosen", d.UID, asked)
			}
			if regexp.MustCompile(`\ble\s*(=|!)`).MatchString(asked) {
				t.Errorf("%s asks %s: le is 5 or 5.0, by how it was scraped", d.UID, asked)
			}
		}
	}
}

// queries are all of a dashboard's.
func queries(d dashboards.Dashboard) (all []string) {
	for _, p := range d.AllPanels() {
		for _, q := range p.Targets {
			all = append(all, q.Expr)
		}
	}
	for _, a := range d.Annotations.List {
		all = append(all, a.Expr)
	}
	return all
}

var page = regexp.MustCompile(`/d/([a-z-]+)\?var-([a-z]+)=`)

// Links lead to dashboards that there are, and set variables that these have.
func TestLinksLeadSomewhere(t *testing.T) {
	all := dashboards.All()
	found := 0
	for _, d := range all {
		for _, m := range page.FindAllStringSubmatch(d.JSON(), -1) {
			found++
			i := slices.IndexFunc(all, func(d dashboards.Dashboard) bool { return d.UID == m[1] })
			if i < 0 || !slices.ContainsFunc(all[i].Templating.List, func(v dashboards.Variable) bool { return v.Name == m[2] }) {
				t.Errorf("%s has the link %s…", d.UID, m[0])
			}
		}
		for _, l := range d.Links {
			for _, other := range all {
				if !slices.Contains(other.Tags, l.Tags[0]) {
					t.Errorf("%s does not link to %s", d.UID, other.UID)
				}
			}
		}
	}
	if found < 5 {
		t.Errorf("%d links to pages of tenants", found)
	}
}

// Each alert says enough to act on, and its section is there.
func TestAlertsAreExplained(t *testing.T) {
	text := testkit.Must(os.ReadFile("../docs/alerts.md"))(t)
	_, sections, _ := strings.Cut(string(text), "\n## Alerts\n")
	var names []string
	for _, r := range alerts() {
		names = append(names, r.Alert)
		if r.Summary == "" || r.Description == "" || r.Severity == "" || !strings.HasSuffix(r.Runbook(), "/docs/alerts.md#"+strings.ToLower(r.Alert)) {
			t.Errorf("%s: %+v", r.Alert, r)
		}
		_, section, found := strings.Cut(sections, "\n### "+r.Alert+"\n")
		section, _, _ = strings.Cut(section, "\n### ")
		for _, part := range []string{"**Means.**", "**Look at.**", "**Do.**"} {
			if !found || !strings.Contains(section, part) {
				t.Errorf("docs/alerts.md has no %s under %s", part, r.Alert)
			}
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^### (Llmgov\w+)$`).FindAllStringSubmatch(sections, -1) {
		if !slices.Contains(names, m[1]) {
			t.Errorf("docs/alerts.md explains %s, which is no alert", m[1])
		}
	}
}

func alerts() (all []dashboards.Rule) {
	for _, g := range dashboards.Rules() {
		for _, r := range g.Rules {
			if r.Alert != "" {
				all = append(all, r)
			}
		}
	}
	return all
}

// Each alert has a case that fires, and one that does not. promtool runs them, see check.sh.
func TestAlertsHaveCases(t *testing.T) {
	text := testkit.Must(os.ReadFile("testdata/alerts.test.yml"))(t)
	fires := map[string]bool{}
	quiet := map[string]bool{}
	for _, c := range regexp.MustCompile(`alertname: (\w+)(.*)\n(\s+exp_alerts:)?(.*)`).FindAllStringSubmatch(string(text), -1) {
		if strings.Contains(c[2], "exp_alerts: []") || strings.TrimSpace(c[4]) == "[]" {
			quiet[c[1]] = true
		} else {
			fires[c[1]] = true
		}
	}
	for _, r := range alerts() {
		if !fires[r.Alert] || !quiet[r.Alert] {
			t.Errorf("%s: fires in a case: %v, does not in one: %v", r.Alert, fires[r.Alert], quiet[r.Alert])
		}
	}
}
