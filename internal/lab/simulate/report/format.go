package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/internal/lab/simulate"
	"github.com/llmgov/llmgov/internal/lab/simulate/scenario"
	"github.com/llmgov/llmgov/internal/lib/strictyaml"
)

// text is a figure as people read it; "–" where it does not apply.
func text(u simulate.Unit, v simulate.Value) string {
	x := float64(v)
	switch {
	case !v.Known():
		return "–"
	case math.IsInf(x, 0):
		return "never"
	case u == simulate.Ratio:
		return strconv.FormatFloat(100*x, 'f', 2, 64) + " %"
	case u == simulate.Seconds:
		return strconv.FormatFloat(x, 'f', 2, 64) + " s"
	case u == simulate.Count:
		return thousands(int64(math.Round(x)))
	default:
		return strconv.FormatFloat(x, 'f', 4, 64)
	}
}

// thousands writes 600,000.
func thousands(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// setting is the scenario in one line.
func setting(r *simulate.Result) string {
	s := &r.Scenario
	var parts []string
	seeds := make([]string, len(r.Seeds))
	for i, x := range r.Seeds {
		seeds[i] = strconv.FormatUint(x, 10)
	}
	parts = append(parts, fmt.Sprintf("%s after a warm-up of %s", strictyaml.SpellDuration(s.Duration-s.Warmup), strictyaml.SpellDuration(s.Warmup)))
	word := "seeds"
	if len(seeds) == 1 {
		word = "seed"
	}
	parts = append(parts, word+" "+strings.Join(seeds, " "))
	for k, limit := range s.Pool.Minute() {
		if limit > 0 {
			parts = append(parts, thousands(limit)+" "+strings.ReplaceAll(escrow.Axis(k).String(), "_", " ")+"/min")
		}
	}
	if s.Pool.CountsTokens() {
		parts = append(parts, map[escrow.Accounting]string{
			escrow.AdmitMax: "booked when admitted", escrow.Production: "counted when produced", escrow.Settled: "counted at the end",
		}[s.Pool.Accounting])
		if s.Estimates == scenario.Learned {
			parts = append(parts, "lengths learned")
		}
	}
	if s.Pool.Concurrency > 0 {
		parts = append(parts, thousands(s.Pool.Concurrency)+" slots")
	}
	if n := len(r.Scenario.Nodes); n > 0 {
		parts = append(parts, fmt.Sprint(n, " nodes"))
	}
	parts = append(parts, map[scenario.Refuse]string{
		scenario.Wait: "callers wait", scenario.Deny: "callers are refused and back off", scenario.DenyHinted: "callers are refused and come back when told",
		scenario.SDK: "callers are refused and come back twice",
	}[s.Refuse])
	return strings.Join(parts, " · ")
}

// comparison are lines of a table: names, and then, figure by figure, its title and its values of llmgov and of each baseline.
// It is empty if no baselines were played.
func comparison(r *simulate.Result) (lines [][]string) {
	if len(r.Baselines) == 0 {
		return nil
	}
	names := []string{"instead, on the same calls", "llmgov"}
	for b := range r.Baselines {
		names = append(names, simulate.Baseline(b).Title())
	}
	lines = append(lines, names)
	for _, g := range simulate.AllFigures {
		switch g.Key {
		case "utilization", "misallocation", "wait_p50_seconds", "wait_p99_seconds", "refused", "given_up", "long_run_deviation":
			line := []string{g.Title, text(g.Unit, *g.Of(&r.Figures))}
			for i := range r.Baselines {
				line = append(line, text(g.Unit, *g.Of(&r.Baselines[i].Figures)))
			}
			lines = append(lines, line)
		}
	}
	const most = 8 // tenants
	for i, t := range r.Tenants[:min(most, len(r.Tenants))] {
		line := []string{cut(t.Name, 16) + " received, entitled to " + text(simulate.Ratio, t.Entitled), text(simulate.Ratio, t.Received)}
		for _, b := range r.Baselines {
			line = append(line, text(simulate.Ratio, b.Tenants[i].Received))
		}
		lines = append(lines, line)
	}
	return lines
}

// wrap breaks a text into lines of at most so many characters.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len([]rune(line))+1+len([]rune(word)) > width {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}
