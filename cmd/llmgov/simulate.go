package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/llmgov/llmgov/internal/lab/simulate"
	simreport "github.com/llmgov/llmgov/internal/lab/simulate/report"
	"github.com/llmgov/llmgov/internal/lab/simulate/scenario"
)

type simulateCmd struct {
	Scenario string   `arg:"" optional:"" placeholder:"NAME|FILE" help:"A named scenario or a scenario file. Without one, the names are listed."`
	Output   string   `short:"o" placeholder:"FILE" help:"Write an HTML report, complete in one file."`
	Show     bool     `help:"Print the scenario's file instead of running it, as a start for your own."`
	JSON     bool     `name:"json" help:"Print the figures as JSON instead of a table."`
	Log      string   `placeholder:"FILE" help:"Write every event as JSON lines."`
	Seeds    []uint64 `placeholder:"N,…" help:"Seeds to run, instead of the scenario's."`
}

func (simulateCmd) Help() string {
	return `Runs traffic through the real admission code in virtual time, and compares the
capacity that each tenant received with that of a fluid, weighted max-min split, and
with what there would be instead: no governor, fixed parts, token buckets.

Example: llmgov simulate s2 --seeds 1,2 -o report.html
         llmgov simulate s2 --show >mine.yaml && llmgov simulate mine.yaml

Exit codes: 0 ok, 1 the file is invalid or missing, 2 the command line is wrong, or no scenario has that name.`
}

func (c simulateCmd) Run(e *env) error {
	if c.Scenario == "" {
		return listScenarios(e.stdout)
	}
	s, err := scenario.Find(c.Scenario)
	if errors.Is(err, scenario.ErrUnknown) {
		return &usageError{err.Error()}
	}
	if err != nil {
		return err
	}
	if c.Show {
		_, err := e.stdout.Write(s.Source)
		return err
	}
	opt := simulate.Options{Seeds: c.Seeds, Baselines: true}
	bar := newBar(e.stderr, "simulating")
	if bar != nil {
		opt.Progress = func(part float64) { _ = bar.Set(int(part * barSteps)) }
	}
	var r simulate.Result
	err = writeFile(c.Log, func(w io.Writer) (err error) {
		if c.Log != "" {
			opt.Log = w
		}
		r, err = simulate.Run(e.ctx, s, opt)
		return err
	})
	if bar != nil {
		_ = bar.Clear()
	}
	if err != nil {
		return err
	}
	if err := writeFile(c.Output, func(w io.Writer) error { return simreport.WriteHTML(w, r) }); err != nil {
		return err
	}
	if c.JSON {
		return simulate.WriteJSON(e.stdout, r)
	}
	if err := simreport.WriteTable(e.stdout, r); err != nil {
		return err
	}
	if c.Output != "" {
		fmt.Fprintf(e.stderr, "The report is in %s\n", c.Output)
	}
	return nil
}

func listScenarios(w io.Writer) error {
	for _, name := range scenario.Names() {
		s, err := scenario.Find(name)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "%-20s %s\n", name, s.About)
	}
	return nil
}

// writeFile fills a file by write, and removes it after an error. An empty name writes
// nowhere.
func writeFile(name string, write func(io.Writer) error) error {
	if name == "" {
		return write(io.Discard)
	}
	f, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("llmgov: %w", err)
	}
	w := bufio.NewWriterSize(f, 1<<20)
	err = write(w)
	if err == nil {
		err = w.Flush()
	}
	err = errors.Join(err, f.Close())
	if err != nil {
		_ = os.Remove(name)
	}
	return err
}
