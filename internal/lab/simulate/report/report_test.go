package report

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/lab/simulate"
	"github.com/llmgov/llmgov/internal/lab/simulate/scenario"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

func TestTableFitsATerminal(t *testing.T) {
	for _, name := range []string{"s2-deny", "s5", "two-axes", "durations", "hierarchy", "d4"} {
		var b strings.Builder
		testkit.OK(t, WriteTable(&b, brief(t, name)))
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
	testkit.OK(t, WriteHTML(&b, res))
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
	for _, part := range []string{"MIT License", "uPlot", "exponent: 1.1", "prefers-color-scheme", "<th>token buckets</th>"} {
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
	named := testkit.Must(scenario.Find("s2"))(t)
	file := filepath.Join(t.TempDir(), "mine.yaml")
	testkit.OK(t, os.WriteFile(file, named.Source, 0o600))
	for argument, want := range map[string]string{"s2": "llmgov simulate s2<", file: "llmgov simulate " + file + "<"} {
		s := testkit.Must(scenario.Find(argument))(t)
		s.Duration = 2 * time.Minute
		res := testkit.Must(simulate.Run(t.Context(), s, simulate.Options{Seeds: []uint64{1}}))(t)
		var b strings.Builder
		testkit.OK(t, WriteHTML(&b, res))
		if !strings.Contains(b.String(), want) {
			t.Errorf("the report of %s does not say %q", argument, want)
		}
	}
}

// brief plays the beginning of a scenario.
func brief(t *testing.T, name string) simulate.Result {
	t.Helper()
	s := testkit.Must(scenario.Find(name))(t)
	s.Duration = 65 * time.Second
	s.Warmup = 5 * time.Second
	return testkit.Must(simulate.Run(t.Context(), s, simulate.Options{Seeds: []uint64{1}, Baselines: true}))(t)
}
