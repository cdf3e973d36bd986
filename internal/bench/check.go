package main

import (
	"fmt"
	"strings"
)

// doorAim is of a bare proxy's CPU: what a call by llmgov as a proxy cost when it had no other door yet. Since that has become cheaper, and
// gRPC has not, a door is not measured by it.
const doorAim = 1.6

// check is an error that names the rows which miss their aims.
func (r *result) check() error {
	var missed []string
	miss := func(title string, got, aim float64) {
		if aim > 0 && got > aim {
			missed = append(missed, fmt.Sprintf("%s: %.2f, not ≤ %.2f", title, got, aim))
		}
	}
	for _, f := range r.Workloads {
		miss(f.Title, f.Ratio.Median, f.Aim)
	}
	for _, l := range r.Latency {
		if ratio := l.FirstByte.P50.Ratio; ratio != nil {
			miss("first byte of a "+l.Title, ratio.Median, l.Aim)
		}
	}
	for _, f := range r.Doors {
		miss("CPU by "+f.Title+", of a bare proxy's", f.Ratio.Median, doorAim)
	}
	if missed == nil {
		return nil
	}
	return fmt.Errorf("llmgov costs more than it should:\n  %s", strings.Join(missed, "\n  "))
}
