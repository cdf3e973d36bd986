package main

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// writeTable prints r for people.
func writeTable(w io.Writer, r *result) error {
	fmt.Fprintf(w, "What one request costs a server's own process: median of %d rounds; %s, %d CPUs; store of limits: %s.\n", r.Rounds, r.Go, r.CPUs, r.Store)
	fmt.Fprintf(w, "CPU is user + system time, by getrusage(2); heap are the bytes allocated.\n\n")

	// Aligned to the right, so the titles are padded here.
	width := 0
	for _, f := range r.Workloads {
		width = max(width, len(f.Title))
	}
	for _, l := range r.Latency {
		width = max(width, len(l.Title))
	}
	tw := tabwriter.NewWriter(w, 0, 0, 3, ' ', tabwriter.AlignRight)
	row := func(title string, cells ...any) {
		fmt.Fprintf(tw, "%-*s", width, title)
		for _, c := range cells {
			fmt.Fprintf(tw, "\t%v", c)
		}
		fmt.Fprintln(tw, "\t")
	}
	row("", roles[direct], roles[bare], roles[governed], "llmgov / ReverseProxy", "least … most", "aim")
	for i := range r.Workloads {
		f := &r.Workloads[i]
		t := &f.Targets
		row(f.Title)
		row("  CPU", micros(t[direct].CPUMicros), micros(t[bare].CPUMicros), micros(t[governed].CPUMicros),
			ratio(f.Ratio), leastMost(f.Ratio), atMost(f.Aim))
		if c := f.Chunk; c != nil {
			row("  CPU of one chunk more", micros(c.CPUMicros[direct]), micros(c.CPUMicros[bare]), micros(c.CPUMicros[governed]),
				ratio(c.Ratio), leastMost(c.Ratio), "")
		}
		row("  allocations", count(t[direct].Allocs), count(t[bare].Allocs), count(t[governed].Allocs), times(t[governed].Allocs, t[bare].Allocs), "", "")
		row("  heap", kilobytes(t[direct].Bytes), kilobytes(t[bare].Bytes), kilobytes(t[governed].Bytes), times(t[governed].Bytes, t[bare].Bytes), "", "")
		row("  requests, broken", requests(t[direct]), requests(t[bare]), requests(t[governed]), "", "", "")
	}
	for i := range r.Latency {
		l := &r.Latency[i]
		row(l.Title)
		for _, d := range []struct {
			name string
			added
			aim float64
		}{
			{"first byte, p50", l.FirstByte.P50, l.Aim},
			{"first byte, p90", l.FirstByte.P90, 0},
			{"chunk, p50", l.Chunk.P50, 0},
			{"chunk, p90", l.Chunk.P90, 0},
		} {
			of := ""
			within := ""
			if d.Ratio != nil {
				of = ratio(*d.Ratio)
				within = leastMost(*d.Ratio)
			}
			row("  "+d.name, micros(d.Direct), plus(d.ReverseProxy), plus(d.Governed), of, within, atMost(d.aim))
		}
		row("  streams, broken", pair(l.Streams[direct], l.Broken[direct]), pair(l.Streams[bare], l.Broken[bare]), pair(l.Streams[governed], l.Broken[governed]), "", "", "")
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\nHow to read it: a CPU ratio of 1.40 says that governing a request costs 40 %% more CPU than\n"+
		"passing it through a bare Go proxy. direct is the model server alone, which both proxies call. Latencies\n"+
		"with + are the delay that a proxy adds to direct, and their ratio is that of the two delays.\n")
	if err != nil || r.Doors == nil {
		return err
	}
	return writeDoors(w, r.Doors)
}

func micros(us spread) string { return fmt.Sprintf("%.1f µs", us.Median) }

// plus is the delay that a proxy adds.
func plus(us spread) string { return fmt.Sprintf("%+.1f µs", us.Median) }

func leastMost(s spread) string { return fmt.Sprintf("%.2f … %.2f", s.Min, s.Max) }

// atMost is the aim of a row, if it has one.
func atMost(aim float64) string {
	if aim == 0 {
		return ""
	}
	return fmt.Sprintf("≤ %.2f", aim)
}

func ratio(s spread) string { return fmt.Sprintf("%.2f", s.Median) }

func count(s spread) string { return fmt.Sprintf("%.0f", s.Median) }

func requests(c cost) string { return pair(c.Requests, c.Broken) }

func pair(a, b int64) string { return fmt.Sprintf("%d, %d", a, b) }

func kilobytes(s spread) string { return fmt.Sprintf("%.1f KB", s.Median/1000) }

func times(a, b spread) string { return fmt.Sprintf("%.2f", a.Median/b.Median) }
