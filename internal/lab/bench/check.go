package main

import (
	"fmt"
	"strings"
)

// sharedAim is for all rows that have an aim, if llmgov shares its limits through a store: the store is told of a tenant that calls once in
// seconds with each of its calls, and that takes about as much as a short call.
const sharedAim = 3

// shareAims sets the aims of a gateway that shares its limits. First bytes have none: a tenant calls once in 15 s there, so that
// its calls wait for a round trip to the store.
func (r *result) shareAims() {
	for i := range r.Workloads {
		if f := &r.Workloads[i]; f.Aim > 0 {
			f.Aim = sharedAim
		}
	}
	for i := range r.Doors {
		if d := &r.Doors[i]; d.Aim > 0 {
			d.Aim = sharedAim
		}
	}
	for i := range r.Latency {
		r.Latency[i].Aim = 0
	}
}

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
		switch ratio := l.FirstByte.P50.Ratio; {
		case ratio != nil:
			miss("first byte of a "+l.Title, ratio.Median, l.Aim)
		case l.Aim > 0:
			missed = append(missed, "first byte of a "+l.Title+": the machine was too busy to tell")
		}
	}
	for _, f := range r.Doors {
		miss("CPU by "+f.Title+", of a bare proxy's", f.Ratio.Median, f.Aim)
	}
	if missed == nil {
		return nil
	}
	return fmt.Errorf("llmgov costs more than it should:\n  %s", strings.Join(missed, "\n  "))
}
