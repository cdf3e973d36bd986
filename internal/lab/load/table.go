package load

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

const nameWidth = 16

// WriteJSON writes all figures as one object.
func (r *Report) WriteJSON(out io.Writer) error {
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	if err := enc.Encode(r); err != nil {
		return fmt.Errorf("load: writing JSON: %w", err)
	}
	return nil
}

// setting describes the run in one line.
func (r *Report) setting() string {
	parts := []string{fmt.Sprintf("%.4g s measured", r.Seconds)}
	if r.Warmup > 0 {
		parts[0] += " after a warm-up of " + time.Duration(r.Warmup*float64(time.Second)).String()
	}
	parts = append(parts, fmt.Sprintf("%s calls/s offered", rate(part(float64(r.Total.Offered), r.Seconds))))
	return strings.Join(append(parts, fmt.Sprintf("seed %d", r.Seed)), " · ")
}

// WriteTable writes the figures for a terminal of 100 columns.
func (r *Report) WriteTable(out io.Writer) error {
	w := bufio.NewWriter(out)
	fmt.Fprintf(w, "%s\n  %s\n", r.URL, r.setting())
	for _, note := range r.Notes {
		fmt.Fprintf(w, "  ! %s\n", note)
	}
	rows := r.rows()
	fmt.Fprintf(w, "\n%-*s %9s %9s %9s %9s %9s %9s %9s\n", nameWidth, "calls", "offered", "sent", "ok", "refused", "broken", "failed", "open")
	for _, f := range rows {
		fmt.Fprintf(w, "%-*s %9d %9d %9d %9d %9d %9d %9d\n", nameWidth, cut(f.Name, nameWidth),
			f.Offered, f.Sent, f.OK, f.Refused, f.Broken, f.Failed, f.Unfinished)
	}
	fmt.Fprintf(w, "\n%-*s %12s %9s %9s %12s %12s\n", nameWidth, "goodput", "tokens/s", "share", "calls/s", "tokens in", "out")
	for _, f := range rows {
		fmt.Fprintf(w, "%-*s %12s %9s %9s %12d %12d\n", nameWidth, cut(f.Name, nameWidth),
			rate(f.GoodTokens), percent(f.Share), rate(f.GoodRequests), f.Input, f.Output)
	}
	writeTimes(w, rows)
	writeKinds(w, "refusals", rows, func(f *Figures) []Kind { return f.Refusals })
	writeKinds(w, "failures", rows, func(f *Figures) []Kind { return f.Failures })
	if err := w.Flush(); err != nil {
		return fmt.Errorf("load: writing the table: %w", err)
	}
	return nil
}

// rows are the tenants, and the sum if there are several.
func (r *Report) rows() []*Figures {
	var rows []*Figures
	for i := range r.Tenants {
		rows = append(rows, &r.Tenants[i])
	}
	if len(rows) > 1 {
		rows = append(rows, &r.Total)
	}
	return rows
}

// timeRow is one line of times.
type timeRow struct {
	Title, Beside string
	Quantiles     *Quantiles
}

// timeRows are the times that were measured.
func (f *Figures) timeRows() []timeRow {
	t := &f.Times
	var rows []timeRow
	for _, row := range []timeRow{
		{"first token", "since due", t.TTFT.Due},
		{"first token", "since sent", t.TTFT.Sent},
		{"between tokens", "", t.Between},
		{"whole answer", "since due", t.Latency.Due},
		{"whole answer", "since sent", t.Latency.Sent},
		{"headers", "since sent", t.Headers.Sent},
		{"refusal", "since sent", t.ToRefusal},
		{"sent late by", "", t.Late},
	} {
		if row.Quantiles != nil {
			rows = append(rows, row)
		}
	}
	return rows
}

func writeTimes(w io.Writer, rows []*Figures) {
	fmt.Fprintf(w, "\n%-*s %-27s %9s %9s %9s %9s %9s\n", nameWidth, "times", "", "p50", "p90", "p99", "p99.9", "max")
	for _, f := range rows {
		name := cut(f.Name, nameWidth)
		for _, row := range f.timeRows() {
			q := row.Quantiles.five()
			fmt.Fprintf(w, "%-*s %-15s %-11s %9s %9s %9s %9s %9s\n", nameWidth, name, row.Title, row.Beside, q[0], q[1], q[2], q[3], q[4])
			name = ""
		}
	}
}

// writeKinds lists refusals or failures, if there are any.
func writeKinds(w io.Writer, title string, rows []*Figures, of func(*Figures) []Kind) {
	head := fmt.Sprintf("\n%-*s %-40s %9s %s\n", nameWidth, title, "", "times", "  told to come back in")
	for _, f := range rows {
		if len(rows) > 1 && f == rows[len(rows)-1] {
			break // because the sum of one says nothing new
		}
		name := cut(f.Name, nameWidth)
		for _, k := range of(f) {
			hint := ""
			if k.Hint != nil {
				hint = fmt.Sprintf("  %s … %s", text(k.Hint.P50), text(k.Hint.Max))
			}
			fmt.Fprintf(w, "%s%-*s %-40s %9d %s\n", head, nameWidth, name, cut(k.Kind, 40), k.Count, hint)
			head = ""
			name = ""
		}
	}
}
