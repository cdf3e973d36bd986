package dashboards

import (
	"maps"
	"slices"
	"strconv"
)

// prometheus is the data source selected at the top of a dashboard.
var prometheus = Source{Type: "prometheus", UID: "${datasource}"}

// Colours that mean the same everywhere.
const (
	good    = "green"
	fair    = "yellow"
	held    = "orange" // refused by llmgov, or delayed
	bad     = "red"
	neutral = "blue"
	faint   = "text"
)

// Units. Grafana scales tokens as it does SI units: 225 ktok/min.
const (
	tokens          = "si:tok"
	tokensPerMinute = "si:tok/min"
)

// outcomeColors are the colours of outcomes of calls and tries in all panels. Otherwise Grafana
// chooses colours by the alphabet, so that failed is green if nothing is cancelled.
var outcomeColors = map[string]string{
	"ok": good, "refused": held, "failed": bad, "cancelled": faint, // of calls
	"served": good, "busy": held, "silent": bad, "stale": fair, "abandoned": faint, // of tries
}

// query is a query of a panel.
func query(expr, legend string) Target {
	return Target{Datasource: prometheus, Expr: expand(expr), LegendFormat: legend, EditorMode: "code", Format: "time_series", Range: true}
}

// now is a query for the present values, as rows of a table.
func now(expr string) Target {
	q := query(expr, "")
	q.Format = "table"
	q.Range = false
	q.Instant = true
	return q
}

// panel has the fields of all types. Its row sets its place.
func panel(kind, title, description, unit string, w, h int, queries []Target) Panel {
	for i := range queries {
		queries[i].RefID = string(rune('A' + i))
	}
	return Panel{
		Type: kind, Title: title, Description: description, GridPos: GridPos{W: w, H: h}, Datasource: &prometheus, Targets: queries,
		FieldConfig: &FieldConfig{Overrides: []Override{}, Defaults: Field{
			Unit: unit, Color: Color{Mode: "palette-classic"}, Thresholds: steps(neutral), Mappings: []Mapping{}, Links: []DataLink{},
		}},
	}
}

// series is a panel of values over time.
func series(title, description, unit string, w int, queries ...Target) Panel {
	p := panel("timeseries", title, description, unit, w, 8, queries)
	p.FieldConfig.Defaults.Min = new(float64)
	custom := seriesCustom{
		DrawStyle: "line", LineWidth: 1, ShowPoints: "never", Stacking: stacking{Mode: "none", Group: "A"}, ThresholdsStyle: modeStyle{Mode: "off"},
		AxisWidth: 60, // the same in all, so that panels beside each other show the same times
	}
	if unit == "percentunit" {
		// Otherwise an axis of zeros alone ends at 10000 %.
		one := 1.0
		digit := 1
		custom.AxisSoftMax = &one
		p.FieldConfig.Defaults.Decimals = &digit
	}
	p.FieldConfig.Defaults.Custom = custom
	p.Options = seriesOptions{
		// last, not lastNotNull: a series that has ended has no last value.
		Legend:  legend{ShowLegend: true, DisplayMode: "table", Placement: "right", Calcs: []string{"last", "max"}, SortBy: "Last", SortDesc: true},
		Tooltip: tooltip{Mode: "multi", Sort: "desc"},
	}
	return p
}

// named gives each series whose name contains one of outcomeColors that colour.
func (p Panel) named() Panel {
	for _, name := range slices.Sorted(maps.Keys(outcomeColors)) {
		p.FieldConfig.Overrides = append(p.FieldConfig.Overrides, Override{
			Matcher:    Matcher{ID: "byRegexp", Options: "/\\b" + name + "$/"},
			Properties: []Property{{ID: "color", Value: Color{Mode: "fixed", FixedColor: outcomeColors[name]}}},
		})
	}
	return p
}

// stat shows the last value, large.
func stat(title, description, unit string, w int, queries ...Target) Panel {
	p := panel("stat", title, description, unit, w, 4, queries)
	p.FieldConfig.Defaults.Color.Mode = "thresholds"
	p.Options = statOptions{ColorMode: "value", GraphMode: "none", JustifyMode: "auto", Orientation: "auto", ReduceOptions: last(), TextMode: "auto"}
	return p
}

// bars shows the current values side by side, in the order of the query.
func bars(title, description, unit string, w int, queries ...Target) Panel {
	for i := range queries {
		queries[i].Range = false
		queries[i].Instant = true
	}
	p := panel("bargauge", title, description, unit, w, 8, queries)
	p.FieldConfig.Defaults.Color.Mode = "thresholds"
	p.FieldConfig.Defaults.Min = new(float64)
	p.Options = barOptions{DisplayMode: "gradient", Orientation: "horizontal", ReduceOptions: last(), ShowUnfilled: true, MinVizHeight: 10}
	return p
}

