package dashboards

import (
	"fmt"
	"strings"
)

// width is that of Grafana's grid.
const width = 24

const tag = "llmgov"

func uid(name string) string { return "llmgov-" + name }

// All are the dashboards, in the order in which to read them.
func All() []Dashboard {
	return []Dashboard{overview(), fairness(), tenant(), federation(), streams()}
}

// matchers are what @names in queries stand for.
var matchers = strings.NewReplacer(
	"@gateway", `job=~"$job", instance=~"$instance"`,
	"@job", `job=~"$job"`,
	"@pool", `pool=~"$pool"`,
	"@tenant", `tenant=~"$tenant"`,
	"@region", `region=~"$region"`,
)

func expand(expr string) string { return matchers.Replace(strings.Join(strings.Fields(expr), " ")) }

// dashboard begins one with the variables that all have.
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
	job := values("job", "Job", `label_values(llmgov_policy_reload_success, job)`)
	instance := values("instance", "Gateway", `label_values(llmgov_policy_reload_success{@job}, instance)`)
	return []Variable{source, job, instance, values("pool", "Pool", `label_values(llmgov_leases{@gateway}, pool)`)}
}

func tenants() Variable {
	return values("tenant", "Tenant", `label_values(llmgov_inflight_requests{@gateway}, tenant)`)
}

// values is a variable of which several may be chosen, and all are at first.
func values(name, label, asked string) Variable {
	asked = expand(asked)
	return Variable{
		Name: name, Label: label, Type: "query", Datasource: &prometheus, Definition: asked, Query: VariableQuery{Query: asked, RefID: name},
		Refresh: 2, Sort: 1, Multi: true, IncludeAll: true, AllValue: ".*", Options: []string{},
		Current: &VariableValue{Selected: true, Text: "All", Value: "$__all"},
	}
}

// one lets only one value be chosen.
func (v Variable) one() Variable {
	v.Multi, v.IncludeAll, v.AllValue, v.Current = false, false, "", nil
	return v
}

func annotations() []Annotation {
	return []Annotation{
		{
			Name: "Policy reloads", Datasource: prometheus, Enable: true, Step: "30s", IconColor: neutral,
			Expr:        expand(`changes(llmgov_policy_reload_timestamp_seconds{@gateway}[1m]) > 0`),
			TitleFormat: "Policy taken over", TextFormat: "by {{instance}}", TagKeys: "instance",
		},
		{
			Name: "Degraded", Datasource: prometheus, Enable: true, Step: "30s", IconColor: bad,
			Expr:        expand(`max by (pool, mode) (llmgov_degraded{@gateway, @pool}) == 1`),
			TitleFormat: "Degraded: {{mode}}", TextFormat: "pool {{pool}} is cut off from the store", TagKeys: "pool,mode",
		},
	}
}

// row puts panels below what there is, from left to right, under a title.
func (d *Dashboard) row(title string, panels ...Panel) {
	y := 0
	for _, p := range d.Panels {
		y = max(y, p.GridPos.Y+p.GridPos.H)
	}
	d.add(Panel{Type: "row", Title: title, GridPos: GridPos{H: 1, W: width, Y: y}, Collapsed: new(bool)})
	x, top, bottom := 0, y+1, y+1
	for _, p := range panels {
		if x+p.GridPos.W > width {
			x, top = 0, bottom
		}
		p.GridPos.X, p.GridPos.Y = x, top
		x, bottom = x+p.GridPos.W, max(bottom, top+p.GridPos.H)
		d.add(p)
	}
}

func (d *Dashboard) add(p Panel) {
	p.ID = len(d.Panels) + 1
	d.Panels = append(d.Panels, p)
}

// quantile is of a histogram's buckets over some time, by a label, or none.
func quantile(q float64, by, buckets, over string) string {
	if by != "" {
		by += ", "
	}
	return fmt.Sprintf("histogram_quantile(%g, sum by (%sle) (rate(%s[%s])))", q, by, buckets, over)
}

// poolUsed is how much of the minute's tokens is used of each pool. What gateways have
// that share a limit is added up; of others it is the fullest.
func poolUsed(by, matchers string) string {
	return fmt.Sprintf(`sum by (%[1]s) (llmgov_pool_tokens_rolling%[2]s and on (job, instance, pool) llmgov_grant_tokens)
		/ max by (%[1]s) (llmgov_pool_tokens_limit%[2]s and on (job, instance, pool) llmgov_grant_tokens)
		or max by (%[1]s) (llmgov_pool_tokens_rolling%[2]s / llmgov_pool_tokens_limit%[2]s)`, by, matchers)
}
