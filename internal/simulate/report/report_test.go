package report

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/simulate"
	"github.com/llmgov/llmgov/internal/simulate/scenario"
)

func TestTableFitsATerminal(t *testing.T) {
	for _, name := range []string{"s2-deny", "s5", "two-axes", "durations", "hierarchy", "d4"} {
		var b strings.Builder
		if err := WriteTable(&b, brief(t, name)); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(b.String()) {
			if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > tableWidth {
				t.Errorf("%s: a line of %d characters: %s", name, n, line)
			}
		}
		if !strings.Contains(b.String(), "utilization of L") || strings.Contains(b.String(), "NaN") {
			t.Errorf("%s:\n%s", name, b.String())
		}
	}
}

func TestReportIsOneFile(t *testing.T) {
	res := brief(t, "s5")
	res.Scenario.About = `</script><b onclick="x">`
	var b strings.Builder
	if err := WriteHTML(&b, res); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, loads := range []string{`\bsrc=`, `<link`, `@import`, `url\(`, `\bfetch\(`, `XMLHttpRequest`} {
		if found := regexp.MustCompile(loads).FindString(page); found != "" {
			t.Errorf("the report loads something: %s", found)
		}
	}
	if strings.Contains(page, `<b onclick`) {
		t.Error("the scenario's text is not escaped")
	}
	_, rest, _ := strings.Cut(page, `id="data">`)
	text, _, _ := strings.Cut(rest, "</script>")
	var charts simulate.Charts
	if err := json.Unmarshal([]byte(text), &charts); err != nil {
		t.Fatalf("the data of the charts: %v", err)
	}
	if n := len(charts.Lines); n != simulate.MostLines+1 || charts.Lines[n-1].Name != "all others" {
		t.Errorf("%d lines, the last %q", n, charts.Lines[n-1].Name)
	}
	for _, l := range charts.Lines {
		if len(l.Received) != len(charts.Times) || len(l.WaitP99) != len(charts.Times) {
			t.Errorf("%s has %d points for %d times", l.Name, len(l.Received), len(charts.Times))
		}
	}
	for _, part := range []string{"MIT License", "uPlot", "exponent: 1.1", "prefers-color-scheme"} {
		if !strings.Contains(page, part) {
			t.Errorf("no %q in the report", part)
		}
	}
	if n := len(page); n > 400_000 {
		t.Errorf("the report has %d bytes", n)
	}
}

// TestReport_SaysHowToRunItAgain: with the path, if the scenario is a file's, whatever its name is.
func TestReport_SaysHowToRunItAgain(t *testing.T) {
	named, err := scenario.Find("s2")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "mine.yaml")
	if err := os.WriteFile(file, named.Source, 0o600); err != nil {
		t.Fatal(err)
	}
	for argument, want := range map[string]string{"s2": "llmgov simulate s2<", file: "llmgov simulate " + file + "<"} {
		s, err := scenario.Find(argument)
		if err != nil {
			t.Fatal(err)
		}
		s.Duration = 2 * time.Minute
		res, err := simulate.Run(t.Context(), s, simulate.Options{Seeds: []uint64{1}})
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		if err := WriteHTML(&b, res); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.String(), want) {
			t.Errorf("the report of %s does not say %q", argument, want)
		}
	}
}

// brief plays two minutes of a scenario.
func brief(t *testing.T, name string) simulate.Result {
	t.Helper()
	s, err := scenario.Find(name)
	if err != nil {
		t.Fatal(err)
	}
	s.Duration = 2 * time.Minute
	s.Warmup = time.Minute
	res, err := simulate.Run(t.Context(), s, simulate.Options{Seeds: []uint64{1}})
	if err != nil {
		t.Fatal(err)
	}
	return res
}
