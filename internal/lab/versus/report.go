package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// report has all figures. It is written as JSON, and the page's tables are made of that alone.
type report struct {
	Machine  string        `json:"machine"`
	Gateways []description `json:"gateways"`
	Tables   []*figures    `json:"tables"`
}

// description is a gateway's line of the page.
type description struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Setting string `json:"setting"`
}

// figures are those of one case.
type figures struct {
	Name    string   `json:"name"`
	Title   string   `json:"title"`
	Note    string   `json:"note"`
	When    string   `json:"when"`
	Load    string   `json:"load_average"` // of one minute, at the beginning and at the end
	Commit  string   `json:"commit"`       // of llmgov
	Columns []string `json:"columns"`
	Rows    []*row   `json:"rows"`
}

// row is one measure of all gateways.
type row struct {
	Title string  `json:"title"`
	Unit  string  `json:"unit"` // see cell
	Cells []*cell `json:"cells"`
}

// cell is one measure of one gateway: numbers, one a round, or a word instead.
type cell struct {
	Values []float64 `json:"values,omitempty"`
	Word   string    `json:"word,omitempty"`
}

func newReport(list []*contestant, versions map[string]string) *report {
	r := &report{}
	r.Machine = fmt.Sprintf("%d cores (%s), %s", runtime.NumCPU(), processor(), runtime.Version())
	for _, c := range list {
		r.Gateways = append(r.Gateways, description{Name: c.name, Version: versions[c.name], Setting: c.setting})
	}
	return r
}

// table begins the figures of a case.
func (r *report) table(name, title, note string, columns []string) *figures {
	f := &figures{Name: name, Title: title, Note: note, Columns: columns}
	f.When = time.Now().UTC().Format("2 January 2006, 15:04 UTC")
	f.Load = loadAverage()
	r.Tables = append(r.Tables, f)
	return f
}

// finish notes the end of the last case.
func (r *report) finish(commit string) {
	f := r.Tables[len(r.Tables)-1]
	f.Load += " to " + loadAverage()
	f.Commit = commit
}

// with is the report with the tables of an earlier one for the cases that were not run, in the order of the page.
func (r *report) with(earlier *report) *report {
	merged := *r
	merged.Tables = nil
	for _, c := range cases {
		for _, from := range []*report{r, earlier} {
			i := slices.IndexFunc(from.Tables, func(f *figures) bool { return f.Name == c.name })
			if i >= 0 {
				merged.Tables = append(merged.Tables, from.Tables[i])
				break
			}
		}
	}
	return &merged
}

// row begins a row.
func (f *figures) row(title, unit string) *row {
	r := &row{Title: title, Unit: unit}
	for range f.Columns {
		r.Cells = append(r.Cells, &cell{})
	}
	f.Rows = append(f.Rows, r)
	return r
}

// add adds the value of a round.
func (r *row) add(column int, value float64) {
	r.Cells[column].Values = append(r.Cells[column].Values, value)
}

// say puts a word in place of numbers.
func (r *row) say(column int, word string) { r.Cells[column].Word = word }

func (b *bench) columns() (names []string) {
	for _, c := range b.chosen {
		names = append(names, c.name)
	}
	return names
}

// readReport reads comparison.json. There is an empty one if there is no file.
func readReport(path string) (*report, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &report{}, nil
	}
	if err != nil {
		return nil, err
	}
	r := &report{}
	return r, json.Unmarshal(text, r)
}

// loadAverage is that of the last minute.
func loadAverage() string {
	text, _ := os.ReadFile("/proc/loadavg")
	one, _, _ := strings.Cut(string(text), " ")
	return one
}

// processor is the name of the machine's processor.
func processor() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(line, ":")
		if strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "processor unknown"
}

// middle is the median of numbers.
func middle(list []float64) float64 {
	s := slices.Sorted(slices.Values(list))
	half := len(s) / 2
	if len(s)%2 == 0 {
		return (s[half-1] + s[half]) / 2
	}
	return s[half]
}
