package dashboards

// Dashboard is Grafana's, with the fields that ours use.
type Dashboard struct {
	UID           string      `json:"uid"`
	Title         string      `json:"title"`
	Description   string      `json:"description"`
	Tags          []string    `json:"tags"`
	SchemaVersion int         `json:"schemaVersion"`
	Version       int         `json:"version"`
	Style         string      `json:"style"`
	Timezone      string      `json:"timezone"`
	Editable      bool        `json:"editable"`
	GraphTooltip  int         `json:"graphTooltip"` // 1: the cross-hair is in all panels at once
	Refresh       string      `json:"refresh"`
	Time          TimeRange   `json:"time"`
	Templating    Templating  `json:"templating"`
	Annotations   Annotations `json:"annotations"`
	Links         []Link      `json:"links"`
	Panels        []Panel     `json:"panels"`

	panels int // with those of folded rows
}

// TimeRange is the time shown at first.
type TimeRange struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// Source names a data source.
type Source struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

// Templating has the variables.
type Templating struct {
	List []Variable `json:"list"`
}

// Variable is a selector at the top of a dashboard.
type Variable struct {
	Name       string         `json:"name"`
	Label      string         `json:"label"`
	Type       string         `json:"type"`
	Datasource *Source        `json:"datasource,omitempty"`
	Definition string         `json:"definition,omitempty"`
	Query      any            `json:"query"` // a plugin's name, or a VariableQuery
	Refresh    int            `json:"refresh"`
	Regex      string         `json:"regex"`
	Sort       int            `json:"sort"`
	Multi      bool           `json:"multi"`
	IncludeAll bool           `json:"includeAll"`
	AllValue   string         `json:"allValue,omitempty"`
	Current    *VariableValue `json:"current,omitempty"`
	Hide       int            `json:"hide"`
	Options    []string       `json:"options"` // always empty, because they are queried
}

// VariableQuery queries Prometheus for the values of a variable.
type VariableQuery struct {
	Query string `json:"query"`
	RefID string `json:"refId"`
}

// VariableValue is the value selected at first.
type VariableValue struct {
	Selected bool   `json:"selected"`
	Text     string `json:"text"`
	Value    string `json:"value"`
}

// Annotations are the marks in all panels.
type Annotations struct {
	List []Annotation `json:"list"`
}

// Annotation marks the times at which its query has values.
type Annotation struct {
	Name        string `json:"name"`
	Datasource  Source `json:"datasource"`
	Enable      bool   `json:"enable"`
	Expr        string `json:"expr"`
	Step        string `json:"step"`
	IconColor   string `json:"iconColor"`
	TitleFormat string `json:"titleFormat"`
	TextFormat  string `json:"textFormat"`
	TagKeys     string `json:"tagKeys"`
	// UseValueForTime marks the time that the query's value names, in milliseconds.
	UseValueForTime bool `json:"useValueForTime,omitempty"`
}

// Link leads from a dashboard to others.
type Link struct {
	Title       string   `json:"title"`
	Type        string   `json:"type"`
	Icon        string   `json:"icon"`
	Tooltip     string   `json:"tooltip"`
	URL         string   `json:"url"`
	Tags        []string `json:"tags"`
	AsDropdown  bool     `json:"asDropdown"`
	TargetBlank bool     `json:"targetBlank"`
	IncludeVars bool     `json:"includeVars"`
	KeepTime    bool     `json:"keepTime"`
}

// Panel is one picture, or the title of a row.
type Panel struct {
	ID              int              `json:"id"`
	Type            string           `json:"type"`
	Title           string           `json:"title"`
	Description     string           `json:"description,omitempty"`
	GridPos         GridPos          `json:"gridPos"`
	Datasource      *Source          `json:"datasource,omitempty"`
	Targets         []Target         `json:"targets,omitempty"`
	FieldConfig     *FieldConfig     `json:"fieldConfig,omitempty"`
	Options         any              `json:"options,omitempty"` // of its type, see options.go
	Transformations []Transformation `json:"transformations,omitempty"`
	Collapsed       *bool            `json:"collapsed,omitempty"` // of a row
	Repeat          string           `json:"repeat,omitempty"`    // of a row: once for each value of this variable
	Panels          []Panel          `json:"panels,omitempty"`    // of a collapsed row
}

// GridPos is a place on a grid of 24 columns.
type GridPos struct {
	H int `json:"h"`
	W int `json:"w"`
	X int `json:"x"`
	Y int `json:"y"`
}

// Target is a query.
type Target struct {
	RefID        string `json:"refId"`
	Datasource   Source `json:"datasource"`
	Expr         string `json:"expr"`
	LegendFormat string `json:"legendFormat"`
	EditorMode   string `json:"editorMode"`
	Format       string `json:"format"`
	Range        bool   `json:"range"`
	Instant      bool   `json:"instant"`
}

// FieldConfig is the display of values.
type FieldConfig struct {
	Defaults  Field      `json:"defaults"`
	Overrides []Override `json:"overrides"`
}

// Field is the display of one value.
type Field struct {
	Unit       string     `json:"unit"`
	Min        *float64   `json:"min,omitempty"`
	Max        *float64   `json:"max,omitempty"`
	Decimals   *int       `json:"decimals,omitempty"`
	NoValue    string     `json:"noValue,omitempty"`
	Color      Color      `json:"color"`
	Thresholds Thresholds `json:"thresholds"`
	Mappings   []Mapping  `json:"mappings"`
	Links      []DataLink `json:"links"`
	Custom     any        `json:"custom,omitempty"` // of its type, see options.go
}

// Color is the source of colours.
type Color struct {
	Mode       string `json:"mode"`
	FixedColor string `json:"fixedColor,omitempty"`
}

// Thresholds give values colours.
type Thresholds struct {
	Mode  string      `json:"mode"`
	Steps []Threshold `json:"steps"`
}

// Threshold is the colour from a value on; the first is for all lower values, with nil.
type Threshold struct {
	Color string   `json:"color"`
	Value *float64 `json:"value"`
}

// Mapping gives values a text.
type Mapping struct {
	Type    string                 `json:"type"`
	Options map[string]MappingText `json:"options"`
}

// MappingText is the text shown for a value.
type MappingText struct {
	Text  string `json:"text"`
	Color string `json:"color"`
	Index int    `json:"index"`
}

// DataLink links a value to another page.
type DataLink struct {
	Title string `json:"title"`
	URL   string `json:"url"`
}

// Override changes fields that a matcher finds.
type Override struct {
	Matcher    Matcher    `json:"matcher"`
	Properties []Property `json:"properties"`
}

// Matcher finds fields.
type Matcher struct {
	ID      string `json:"id"`
	Options string `json:"options"`
}

// Property is the changed property of a field.
type Property struct {
	ID    string `json:"id"`
	Value any    `json:"value"`
}

// Transformation changes the rows or columns of a table.
type Transformation struct {
	ID      string `json:"id"`
	Options any    `json:"options"`
}
