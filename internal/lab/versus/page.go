package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The figures of the page are between these.
const (
	pageBegin = "<!-- figures: made by make versus -->\n"
	pageEnd   = "<!-- end of the figures -->\n"
)

// write writes the figures beside those of cases that were not run, and puts all tables on the page.
func (r *report) write(docs string) error {
	file := filepath.Join(docs, "comparison.json")
	earlier, err := readReport(file)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	r = r.with(earlier)
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, append(text, '\n'), 0o644); err != nil {
		return err
	}
	path := filepath.Join(docs, "comparison.md")
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	updated, err := withTables(string(page), tables(r))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, []byte(updated), 0o644)
}

// withTables is a page with other figures.
func withTables(page, tables string) (string, error) {
	before, rest, found := strings.Cut(page, pageBegin)
	_, after, ended := strings.Cut(rest, pageEnd)
	if !found || !ended {
		return "", errors.New("the page has no place for figures: a line " + strings.TrimSpace(pageBegin) + " and a line " + strings.TrimSpace(pageEnd))
	}
	return before + pageBegin + tables + pageEnd + after, nil
}

// tables are the figures as Markdown.
func tables(r *report) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Machine: %s. A cell is the median of the rounds, with the least and the greatest if they differ.\n\n", r.Machine)
	b.WriteString("| | version | how it was run |\n|---|---|---|\n")
	for _, g := range r.Gateways {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", g.Name, g.Version, g.Setting)
	}
	for _, f := range r.Tables {
		fmt.Fprintf(&b, "\n### %s\n\n%s\n\n*%s; load average %s; llmgov at commit %s.*\n\n| |", f.Title, f.Note, f.When, f.Load, f.Commit)
		for _, c := range f.Columns {
			b.WriteString(" " + c + " |")
		}
		b.WriteString("\n|---|" + strings.Repeat("---|", len(f.Columns)) + "\n")
		for _, row := range f.Rows {
			b.WriteString("| " + row.Title + " |")
			for _, c := range row.Cells {
				b.WriteString(" " + c.text(row.Unit) + " |")
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}

// text is a cell: its median, and its range if that is more than one figure.
func (c *cell) text(unit string) string {
	if c.Word != "" {
		return c.Word
	}
	if len(c.Values) == 0 {
		return "–"
	}
	figure := inUnit(middle(c.Values), unit)
	least := inUnit(slices.Min(c.Values), unit)
	greatest := inUnit(slices.Max(c.Values), unit)
	if least != greatest {
		figure += fmt.Sprintf(" (%s … %s)", least, greatest)
	}
	if unit == "" {
		return figure
	}
	return figure + " " + unit
}

// inUnit is a number with as many digits as mean something.
func inUnit(x float64, unit string) string {
	digits := 2
	switch {
	case unit == "" || unit == "%" || unit == "calls" || x >= 100 || x <= -100:
		digits = 0
	case x >= 10 || x <= -10:
		digits = 1
	}
	return fmt.Sprintf("%.*f", digits, x)
}
