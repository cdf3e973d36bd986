package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/llmgov/llmgov/dashboards"
)

type dashboardsCmd struct {
	Export dashboardsExportCmd `cmd:"" help:"Write dashboards for Grafana, and rules and alerts for Prometheus, into a folder."`
}

func (dashboardsCmd) Help() string {
	return `Example: llmgov dashboards export monitoring`
}

type dashboardsExportCmd struct {
	Dir string `arg:"" name:"DIR" help:"The folder. It is created if it does not exist; files of the same names are replaced."`
}

func (dashboardsExportCmd) Help() string {
	return `Example: llmgov dashboards export monitoring

Writes grafana/dashboards and grafana/provisioning for Grafana 9.4 or newer, and rules,
alerts and an example of a config for Prometheus into prometheus.

Exit codes: 0 ok, 1 a file cannot be written, 2 the command line is wrong.`
}

func (d dashboardsExportCmd) Run(e *env) error {
	for _, f := range dashboards.Files() {
		path := filepath.Join(d.Dir, filepath.FromSlash(f.Path))
		if err := putFile(path, f.Text); err != nil {
			return fmt.Errorf("llmgov: %w", err)
		}
		fmt.Fprintln(e.stdout, path)
	}
	return nil
}

// putFile writes a file, and creates its folders.
func putFile(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o644)
}