// timeline shows states over time.
func timeline(title, description string, w int, mapping Mapping, queries ...Target) Panel {
	p := panel("state-timeline", title, description, "none", w, 6, queries)
	// The mapping has the colours, because with thresholds Grafana merges values and writes 1+.
	p.FieldConfig.Defaults.Color.Mode = "fixed"
	p.FieldConfig.Defaults.Mappings = []Mapping{mapping}
	p.FieldConfig.Defaults.Custom = timelineCustom{FillOpacity: 70}
	p.Options = timelineOptions{
		MergeValues: true, ShowValue: "auto", AlignValue: "center", RowHeight: .9,
		Legend:  legend{DisplayMode: "list", Placement: "bottom", Calcs: []string{}},
		Tooltip: tooltip{Mode: "single", Sort: "none"},
	}
	return p
}

// heatmap draws the buckets of a histogram over time.
func heatmap(title, description, unit string, w int, buckets string) Panel {
	q := query("sum by (le) (increase("+buckets+"[$__rate_interval]))", "{{le}}")
	q.Format = "heatmap"
	p := panel("heatmap", title, description, unit, w, 8, []Target{q})
	p.Options = heatmapOptions{
		CellGap: 1, FilterValues: heatmapFilter{LE: 1e-9}, Legend: heatmapShow{Show: true}, RowsFrame: heatmapRows{Layout: "auto"},
		Color:   heatmapColor{Mode: "scheme", Scheme: "Oranges", Scale: "exponential", Exponent: .5, Steps: 64, Fill: "dark-orange"},
		Tooltip: heatmapTooltip{Show: true}, YAxis: heatmapAxis{AxisPlacement: "left", Unit: unit},
	}
	return p
}

func last() reduce { return reduce{Calcs: []string{"lastNotNull"}} }

// from sets thresholds: the colour below all, then pairs of a value and the colour from it on.
func (p Panel) from(first string, pairs ...any) Panel {
	p.FieldConfig.Defaults.Thresholds = steps(first, pairs...)
	return p
}

func steps(first string, pairs ...any) Thresholds {
	t := Thresholds{Mode: "absolute", Steps: []Threshold{{Color: first}}}
	for i := 0; i < len(pairs); i += 2 {
		value := pairs[i].(float64)
		t.Steps = append(t.Steps, Threshold{Color: pairs[i+1].(string), Value: &value})
	}
	return t
}

// line draws the thresholds into a series.
func (p Panel) line() Panel {
	c := p.FieldConfig.Defaults.Custom.(seriesCustom)
	c.ThresholdsStyle.Mode = "dashed"
	p.FieldConfig.Defaults.Custom = c
	return p
}

// stacked puts series on top of each other.
func (p Panel) stacked() Panel {
	c := p.FieldConfig.Defaults.Custom.(seriesCustom)
	c.Stacking.Mode = "normal"
	c.FillOpacity = 30
	p.FieldConfig.Defaults.Custom = c
	return p
}

// rising lists the smallest value first.
func (p Panel) rising() Panel {
	o := p.Options.(seriesOptions)
	o.Legend.SortDesc = false
	p.Options = o
	return p
}

// softMax lets the axis reach at least to a value.
func (p Panel) softMax(least float64) Panel {
	c := p.FieldConfig.Defaults.Custom.(seriesCustom)
	c.AxisSoftMax = &least
	p.FieldConfig.Defaults.Custom = c
	return p
}

// colored gives one value a colour of its own, regardless of thresholds.
func (p Panel) colored(name, color string) Panel {
	p.FieldConfig.Overrides = append(p.FieldConfig.Overrides, override(name, Property{ID: "color", Value: Color{Mode: "fixed", FixedColor: color}}))
	return p
}

// upTo ends the axis at a value that is not, or should not be, exceeded.
func (p Panel) upTo(most float64) Panel {
	p.FieldConfig.Defaults.Max = &most
	return p
}

// orElse is the text if there are no series, which is the usual case.
func (p Panel) orElse(text string) Panel {
	p.FieldConfig.Defaults.NoValue = text
	return p
}

// toTenant links each series to its tenant's own page.
func (p Panel) toTenant() Panel {
	p.FieldConfig.Defaults.Links = []DataLink{{Title: "Tenant ${__field.labels.tenant}", URL: tenantPage("${__field.labels.tenant}")}}
	return p
}

func tenantPage(tenant string) string {
	return "/d/" + uid("tenant") + "?var-one=" + tenant + "&${datasource:queryparam}&${job:queryparam}&${__url_time_range}"
}

// onOff maps 0 and 1 to texts.
func onOff(off, offColor, on, onColor string) Mapping {
	m := Mapping{Type: "value", Options: map[string]MappingText{}}
	for i, text := range []MappingText{{Text: off, Color: offColor}, {Text: on, Color: onColor, Index: 1}} {
		m.Options[strconv.Itoa(i)] = text
	}
	return m
}

// mapped gives values a text.
func (p Panel) mapped(m Mapping) Panel {
	p.FieldConfig.Defaults.Mappings = []Mapping{m}
	return p
}
