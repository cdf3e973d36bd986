package simulate

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

const (
	tableWidth = 100
	barWidth   = 24
	// tableTenants is how many tenants a terminal shows.
	tableTenants = 20
)

// WriteTable writes the result for a terminal of 100 columns.
func WriteTable(out io.Writer, r Result) error {
	w := bufio.NewWriter(out)
	fmt.Fprintf(w, "%s\n", r.Scenario.Name)
	for _, text := range []string{r.Scenario.About, r.setting()} {
		for _, line := range wrap(text, tableWidth-2) {
			fmt.Fprintf(w, "  %s\n", line)
		}
	}
	fmt.Fprintf(w, "\n%-52s%14s%14s%14s\n", "", "all seeds", "least", "most")
	for _, g := range figures {
		v := *g.of(&r.Figures)
		if !v.Known() || g.key == "store_round_trips_per_1000" && v == 0 {
			continue
		}
		fmt.Fprintf(w, "%-52s%14s%14s%14s\n", g.title, g.unit.text(v), g.unit.text(*g.of(&r.Least)), g.unit.text(*g.of(&r.Most)))
	}
	writeTenants(w, &r)
	if err := w.Flush(); err != nil {
		return fmt.Errorf("simulate: writing the table: %w", err)
	}
	return nil
}

func writeTenants(w io.Writer, r *Result) {
	list, more := topTenants(r.Tenants, tableTenants)
	wide := 6
	most := Value(0)
	for _, t := range list {
		wide = max(wide, len([]rune(t.Name)))
		most = max(most, t.Entitled, t.Received)
	}
	wide = min(wide, 20)
	fmt.Fprintf(w, "\n%-*s %7s %9s %9s  %-*s %9s %9s %8s\n", wide, "tenant", "weight", "entitled", "received", barWidth, "", "wait p50", "p99", "refused")
	for _, t := range list {
		fmt.Fprintf(w, "%-*s %7.4g %9s %9s  %s %9s %9s %8s\n", wide, cut(t.Name, wide), t.Weight,
			ratio.text(t.Entitled), ratio.text(t.Received), bar(float64(t.Received/most), float64(t.Entitled/most)),
			secondsOf.text(t.WaitP50), secondsOf.text(t.WaitP99), ratio.text(t.Refused))
	}
	if more > 0 {
		fmt.Fprintf(w, "… and %s more (--json lists all)\n", thousands(int64(more)))
	}
}

// topTenants are the ones that are entitled to most, in the order of the
// scenario, and how many are left out.
func topTenants(all []TenantFigures, n int) (list []TenantFigures, more int) {
	if len(all) <= n {
		return all, 0
	}
	order := slices.Clone(all)
	slices.SortStableFunc(order, func(a, b TenantFigures) int { return cmp.Compare(b.Entitled, a.Entitled) })
	return order[:n], len(all) - n
}

// bar draws what was received, and a mark where the entitled part ends.
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

// WriteJSON writes the result as one object: what was run, the figures over all
// seeds, those of each tenant, and those of each seed.
func WriteJSON(out io.Writer, r Result) error {
	parts := []any{
		struct {
			Name    string   `json:"name"`
			Seconds float64  `json:"duration_seconds"`
			Warmup  float64  `json:"warmup_seconds"`
			Seeds   []uint64 `json:"seeds"`
		}{r.Scenario.Name, r.Scenario.Duration.Seconds(), r.Scenario.Warmup.Seconds(), r.Seeds},
		r.Figures,
		struct {
			Tenants []TenantFigures `json:"tenants"`
			PerSeed []Figures       `json:"per_seed"`
		}{r.Tenants, r.PerSeed},
	}
	one := []byte{'{'}
	for i, part := range parts {
		object, err := json.Marshal(part)
		if err != nil {
			return fmt.Errorf("simulate: %w", err)
		}
		if i > 0 {
			one = append(one, ',')
		}
		one = append(one, object[1:len(object)-1]...) // without its braces
	}
	one = append(one, '}')
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, one, "", "  "); err != nil {
		return fmt.Errorf("simulate: %w", err)
	}
	pretty.WriteByte('\n')
	if _, err := out.Write(pretty.Bytes()); err != nil {
		return fmt.Errorf("simulate: writing JSON: %w", err)
	}
	return nil
}
