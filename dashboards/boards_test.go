package dashboards_test

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/llmgov/llmgov/dashboards"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// eachPanel calls check with every panel of every board.
func eachPanel(t *testing.T, check func(t *testing.T, board string, p dashboards.Panel, text string)) {
	for _, d := range dashboards.All() {
		for _, p := range d.AllPanels() {
			b := testkit.Must(json.Marshal(p))(t)
			check(t, d.UID, p, string(b))
		}
	}
}

// Boards hand their variables on. All, which is chosen at first, is no tenant.
func TestTenantBoardIsNotOpenedForAll(t *testing.T) {
	for _, d := range dashboards.All() {
		for _, v := range d.Templating.List {
			if d.UID == "llmgov-tenant" && (v.Name == "tenant" || v.Name == "one" && v.IncludeAll) {
				t.Errorf("the board of one tenant has the variable %s, All: %v", v.Name, v.IncludeAll)
			}
			if d.UID != "llmgov-tenant" && v.Name == "one" {
				t.Errorf("%s has the variable of the board of one tenant", d.UID)
			}
		}
	}
}

// Another deployment's pools may have the same names, so gateways of one job are shown.
func TestOneJobIsShown(t *testing.T) {
	for _, d := range dashboards.All() {
		for _, v := range d.Templating.List {
			if v.Name == "job" && (v.Multi || v.IncludeAll) {
				t.Errorf("%s adds up jobs", d.UID)
			}
		}
	}
}

// The tenant that gets least of its entitlement is in the first row of the first table.
func TestStarvedTenantIsSeenFirst(t *testing.T) {
	for _, d := range dashboards.All() {
		if d.UID != "llmgov-fairness" {
			continue
		}
		i := slices.IndexFunc(d.Panels, func(p dashboards.Panel) bool { return p.Type == "table" })
		b := testkit.Must(json.Marshal(d.Panels[i]))(t)
		for _, want := range []string{`"sortBy":[{"displayName":"Received / entitled","desc":false}]`, `"color-background"`} {
			if !strings.Contains(string(b), want) {
				t.Errorf("the table lacks %s:\n%s", want, b)
			}
		}
		for _, p := range d.Panels[:i] {
			if p.Type == "timeseries" {
				t.Errorf("the chart %q stands above the table", p.Title)
			}
		}
	}
}

// By the alphabet failed calls would be green as long as none is cancelled.
func TestOutcomesHaveFixedColours(t *testing.T) {
	found := 0
	eachPanel(t, func(t *testing.T, board string, p dashboards.Panel, text string) {
		if !strings.Contains(text, "{{outcome}}") {
			return
		}
		found++
		for outcome, color := range map[string]string{"ok": "green", "refused": "orange", "failed": "red", "cancelled": "text"} {
			want := regexp.MustCompile(`\\\\b` + outcome + `\$/"},"properties":\[\{"id":"color","value":\{"mode":"fixed","fixedColor":"` + color + `"`)
			if !want.MatchString(text) {
				t.Errorf("%s: %s: %s is not %s", board, p.Title, outcome, color)
			}
		}
	})
	if found < 3 {
		t.Errorf("%d panels show outcomes", found)
	}
}

// With colours by thresholds Grafana merges states, and writes 1+ instead of up.
func TestStatesAreWritten(t *testing.T) {
	eachPanel(t, func(t *testing.T, board string, p dashboards.Panel, text string) {
		if p.Type == "state-timeline" && (!strings.Contains(text, `"color":{"mode":"fixed"}`) || !strings.Contains(text, `"alignValue":"center"`)) {
			t.Errorf("%s: %s", board, text)
		}
	})
}

// Grafana calls a series whose legend is empty "Value".
func TestQueuesOfNoPoolHaveAName(t *testing.T) {
	eachPanel(t, func(t *testing.T, board string, p dashboards.Panel, text string) {
		for _, q := range p.Targets {
			if q.LegendFormat == "{{pool}}" && strings.Contains(q.Expr, "llmgov_queue_depth") && !strings.Contains(q.Expr, `"own limits"`) {
				t.Errorf("%s: %s: %s", board, p.Title, q.Expr)
			}
		}
	})
}

// A chart of each tenant takes the browser a minute when there are many.
func TestChartsOfTenantsAreBounded(t *testing.T) {
	eachPanel(t, func(t *testing.T, board string, p dashboards.Panel, text string) {
		if p.Type != "timeseries" || board == "llmgov-tenant" {
			return
		}
		for _, q := range p.Targets {
			if strings.Contains(q.LegendFormat, "{{tenant}}") && !strings.Contains(q.Expr, "topk(") && !strings.Contains(q.Expr, "bottomk(") {
				t.Errorf("%s: %s draws every tenant", board, p.Title)
			}
			if strings.Contains(q.Expr, "sum by (tenant, pool)") && strings.Contains(text, `"stacking":{"mode":"normal"`) && q.LegendFormat != "{{tenant}}" {
				t.Errorf("%s: %s puts tenants of several pools on top of each other", board, p.Title)
			}
		}
	})
}

// Ranked bars are of now: a range query with topk shows whoever was among the ten at any time.
func TestRanksAreOfNow(t *testing.T) {
	eachPanel(t, func(t *testing.T, board string, p dashboards.Panel, text string) {
		if p.Type != "bargauge" {
			return
		}
		for _, q := range p.Targets {
			if !q.Instant || q.Range || !strings.HasPrefix(q.Expr, "sort_desc(topk(10,") {
				t.Errorf("%s: %s: %+v", board, p.Title, q)
			}
		}
		if p.FieldConfig.Defaults.NoValue == "" {
			t.Errorf("%s: %s says nothing when there are none", board, p.Title)
		}
	})
}

// Figures of tokens say so.
func TestTokensHaveAUnit(t *testing.T) {
	eachPanel(t, func(t *testing.T, board string, p dashboards.Panel, text string) {
		if p.FieldConfig == nil || p.Type == "table" {
			return
		}
		isRatio := strings.Contains(text, `"percentunit"`)
		if strings.Contains(text, "llmgov_tokens_total") && !isRatio && !strings.HasPrefix(p.FieldConfig.Defaults.Unit, "si:tok") {
			t.Errorf("%s: %s has the unit %s", board, p.Title, p.FieldConfig.Defaults.Unit)
		}
	})
}

// The tiles of a tenant count its teams.
func TestTenantTilesCountTeams(t *testing.T) {
	eachPanel(t, func(t *testing.T, board string, p dashboards.Panel, text string) {
		if board == "llmgov-tenant" && p.Type == "stat" && !strings.Contains(p.Targets[0].Expr, `tenant=~"$one(/.*)?"`) {
			t.Errorf("%s: %s", p.Title, p.Targets[0].Expr)
		}
	})
}
