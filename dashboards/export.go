package dashboards

import (
	"bytes"
	_ "embed" // the texts of files
	"encoding/json"
)

// File is an exported file, with slashes in its path.
type File struct{ Path, Text string }

//go:embed files/dashboards.yaml
var dashboardProvider string

//go:embed files/datasources.yaml
var dataSources string

//go:embed files/prometheus.yml
var prometheusConfig string

// Files are all files for Grafana and Prometheus.
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
	e.SetEscapeHTML(false) // because people read it
	e.SetIndent("", "  ")
	if err := e.Encode(d); err != nil {
		panic("llmgov: BUG: " + err.Error()) // all values are of this package
	}
	return b.String()
}

// All are the dashboards, in the order for reading.
func All() []Dashboard {
	return []Dashboard{overview(), fairness(), tenant(), federation(), streams()}
}

// Rules are all groups, the recordings first.
func Rules() []Group { return append([]Group{recordings()}, alerts()...) }
