package main

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgov/llmgov/internal/testkit"
)

var update = flag.Bool("update", false, "write the tables of docs/comparison.json into docs/comparison.md")

// TestPage_HasTheFiguresOfTheRun: no figure of the page's tables is typed by hand.
func TestPage_HasTheFiguresOfTheRun(t *testing.T) {
	r := testkit.Must(readReport("../../docs/comparison.json"))(t)
	if len(r.Tables) != len(cases) {
		t.Errorf("%d tables for %d cases", len(r.Tables), len(cases))
	}
	const path = "../../docs/comparison.md"
	page := testkit.Must(os.ReadFile(path))(t)
	want := testkit.Must(withTables(string(page), tables(r)))(t)
	if *update {
		testkit.OK(t, os.WriteFile(path, []byte(want), 0o644))
		return
	}
	if diff := cmp.Diff(want, string(page)); diff != "" {
		t.Errorf("the page has other figures than comparison.json; go test ./internal/versus -update writes these:\n%s", diff)
	}
}

func TestTables(t *testing.T) {
	r := &report{Machine: "4 cores"}
	r.Gateways = []description{{Name: "a", Version: "1.2.3", Setting: "bare"}}
	f := r.table("x", "A case", "About it.", []string{"a", "b"})
	f.When = "1 May 2026, 10:00 UTC"
	f.Load = "0.10 to 2.00"
	f.Commit = "01234567"
	calls := f.row("calls", "")
	for _, n := range []float64{10, 12, 11} {
		calls.add(0, n)
	}
	calls.say(1, "no such limit")
	cpu := f.row("CPU", "ms")
	cpu.add(0, 0.126)
	cpu.add(0, 0.134)
	want := `Machine: 4 cores. A cell is the median of the rounds, with the least and the greatest if they differ.

| | version | how it was run |
|---|---|---|
| a | 1.2.3 | bare |

### A case

About it.

*1 May 2026, 10:00 UTC; load average 0.10 to 2.00; llmgov at commit 01234567.*

| | a | b |
|---|---|---|
| calls | 11 (10 … 12) | no such limit |
| CPU | 0.13 ms | – |
`
	if diff := cmp.Diff(want, tables(r)); diff != "" {
		t.Error(diff)
	}
}

// TestReport_With: a run of some cases leaves the figures of the others as they were.
func TestReport_With(t *testing.T) {
	earlier := &report{Tables: []*figures{{Name: "budget"}, {Name: "hog", When: "before"}}}
	now := &report{Machine: "m", Tables: []*figures{{Name: "start"}, {Name: "hog", When: "now"}}}
	want := &report{Machine: "m", Tables: []*figures{{Name: "budget"}, {Name: "hog", When: "now"}, {Name: "start"}}}
	if diff := cmp.Diff(want, now.with(earlier)); diff != "" {
		t.Error(diff)
	}
}

func TestWithTables(t *testing.T) {
	page := "before\n" + pageBegin + "old\n" + pageEnd + "after\n"
	got, err := withTables(page, "new\n")
	if want := strings.Replace(page, "old", "new", 1); err != nil || got != want {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	for _, bad := range []string{"", pageBegin, pageEnd + pageBegin} {
		if _, err := withTables(bad, "new\n"); err == nil {
			t.Errorf("%q has no place for figures", bad)
		}
	}
}

func TestInUnit(t *testing.T) {
	for _, c := range []struct {
		x    float64
		unit string
		want string
	}{
		{0.126, "ms", "0.13"},
		{12.34, "ms", "12.3"},
		{123.4, "ms", "123"},
		{-0.5, "ms", "-0.50"},
		{99.6, "%", "100"},
		{150, "calls", "150"},
		{2, "", "2"},
	} {
		if got := inUnit(c.x, c.unit); got != c.want {
			t.Errorf("%v %s: %s, want %s", c.x, c.unit, got, c.want)
		}
	}
}
