package dashboards

// The options of each type of panel.

type legend struct {
	ShowLegend  bool     `json:"showLegend"`
	DisplayMode string   `json:"displayMode"`
	Placement   string   `json:"placement"`
	Calcs       []string `json:"calcs"`
	SortBy      string   `json:"sortBy,omitempty"`
	SortDesc    bool     `json:"sortDesc,omitempty"`
}

type tooltip struct {
	Mode string `json:"mode"`
	Sort string `json:"sort"`
}

type seriesOptions struct {
	Legend  legend  `json:"legend"`
	Tooltip tooltip `json:"tooltip"`
}

type seriesCustom struct {
	DrawStyle       string    `json:"drawStyle"`
	LineWidth       int       `json:"lineWidth"`
	FillOpacity     int       `json:"fillOpacity"`
	ShowPoints      string    `json:"showPoints"`
	SpanNulls       bool      `json:"spanNulls"`
	Stacking        stacking  `json:"stacking"`
	ThresholdsStyle modeStyle `json:"thresholdsStyle"`
	AxisSoftMax     *float64  `json:"axisSoftMax,omitempty"`
	AxisWidth       int       `json:"axisWidth"`
}

type stacking struct {
	Mode  string `json:"mode"`
	Group string `json:"group"`
}

type modeStyle struct {
	Mode string `json:"mode"`
}

type reduce struct {
	Calcs  []string `json:"calcs"`
	Fields string   `json:"fields"`
	Values bool     `json:"values"`
}

type statOptions struct {
	ColorMode     string `json:"colorMode"`
	GraphMode     string `json:"graphMode"`
	JustifyMode   string `json:"justifyMode"`
	Orientation   string `json:"orientation"`
	ReduceOptions reduce `json:"reduceOptions"`
	TextMode      string `json:"textMode"`
}

type barOptions struct {
	DisplayMode   string `json:"displayMode"`
	Orientation   string `json:"orientation"`
	ReduceOptions reduce `json:"reduceOptions"`
	ShowUnfilled  bool   `json:"showUnfilled"`
	MinVizHeight  int    `json:"minVizHeight"`
	MinVizWidth   int    `json:"minVizWidth"`
}

type tableOptions struct {
	ShowHeader bool     `json:"showHeader"`
	SortBy     []sortBy `json:"sortBy"`
}

type sortBy struct {
	DisplayName string `json:"displayName"`
	Desc        bool   `json:"desc"`
}

type tableCustom struct {
	Align       string `json:"align"`
	DisplayMode string `json:"displayMode"`
	Filterable  bool   `json:"filterable"`
}

type timelineOptions struct {
	MergeValues bool    `json:"mergeValues"`
	ShowValue   string  `json:"showValue"`
	AlignValue  string  `json:"alignValue"`
	RowHeight   float64 `json:"rowHeight"`
	Legend      legend  `json:"legend"`
	Tooltip     tooltip `json:"tooltip"`
}

type timelineCustom struct {
	LineWidth   int `json:"lineWidth"`
	FillOpacity int `json:"fillOpacity"`
}

type heatmapOptions struct {
	Calculate    bool           `json:"calculate"`
	CellGap      int            `json:"cellGap"`
	Color        heatmapColor   `json:"color"`
	FilterValues heatmapFilter  `json:"filterValues"`
	Legend       heatmapShow    `json:"legend"`
	RowsFrame    heatmapRows    `json:"rowsFrame"`
	Tooltip      heatmapTooltip `json:"tooltip"`
	YAxis        heatmapAxis    `json:"yAxis"`
}

type heatmapColor struct {
	Mode     string  `json:"mode"`
	Scheme   string  `json:"scheme"`
	Scale    string  `json:"scale"`
	Exponent float64 `json:"exponent"`
	Steps    int     `json:"steps"`
	Fill     string  `json:"fill"`
	Reverse  bool    `json:"reverse"`
}

type heatmapFilter struct {
	LE float64 `json:"le"` // cells with no more are left out
}

type heatmapShow struct {
	Show bool `json:"show"`
}

type heatmapRows struct {
	Layout string `json:"layout"`
}

type heatmapTooltip struct {
	Show       bool `json:"show"`
	YHistogram bool `json:"yHistogram"`
}

type heatmapAxis struct {
	AxisPlacement string `json:"axisPlacement"`
	Unit          string `json:"unit"`
	Reverse       bool   `json:"reverse"`
}
