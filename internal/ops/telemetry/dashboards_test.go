package telemetry

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"

	"github.com/llmgov/llmgov/dashboards"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// measured is what there is of a metric.
type measured struct {
	kind   dto.MetricType
	labels map[string]bool
}

// series are the names that Prometheus has for all metrics.
func series(t *testing.T) map[string]measured {
	t.Helper()
	m, _ := busy(t)
	families := testkit.Must(m.Registry().Gather())(t)
	all := map[string]measured{}
	for _, f := range families {
		one := measured{f.GetType(), map[string]bool{"job": true, "instance": true}}
		for _, l := range f.GetMetric()[0].GetLabel() {
			one.labels[l.GetName()] = true
		}
		if f.GetType() != dto.MetricType_HISTOGRAM {
			all[f.GetName()] = one
			continue
		}
		one.kind = dto.MetricType_COUNTER
		all[f.GetName()+"_sum"] = one
		all[f.GetName()+"_count"] = one
		buckets := measured{one.kind, maps.Clone(one.labels)}
		buckets.labels["le"] = true
		all[f.GetName()+"_bucket"] = buckets
	}
	return all
}

// asked are all queries of dashboards and rules, by what they are for.
func asked() map[string][]string {
	all := map[string][]string{}
	for _, d := range dashboards.All() {
		for _, v := range d.Templating.List {
			all[d.UID] = append(all[d.UID], v.Definition)
		}
		for _, a := range d.Annotations.List {
			all[d.UID] = append(all[d.UID], a.Expr)
		}
		for _, p := range d.AllPanels() {
			for _, q := range p.Targets {
				all[d.UID+": "+p.Title] = append(all[d.UID+": "+p.Title], q.Expr)
			}
		}
	}
	for _, g := range dashboards.Rules() {
		for _, r := range g.Rules {
			all[r.Record+r.Alert] = append(all[r.Record+r.Alert], r.Expr)
		}
	}
	return all
}

var (
	selector = regexp.MustCompile(`(rate|increase|changes)?(\()?([a-z_]+:)?(llmgov_[a-z_]+)([a-z0-9_:]*)(\{[^}]*\})?(\[)?`)
	matcher  = regexp.MustCompile(`([a-z_]+)\s*(?:=~|!~|!=|=)`)
)

// Each metric that is asked for is measured, has the labels by which it is chosen, and is
// counted up only where a rate is taken of it; and each that is measured is asked for.
func TestDashboardsAskForWhatIsMeasured(t *testing.T) {
	have := series(t)
	used := map[string]bool{}
	for of, exprs := range asked() {
		for _, expr := range exprs {
			for _, m := range selector.FindAllStringSubmatch(expr, -1) {
				name := m[4]
				matchers := m[6]
				rated := (m[1] == "rate" || m[1] == "increase") && m[7] == "["
				if m[3] != "" || m[5] != "" {
					continue // recorded, not measured: see dashboards.Rules
				}
				one, ok := have[name]
				if !ok {
					t.Errorf("%s asks for %s, which is not measured: %s", of, name, expr)
					continue
				}
				used[name] = true
				for _, l := range matcher.FindAllStringSubmatch(matchers, -1) {
					if !one.labels[l[1]] {
						t.Errorf("%s asks for %s by %s, which it has not: %s", of, name, l[1], expr)
					}
				}
				joined := strings.Contains(expr, ") "+name) || strings.Contains(expr, "label_values("+name)
				if counter := one.kind == dto.MetricType_COUNTER; counter != rated && !joined {
					t.Errorf("%s: counter %v, rated %v: %s in %s", of, counter, rated, name, expr)
				}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(have)) {
		base := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_sum"), "_count"), "_bucket")
		if strings.HasPrefix(name, namespace+"_") && !used[name] && !used[base+"_bucket"] {
			t.Errorf("no dashboard and no rule shows %s", name)
		}
	}
}
