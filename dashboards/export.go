package dashboards

import (
	"bytes"
	_ "embed" // the texts of files
	"encoding/json"
)

// File is one that Export writes, with slashes in its path.
type File struct{ Path, Text string }

//go:embed files/dashboards.yaml
var dashboardProvider string

//go:embed files/datasources.yaml
var dataSources string

//go:embed files/prometheus.yml
var prometheusConfig string

// Files are all that Grafana and Prometheus need.
func Files() []File {
	rules := Rules()
	files := []File{
		{"grafana/provisioning/dashboards/llmgov.yaml", dashboardProvider},
		{"grafana/provisioning/datasources/llmgov.yaml", dataSources},
		{"prometheus/prometheus.yml", prometheusConfig},
		{"prometheus/llmgov-recordings.yml", YAML(rules[:1])},
		{"prometheus/llmgov-alerts.yml", YAML(rules[1:])},
	}
	for _, d := range All() {
		files = append(files, File{"grafana/dashboards/" + d.UID + ".json", d.JSON()})
	}
	return files
}

// JSON is the dashboard as Grafana imports it.
func (d Dashboard) JSON() string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // people read it
	e.SetIndent("", "  ")
	if err := e.Encode(d); err != nil {
		panic("llmgov: BUG: " + err.Error()) // of values that are all in this package
	}
	return b.String()
}
