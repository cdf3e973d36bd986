package main

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

// result is the output of -json.
type result struct {
	Rounds    int       `json:"rounds"`
	CPUs      int       `json:"cpus"`
	Go        string    `json:"go"`
	Store     string    `json:"store"` // of llmgov's limits
	Workloads []figure  `json:"workloads"`
	Latency   []latency `json:"latency,omitempty"`

	Doors []doorFigure `json:"doors,omitempty"`
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
	Aim     float64          `json:"aim,omitempty"`   // for the ratio's median
	Chunk   *chunkCost       `json:"chunk,omitempty"` // of a stream, if that of one chunk was measured too
}

// chunkCost is the cost of one more chunk at each target.
type chunkCost struct {
	CPUMicros [numTargets]spread `json:"cpu_us"`
	Ratio     spread             `json:"llmgov_over_reverse_proxy"`
}

// cost is the cost of one request in a process.
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

// sample is what one workload cost one target in one round.
type sample struct {
	requests, broken int64
	spent            counters // by all requests
}

// add takes in another turn of the round.
func (s *sample) add(o sample) {
	s.requests = s.requests + o.requests
	s.broken = s.broken + o.broken
	s.spent = s.spent.plus(o.spent)
}

// each is what one request cost, of a total.
func (s *sample) each(total float64) float64 { return total / float64(s.requests) }

// cpu is that of one request, in µs.
func (s *sample) cpu() float64 { return s.each(inMicros(s.spent.CPU)) }

// samples are by workload, target and round.
type samples [][numTargets][]sample

// measure measures what was chosen, each for its part of the time.
func measure(ctx context.Context, progress io.Writer, targets []*target, c choice, total time.Duration) (*result, error) {
	parts := len(c.workloads) + len(c.streams)
	if c.doors {
		parts++
	}
	part := total / time.Duration(parts)
	r, err := measureProxies(ctx, progress, targets, c, part)
	if err != nil || !c.doors {
		return r, err
	}
	r.Doors, err = measureDoors(ctx, progress, targets, part)
	return r, err
}

// measureProxies warms up and then goes through the rounds. A round is each workload on
// each target.
func measureProxies(ctx context.Context, progress io.Writer, targets []*target, c choice, part time.Duration) (*result, error) {
	if c.streams == nil && c.workloads == nil {
		return summarize(nil, nil), nil
	}
	slot := part / ((rounds + 1) * numTargets)
	all := make(samples, len(c.workloads))
	waited := make([][]latencyRound, len(c.streams))
	for round := range rounds + 1 {
		for i := range c.workloads {
			got, err := measureWorkload(ctx, targets, &c.workloads[i], slot)
			if err != nil {
				return nil, err
			}
			for j, s := range got {
				if round > 0 { // the first one warms up
					all[i][j] = append(all[i][j], s)
				}
			}
		}
		for i := range c.streams {
			l, err := c.streams[i].measure(ctx, targets, numTargets*slot)
			if err != nil {
				return nil, err
			}
			if round > 0 {
				waited[i] = append(waited[i], l)
			}
		}
		if round > 0 {
			fmt.Fprintf(progress, "\rround %d of %d", round, rounds)
		}
	}
	fmt.Fprintln(progress)
	r := summarize(c.workloads, all)
	for i := range c.streams {
		r.Latency = append(r.Latency, c.streams[i].summarize(waited[i]))
	}
	return r, nil
}

// turn is about how long a proxy is measured before it is the other one's turn: what else the machine does changes within a second.
const turn = 60 * time.Millisecond

// measureWorkload measures the model server, and then both proxies, in turns of which each has as many first ones, or at
// once: each for as long as a slot.
func measureWorkload(ctx context.Context, targets []*target, w *workload, slot time.Duration) (got [numTargets]sample, err error) {
	if got[direct], err = measureTurn(ctx, targets[direct], w, slot); err != nil {
		return got, err
	}
	if w.together {
		group, ctx := errgroup.WithContext(ctx)
		for _, j := range []int{bare, governed} {
			group.Go(func() (err error) {
				got[j], err = measureTurn(ctx, targets[j], w, 2*slot)
				return err
			})
		}
		return got, group.Wait()
	}
	pairs := max(1, int(slot/(2*turn)))
	for range pairs {
		for _, j := range []int{bare, governed, governed, bare} {
			s, err := measureTurn(ctx, targets[j], w, slot/time.Duration(2*pairs))
			if err != nil {
				return got, err
			}
			got[j].add(s)
		}
	}
	return got, nil
}

func measureTurn(ctx context.Context, t *target, w *workload, d time.Duration) (sample, error) {
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
	return sample{requests: n, broken: broken, spent: after.minus(before)}, nil
}

func summarize(list []workload, all samples) *result {
	r := &result{Rounds: rounds, CPUs: runtime.NumCPU(), Go: runtime.Version()}
	base := slices.IndexFunc(list, func(w workload) bool { return w.name == baseName })
	for i, w := range list {
		f := figure{Name: w.name, Title: w.title, Connections: w.connections, Chunks: w.chunks, Aim: w.aim}
		for j := range f.Targets {
			f.Targets[j] = costOf(roles[j], all[i][j])
		}
		var ratios []float64
		for round, s := range all[i][governed] {
			ratios = append(ratios, s.cpu()/all[i][bare][round].cpu())
		}
		f.Ratio = spreadOf(ratios)
		if base >= 0 && w.chunks > 1 {
			f.Chunk = chunkCostOf(all[base], all[i], w.chunks-1)
		}
		r.Workloads = append(r.Workloads, f)
	}
	return r
}

// chunkCostOf divides the additional cost of a stream, compared with one of a single chunk, by its n additional chunks.
func chunkCostOf(one, many [numTargets][]sample, n int) *chunkCost {
	var c chunkCost
	var each [numTargets][]float64
	for j := range many {
		for round, s := range many[j] {
			each[j] = append(each[j], (s.cpu()-one[j][round].cpu())/float64(n))
		}
		c.CPUMicros[j] = spreadOf(each[j])
	}
	var ratios []float64
	for round, us := range each[governed] {
		ratios = append(ratios, us/each[bare][round])
	}
	c.Ratio = spreadOf(ratios)
	return &c
}

func costOf(target string, list []sample) cost {
	c := cost{Target: target}
	var cpu, allocs, bytes []float64
	for _, s := range list {
		c.Requests = c.Requests + s.requests
		c.Broken = c.Broken + s.broken
		cpu = append(cpu, s.cpu())
		allocs = append(allocs, s.each(float64(s.spent.Allocs)))
		bytes = append(bytes, s.each(float64(s.spent.Bytes)))
	}
	c.CPUMicros = spreadOf(cpu)
	c.Allocs = spreadOf(allocs)
	c.Bytes = spreadOf(bytes)
	return c
}
