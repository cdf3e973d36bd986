package main

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// writeTable prints r for people.
func writeTable(w io.Writer, r *result) error {
	fmt.Fprintf(w, "What one request costs a server's own process: median of %d rounds; %s, %d CPUs.\n", r.Rounds, r.Go, r.CPUs)
	fmt.Fprintf(w, "CPU is user + system time, by getrusage(2); heap is what was allocated.\n\n")

	// Aligned to the right, so the titles are padded here.
	width := 0
	for _, f := range r.Workloads {
		width = max(width, len(f.Title))
	}
	tw := tabwriter.NewWriter(w, 0, 0, 3, ' ', tabwriter.AlignRight)
	row := func(title string, cells ...any) {
		fmt.Fprintf(tw, "%-*s", width, title)
		for _, c := range cells {
			fmt.Fprintf(tw, "\t%v", c)
		}
		fmt.Fprintln(tw, "\t")
	}
	row("", roles[direct], roles[plain], roles[governed], "llmgov / ReverseProxy", "least … most")
	for i := range r.Workloads {
		f := &r.Workloads[i]
		t := &f.Targets
		row(f.Title)
		row("  CPU", micros(t[direct].CPUMicros.Median, 1), micros(t[plain].CPUMicros.Median, 1), micros(t[governed].CPUMicros.Median, 1),
			fmt.Sprintf("%.2f", f.Ratio.Median), fmt.Sprintf("%.2f … %.2f", f.Ratio.Min, f.Ratio.Max))
		if f.Chunks > 0 {
			n := f.Chunks
			row("  CPU a chunk", micros(t[direct].CPUMicros.Median, n), micros(t[plain].CPUMicros.Median, n), micros(t[governed].CPUMicros.Median, n), "", "")
		}
		row("  allocations", count(t[direct].Allocs), count(t[plain].Allocs), count(t[governed].Allocs), times(t[governed].Allocs, t[plain].Allocs), "")
		row("  heap", kilobytes(t[direct].Bytes), kilobytes(t[plain].Bytes), kilobytes(t[governed].Bytes), times(t[governed].Bytes, t[plain].Bytes), "")
		row("  requests, broken", requests(t[direct]), requests(t[plain]), requests(t[governed]), "", "")
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\nHow to read it: a CPU ratio of 1.40 says that governing a request costs 40 %% more CPU than\n"+
		"passing it through a bare Go proxy. direct is the model server alone, which both proxies call.\n")
	return err
}

// micros is the n-th part of a number of µs.
func micros(us float64, n int) string { return fmt.Sprintf("%.1f µs", us/float64(n)) }

func count(s spread) string { return fmt.Sprintf("%.0f", s.Median) }

func requests(c cost) string { return fmt.Sprintf("%d, %d", c.Requests, c.Broken) }

func kilobytes(s spread) string { return fmt.Sprintf("%.1f KB", s.Median/1000) }

func times(a, b spread) string { return fmt.Sprintf("%.2f", a.Median/b.Median) }
