package simulate

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
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

// documented are the names that scripts rely on.
var documented = []string{
	"utilization", "misallocation", "misallocation_max", "long_run_deviation", "jain", "rolling_max",
	"first_admission_seconds_max", "wait_p50_seconds", "wait_p99_seconds", "refused", "promise_kept",
	"promise_late_p95_seconds", "store_round_trips_per_1000", "tenants",
}

func TestJSONHasTheDocumentedNames(t *testing.T) {
	var b bytes.Buffer
	if err := WriteJSON(&b, run(t, "s3", Options{Seeds: []uint64{1, 2}})); err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	for _, key := range documented {
		if _, ok := got[key]; !ok {
			t.Errorf("no %s in the JSON object", key)
		}
	}
	if got["promise_kept"] != nil {
		t.Errorf("promise_kept is %v where nobody was promised anything, want null", got["promise_kept"])
	}
	tenant, _ := got["tenants"].([]any)[0].(map[string]any)
	for _, key := range []string{"name", "entitled", "received", "wait_p99_seconds"} {
		if _, ok := tenant[key]; !ok {
			t.Errorf("no %s in a tenant", key)
		}
	}
	if n := len(got["per_seed"].([]any)); n != 2 {
		t.Errorf("figures of %d seeds, want 2", n)
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
	var charts Charts
	if err := json.Unmarshal([]byte(text), &charts); err != nil {
		t.Fatalf("the data of the charts: %v", err)
	}
	if n := len(charts.Lines); n != mostLines+1 || charts.Lines[n-1].Name != "all others" {
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
	named, err := Find("s2")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "mine.yaml")
	if err := os.WriteFile(file, named.Source, 0o600); err != nil {
		t.Fatal(err)
	}
	for argument, want := range map[string]string{"s2": "llmgov simulate s2<", file: "llmgov simulate " + file + "<"} {
		s, err := Find(argument)
		if err != nil {
			t.Fatal(err)
		}
		s.Duration = 2 * time.Minute
		res, err := Run(t.Context(), s, Options{Seeds: []uint64{1}})
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
