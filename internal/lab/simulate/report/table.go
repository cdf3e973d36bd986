package report

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/llmgov/llmgov/internal/lab/simulate"
)

const (
	tableWidth = 100
	barWidth   = 24
	// tableTenants is how many tenants a terminal shows.
	tableTenants = 20
)

// WriteTable writes the result for a terminal of 100 columns.
func WriteTable(out io.Writer, r simulate.Result) error {
	w := bufio.NewWriter(out)
	fmt.Fprintf(w, "%s\n", r.Scenario.Name)
	for _, text := range []string{r.Scenario.About, setting(&r)} {
		for _, line := range wrap(text, tableWidth-2) {
			fmt.Fprintf(w, "  %s\n", line)
		}
	}
	fmt.Fprintf(w, "\n%-52s%14s%14s%14s\n", "", "all seeds", "least", "most")
	for _, g := range simulate.AllFigures {
		v := *g.Of(&r.Figures)
		if !v.Known() || g.Key == "store_round_trips_per_1000" && v == 0 {
			continue
		}
		fmt.Fprintf(w, "%-52s%14s%14s%14s\n", g.Title, text(g.Unit, v), text(g.Unit, *g.Of(&r.Least)), text(g.Unit, *g.Of(&r.Most)))
	}
	writeTenants(w, &r)
	for i, line := range comparison(&r) {
		if i == 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "%-44s", line[0])
		for _, value := range line[1:] {
			fmt.Fprintf(w, "%14s", value)
		}
		fmt.Fprintln(w)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("simulate: writing the table: %w", err)
	}
	return nil
}

func writeTenants(w io.Writer, r *simulate.Result) {
	list, more := topTenants(r.Tenants, tableTenants)
	wide := 6
	most := simulate.Value(0)
	for _, t := range list {
		wide = max(wide, len([]rune(t.Name)))
		most = max(most, t.Entitled, t.Received)
	}
	wide = min(wide, 20)
	fmt.Fprintf(w, "\n%-*s %7s %9s %9s  %-*s %9s %9s %8s\n", wide, "tenant", "weight", "entitled", "received", barWidth, "", "wait p50", "p99", "refused")
	for _, t := range list {
		fmt.Fprintf(w, "%-*s %7.4g %9s %9s  %s %9s %9s %8s\n", wide, cut(t.Name, wide), t.Weight,
			text(simulate.Ratio, t.Entitled), text(simulate.Ratio, t.Received), bar(float64(t.Received/most), float64(t.Entitled/most)),
			text(simulate.Seconds, t.WaitP50), text(simulate.Seconds, t.WaitP99), text(simulate.Ratio, t.Refused))
	}
	if more > 0 {
		fmt.Fprintf(w, "… and %s more (--json lists all)\n", thousands(int64(more)))
	}
}

// topTenants are the ones that are entitled to most, in the order of the
// scenario, and how many are left out.
func topTenants(all []simulate.TenantFigures, n int) (list []simulate.TenantFigures, more int) {
	if len(all) <= n {
		return all, 0
	}
	order := slices.Clone(all)
	slices.SortStableFunc(order, func(a, b simulate.TenantFigures) int { return cmp.Compare(b.Entitled, a.Entitled) })
	return order[:n], len(all) - n
}

// bar draws the received part, and a mark where the entitled part ends.
func bar(received, entitled float64) string {
	cells := []rune(strings.Repeat("·", barWidth))
	full := func(x float64) int { return int(math.Round(min(max(x, 0), 1) * barWidth)) }
	for i := range full(received) {
		cells[i] = '█'
	}
	if at := full(entitled); at > 0 && math.Abs(received-entitled) > 1.0/barWidth {
		cells[at-1] = '┃'
	}
	return string(cells)
}

func cut(text string, width int) string {
	if runes := []rune(text); len(runes) > width {
		return string(runes[:width-1]) + "…"
	}
	return text
}
