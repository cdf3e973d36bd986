package dashboards

import (
	"fmt"
	"strings"
)

// width is that of Grafana's grid.
const width = 24

const tag = "llmgov"

func uid(name string) string { return "llmgov-" + name }

// matchers replace the @names in queries.
var matchers = strings.NewReplacer(
	"@gateway", `job=~"$job", instance=~"$instance"`,
	"@job", `job=~"$job"`,
	"@pool", `pool=~"$pool"`,
	"@tenant", `tenant=~"$tenant"`,
	"@one", `tenant=~"$one"`,
	"@family", `tenant=~"$one(/.*)?"`, // with its teams
	"@region", `region=~"$region"`,
)

func expand(expr string) string { return matchers.Replace(strings.Join(strings.Fields(expr), " ")) }

// dashboard is an empty one with the variables that all have.
func dashboard(name, title, description string, more ...Variable) *Dashboard {
	return &Dashboard{
		UID: uid(name), Title: "llmgov / " + title, Description: description, Tags: []string{tag},
		SchemaVersion: 37, Version: 1, Style: "dark", Timezone: "browser", GraphTooltip: 1, Refresh: "30s",
		Time:        TimeRange{From: "now-1h", To: "now"},
		Templating:  Templating{List: append(variables(), more...)},
		Annotations: Annotations{List: annotations()},
		Links: []Link{{
			Title: "llmgov", Type: "dashboards", Icon: "external link", Tooltip: "The other dashboards of llmgov", Tags: []string{tag}, IncludeVars: true, KeepTime: true,
		}},
	}
}

func variables() []Variable {
	source := Variable{Name: "datasource", Label: "Data source", Type: "datasource", Query: "prometheus", Refresh: 1, Options: []string{}}
	// One job: gateways of another, such as a test environment, may have pools of the same names.
	job := values("job", "Job", `label_values(llmgov_policy_reload_success, job)`).single()
	instance := values("instance", "Gateway", `label_values(llmgov_policy_reload_success{@job}, instance)`)
	return []Variable{source, job, instance, values("pool", "Pool", `label_values(llmgov_leases{@gateway}, pool)`)}
}

func tenants() Variable {
	return values("tenant", "Tenant", `label_values(llmgov_inflight_requests{@gateway}, tenant)`)
}

// oneTenant is the variable of the board about one tenant. It has a name of its own, because boards
// pass their variables to each other, and All is no tenant.
func oneTenant() Variable {
	return values("one", "Tenant", `label_values(llmgov_inflight_requests{@gateway}, tenant)`).single()
}

// values is a variable with several values, at first all.
func values(name, label, asked string) Variable {
	asked = expand(asked)
	return Variable{
		Name: name, Label: label, Type: "query", Datasource: &prometheus, Definition: asked, Query: VariableQuery{Query: asked, RefID: name},
		Refresh: 2, Sort: 1, Multi: true, IncludeAll: true, AllValue: ".*", Options: []string{},
		Current: &VariableValue{Selected: true, Text: "All", Value: "$__all"},
	}
}

// single allows only one value.
func (v Variable) single() Variable {
	v.Multi = false
	v.IncludeAll = false
	v.AllValue = ""
	v.Current = nil
	return v
}

func annotations() []Annotation {
	return []Annotation{
		{
			Name: "Policy reloads", Datasource: prometheus, Enable: true, Step: "30s", IconColor: neutral,
			Expr:        expand(`1000 * llmgov_policy_reload_timestamp_seconds{@gateway}`),
			TitleFormat: "Policy reloaded", TextFormat: "by {{instance}}", TagKeys: "instance", UseValueForTime: true,
		},
		{
			Name: "Degraded", Datasource: prometheus, Enable: true, Step: "30s", IconColor: bad,
			Expr:        expand(`max by (pool, mode) (llmgov_degraded{@gateway, @pool}) == 1`),
			TitleFormat: "Degraded: {{mode}}", TextFormat: "pool {{pool}} is cut off from the store", TagKeys: "pool,mode",
		},
	}
}

// row puts panels under a title, below all others.
func (d *Dashboard) row(title string, panels ...Panel) *Panel {
	y := d.bottom()
	d.add(Panel{Type: "row", Title: title, GridPos: GridPos{H: 1, W: width, Y: y}, Collapsed: new(bool)})
	at := len(d.Panels) - 1
	for _, p := range arranged(panels, y+1) {
		d.add(p)
	}
	return &d.Panels[at]
}

// perPool puts panels under a title, once for each selected pool.
func (d *Dashboard) perPool(title string, panels ...Panel) {
	d.row(title, panels...).Repeat = "pool"
}

// folded puts panels under a title that is collapsed at first.
func (d *Dashboard) folded(title string, panels ...Panel) {
	y := d.bottom()
	closed := true
	row := Panel{Type: "row", Title: title, GridPos: GridPos{H: 1, W: width, Y: y}, Collapsed: &closed}
	for _, p := range arranged(panels, y+1) {
		d.panels++
		p.ID = d.panels
		row.Panels = append(row.Panels, p)
	}
	d.add(row)
}

// AllPanels are the panels of a dashboard, those of folded rows included.
func (d Dashboard) AllPanels() []Panel {
	var all []Panel
	for _, p := range d.Panels {
		all = append(all, p)
		all = append(all, p.Panels...)
	}
	return all
}

// bottom is the first free line of the grid.
func (d *Dashboard) bottom() int {
	y := 0
	for _, p := range d.Panels {
		y = max(y, p.GridPos.Y+p.GridPos.H)
	}
	return y
}

// arranged places panels from left to right, in as many lines as needed, from line y on.
func arranged(panels []Panel, y int) []Panel {
	x := 0
	below := y
	for i := range panels {
		at := &panels[i].GridPos
		if x+at.W > width {
			x = 0
			y = below
		}
		at.X = x
		at.Y = y
		x += at.W
		below = max(below, y+at.H)
	}
	return panels
}

func (d *Dashboard) add(p Panel) {
	d.panels++
	p.ID = d.panels
	d.Panels = append(d.Panels, p)
}

// quantile is a quantile of a histogram's buckets over some time, by a label if it is not empty.
func quantile(q float64, by, buckets, over string) string {
	if by != "" {
		by += ", "
	}
	return fmt.Sprintf("histogram_quantile(%g, sum by (%sle) (rate(%s[%s])))", q, by, buckets, over)
}

// axes are the used parts of each pool's limits on tokens, requests and slots. Each gateway
// reports the usage of all that share the limit, as far as it knows.
func axes(by, matchers string) string {
	of := strings.Replace(matchers, "{", `{tenant="", `, 1)
	return fmt.Sprintf(`max by (%[1]s, axis) (llmgov_used%[2]s / llmgov_limit%[2]s)`, by, of)
}

// poolUsed is the used part of each pool's tokens a minute. Gateways that share a limit are added
// up; of others it is the fullest.
func poolUsed(by, matchers string) string {
	return fmt.Sprintf(`sum by (%[1]s) (llmgov_pool_tokens_rolling%[2]s and on (job, instance, pool) llmgov_grant_tokens)
		/ max by (%[1]s) (llmgov_pool_tokens_limit%[2]s and on (job, instance, pool) llmgov_grant_tokens)
		or max by (%[1]s) (llmgov_pool_tokens_rolling%[2]s / llmgov_pool_tokens_limit%[2]s)`, by, matchers)
}
