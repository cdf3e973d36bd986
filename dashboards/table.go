package dashboards

// column is one of a table's: what it is called, in which unit, and the query for it, of
// which each row has one value.
type column struct {
	name, unit, expr string
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
		ref := string(rune('A' + i))
		field := "Value #" + ref
		names.IndexByName[field], names.RenameByName[field] = i+2, c.name
		queries = append(queries, now(c.expr))
		overrides = append(overrides, override(c.name, Property{ID: "unit", Value: c.unit}))
	}
	p := panel("table", title, description, "short", width, h, queries)
	p.FieldConfig.Defaults.Color.Mode = "thresholds"
	p.FieldConfig.Defaults.Custom = tableCustom{Align: "auto", DisplayMode: "auto", Filterable: true}
	p.FieldConfig.Overrides = append(overrides, override("Tenant", Property{
		ID: "links", Value: []DataLink{{Title: "Tenant ${__value.text}", URL: tenantPage("${__value.text}")}},
	}))
	p.Options = tableOptions{ShowHeader: true, SortBy: []sortBy{{DisplayName: columns[0].name, Desc: true}}}
	p.Transformations = []Transformation{{ID: "merge", Options: struct{}{}}, {ID: "organize", Options: names}}
	return p
}

func override(name string, properties ...Property) Override {
	return Override{Matcher: Matcher{ID: "byName", Options: name}, Properties: properties}
}
