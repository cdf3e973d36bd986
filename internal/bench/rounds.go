package main

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"
	"time"
)

// result is what -json prints.
type result struct {
	Rounds    int      `json:"rounds"`
	CPUs      int      `json:"cpus"`
	Go        string   `json:"go"`
	Workloads []figure `json:"workloads"`
}

// figure is one workload on all targets. The numbers are medians of the rounds,
// and ratios are taken within a round.
type figure struct {
	Name        string `json:"name"`
	Title       string `json:"title"`
	Connections int    `json:"connections"`
	Chunks      int    `json:"chunks,omitempty"`

	Targets [numTargets]cost `json:"targets"` // direct, ReverseProxy, llmgov
	Ratio   spread           `json:"llmgov_over_reverse_proxy"`
}

// cost is what one request takes of a process.
type cost struct {
	Target   string `json:"target"`
	Requests int64  `json:"requests"` // in all rounds
	Broken   int64  `json:"broken"`   // of them

	CPUMicros spread `json:"cpu_us"`
	Allocs    spread `json:"allocs"`
	Bytes     spread `json:"bytes"`
}

// spread is of one number over the rounds.
type spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

func spreadOf(list []float64) spread {
	s := slices.Sorted(slices.Values(list))
	mid := s[len(s)/2]
	if len(s)%2 == 0 {
		mid = (mid + s[len(s)/2-1]) / 2
	}
	return spread{Median: mid, Min: s[0], Max: s[len(s)-1]}
}

// sample is what was used up in one slot: one workload on one target.
type sample struct {
	requests, broken   int64
	cpu, allocs, bytes float64 // of one request; CPU in µs
}

// samples are by workload, target and round.
type samples [][numTargets][]sample

// measure warms up and then goes through the rounds. A round is each workload on
// each target, the targets of a workload right after one another.
func measure(ctx context.Context, progress io.Writer, targets []*target, list []workload, total time.Duration) (*result, error) {
	slot := total / time.Duration((rounds+1)*len(list)*numTargets)
	all := make(samples, len(list))
	for round := range rounds + 1 {
		for i := range list {
			for j, t := range targets {
				s, err := measureSlot(ctx, t, &list[i], slot)
				if err != nil {
					return nil, err
				}
				if round > 0 { // the first one warms up
					all[i][j] = append(all[i][j], s)
				}
			}
		}
		if round > 0 {
			fmt.Fprintf(progress, "\rround %d of %d", round, rounds)
		}
	}
	fmt.Fprintln(progress)
	return summarize(list, all), nil
}

func measureSlot(ctx context.Context, t *target, w *workload, d time.Duration) (sample, error) {
	before, err := t.counters()
	if err != nil {
		return sample{}, err
	}
	n, broken, err := w.drive(ctx, t, d)
	if err != nil {
		return sample{}, err
	}
	after, err := t.counters()
	if err != nil {
		return sample{}, err
	}
	each := float64(n)
	return sample{
		requests: n, broken: broken,
		cpu:    float64((after.CPU - before.CPU).Nanoseconds()) / 1000 / each,
		allocs: float64(after.Allocs-before.Allocs) / each,
		bytes:  float64(after.Bytes-before.Bytes) / each,
	}, nil
}

func summarize(list []workload, all samples) *result {
	r := &result{Rounds: rounds, CPUs: runtime.NumCPU(), Go: runtime.Version()}
	for i, w := range list {
		f := figure{Name: w.name, Title: w.title, Connections: w.connections, Chunks: w.chunks}
		for j := range f.Targets {
			f.Targets[j] = costOf(roles[j], all[i][j])
		}
		var ratios []float64
		for round, s := range all[i][governed] {
			ratios = append(ratios, s.cpu/all[i][plain][round].cpu)
		}
		f.Ratio = spreadOf(ratios)
		r.Workloads = append(r.Workloads, f)
	}
	return r
}

func costOf(target string, list []sample) cost {
	c := cost{Target: target}
	var cpu, allocs, bytes []float64
	for _, s := range list {
		c.Requests, c.Broken = c.Requests+s.requests, c.Broken+s.broken
		cpu, allocs, bytes = append(cpu, s.cpu), append(allocs, s.allocs), append(bytes, s.bytes)
	}
	c.CPUMicros, c.Allocs, c.Bytes = spreadOf(cpu), spreadOf(allocs), spreadOf(bytes)
	return c
}
