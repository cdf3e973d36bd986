package dashboards

// column is a column of a table. Each row has one value of its query.
type column struct {
	name, unit, expr string
	steps            Thresholds // of the cell's colour; may be empty
	ascending        bool       // the order of the table, in its first column
}

type organize struct {
	ExcludeByName map[string]bool   `json:"excludeByName"`
	IndexByName   map[string]int    `json:"indexByName"`
	RenameByName  map[string]string `json:"renameByName"`
}

// table has a row for each tenant and pool, and a column for each query; the first sorts.
func table(title, description string, h int, columns ...column) Panel {
	names := organize{
		ExcludeByName: map[string]bool{"Time": true},
		IndexByName:   map[string]int{"tenant": 0, "pool": 1},
		RenameByName:  map[string]string{"tenant": "Tenant", "pool": "Pool"},
	}
	var queries []Target
	var overrides []Override
	for i, c := range columns {
		field := "Value #" + string(rune('A'+i))
		names.IndexByName[field] = i + 2
		names.RenameByName[field] = c.name
		queries = append(queries, now(c.expr))
		overrides = append(overrides, override(c.name, c.properties()...))
	}
	p := tablePanel(title, description, h, queries, names)
	p.FieldConfig.Overrides = append(overrides, override("Tenant", Property{
		ID: "links", Value: []DataLink{{Title: "Tenant ${__value.text}", URL: tenantPage("${__value.text}")}},
	}))
	p.Options = tableOptions{ShowHeader: true, SortBy: []sortBy{{DisplayName: columns[0].name, Desc: !columns[0].ascending}}}
	p.Transformations = append([]Transformation{{ID: "merge", Options: struct{}{}}}, p.Transformations...)
	return p
}

func (c column) properties() []Property {
	all := []Property{{ID: "unit", Value: c.unit}}
	if c.steps.Steps != nil {
		all = append(all, Property{ID: "thresholds", Value: c.steps}, Property{ID: "custom.displayMode", Value: "color-background"})
	}
	return all
}

// alertTable lists the alerts of llmgov in Prometheus.
func alertTable(title, description string, h int) Panel {
	names := organize{
		ExcludeByName: map[string]bool{"Time": true, "Value": true, "__name__": true, "job": true},
		IndexByName:   map[string]int{"alertstate": 0, "alertname": 1, "severity": 2, "pool": 3, "tenant": 4, "instance": 5},
		RenameByName: map[string]string{
			"alertstate": "State", "alertname": "Alert", "severity": "Severity", "pool": "Pool", "tenant": "Tenant", "instance": "Gateway",
		},
	}
	p := tablePanel(title, description, h, []Target{now(`ALERTS{job=~"$job", alertname=~"Llmgov.*"}`)}, names)
	p.Options = tableOptions{ShowHeader: true, SortBy: []sortBy{{DisplayName: "State"}}}
	return p.orElse("no alert fires")
}

func tablePanel(title, description string, h int, queries []Target, names organize) Panel {
	p := panel("table", title, description, "short", width, h, queries)
	p.FieldConfig.Defaults.Color.Mode = "thresholds"
	p.FieldConfig.Defaults.Custom = tableCustom{Align: "auto", DisplayMode: "auto", Filterable: true}
	p.Transformations = []Transformation{{ID: "organize", Options: names}}
	return p
}

func override(name string, properties ...Property) Override {
	return Override{Matcher: Matcher{ID: "byName", Options: name}, Properties: properties}
}
