package main

import (
	"fmt"
	"io"
	"math/rand"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// simulatedCalls are enough for two digits.
const simulatedCalls = 200_000

// coresUsed simulates a machine whose cores all serve calls, one after the other, and do a part of each under one lock.
// It returns how many of the cores work on average, while the others wait for the lock. Times vary by half, evenly.
func coresUsed(cores int, locked float64) float64 {
	r := rand.New(rand.NewSource(1))
	vary := func(mean float64) float64 { return mean * (0.5 + r.Float64()) }
	arrives := make([]float64, cores) // at the lock, by core
	for i := range arrives {
		arrives[i] = vary(1 - locked)
	}
	free := 0.0 // when the lock is
	worked := 0.0
	for range simulatedCalls {
		next := slices.Index(arrives, slices.Min(arrives))
		holds := vary(locked)
		runs := vary(1 - locked)
		free = max(free, arrives[next]) + holds
		arrives[next] = free + runs
		worked += holds + runs
	}
	return worked / free
}

// writeCores prints how many cores are used, for each part of a call's CPU that is under the lock, in percent.
func writeCores(w io.Writer, parts string) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	var locked []float64
	fmt.Fprint(out, "cores\t")
	for text := range strings.SplitSeq(parts, ",") {
		percent, err := strconv.ParseFloat(text, 64)
		if err != nil || percent <= 0 || percent >= 100 {
			return fmt.Errorf("-lock: %q is no part of a call's CPU in percent, as 9 is", text)
		}
		locked = append(locked, percent/100)
		fmt.Fprintf(out, "used: lock %s %%\t", text)
	}
	fmt.Fprintln(out)
	for cores := 4; cores <= 64; cores *= 2 {
		fmt.Fprintf(out, "%d\t", cores)
		for _, part := range locked {
			fmt.Fprintf(out, "%.1f\t", coresUsed(cores, part))
		}
		fmt.Fprintln(out)
	}
	return out.Flush()
}
