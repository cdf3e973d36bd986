package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/llmgov/llmgov/presets"
)

type presetsCmd struct {
	List presetsListCmd `cmd:"" help:"List the built-in presets and the purpose of each."`
	Show presetsShowCmd `cmd:"" help:"Print a preset as YAML, to copy and change."`
}

func (presetsCmd) Help() string {
	return `Example: llmgov presets show balanced >llmgov.yaml

Exit codes: 0 ok, 2 the command line is wrong, or there is no such preset.`
}

type presetsListCmd struct{}

func (presetsListCmd) Help() string { return `Example: llmgov presets list` }

func (presetsListCmd) Run(e *env) error {
	w := tabwriter.NewWriter(e.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "NAME\tKIND\tFOR\n")
	for _, p := range presets.All() {
		fmt.Fprintf(w, "%s\t%s\t%s\n", p.Name, p.Kind, p.About)
	}
	return w.Flush()
}

type presetsShowCmd struct {
	Name string `arg:"" help:"The preset, as list names it."`
}

func (presetsShowCmd) Help() string { return `Example: llmgov presets show saas >tenants/tiers.yaml` }

func (p presetsShowCmd) Run(e *env) error {
	preset, ok := presets.Find(p.Name)
	if !ok {
		var names []string
		for _, p := range presets.All() {
			names = append(names, p.Name)
		}
		return &usageError{fmt.Sprintf("there is no preset %q; known are %s", p.Name, strings.Join(names, ", "))}
	}
	_, err := io.WriteString(e.stdout, preset.YAML)
	return err
}
