package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/llmgov/llmgov/governor/client"
	"github.com/llmgov/llmgov/governor/remote"
)

// doorsName is the measurement of the ways to ask llmgov, other than as a proxy.
const doorsName = "doors"

// doorCalls is how many calls are under way at each door.
const doorCalls = 16

// door is a way to have a call governed, up to its end.
type door struct {
	title string
	// govern makes a call of a tenant, and returns how long llmgov kept it; of the proxy that is the whole call.
	govern func(ctx context.Context, tenant int) (time.Duration, error)
	// cpu is the CPU time of the process that governs so far.
	cpu func() (time.Duration, error)
	aim float64 // largest part of a bare proxy's CPU, for -check; 0 is no bound
}

// The aims of doors. To receive and send their messages by gRPC, and to do nothing else, takes 1.1 to 1.3 of a bare proxy's CPU at
// ext_proc, which has four to six messages a call.
const (
	grpcAim    = 2
	extProcAim = 3
)

// doorFigure is what a call costs by a door.
type doorFigure struct {
	Title     string  `json:"title"`
	CPUMicros spread  `json:"cpu_us"` // of llmgov
	Ratio     spread  `json:"cpu_over_reverse_proxy"`
	Aim       float64 `json:"aim,omitempty"` // for the ratio's median
	P50       spread  `json:"added_p50_us"`
	P99       spread  `json:"added_p99_us"`
}

// openDoors are a bare proxy, by which all are measured, and the doors of a running llmgov, the first of which is itself a proxy. The model server is asked by that alone: who
// reserves calls it by itself, and llmgov has no part in that.
func openDoors(targets []*target) (list []door, closeAll func(), err error) {
	t := targets[governed]
	shared, err := remote.Dial(t.admission, remote.Options{Token: admissionToken})
	if err != nil {
		return nil, nil, err
	}
	w := &workloads[slices.IndexFunc(workloads, func(w workload) bool { return w.name == "short" })]
	answers := sync.Pool{New: func() any { return new(bytes.Buffer) }}
	proxy := func(t *target) func(context.Context, int) (time.Duration, error) {
		return func(ctx context.Context, tenant int) (time.Duration, error) {
			answer := answers.Get().(*bytes.Buffer)
			defer answers.Put(answer)
			began := time.Now()
			err := w.once(ctx, t, tenant, answer)
			return time.Since(began), err
		}
	}
	inside, err := insideDoor()
	if err != nil {
		_ = shared.Close()
		return nil, nil, err
	}
	envoy, err := dialAsEnvoy(t.admission)
	if err != nil {
		_ = shared.Close()
		return nil, nil, err
	}
	cpuOf := func(t *target) func() (time.Duration, error) {
		return func() (time.Duration, error) {
			c, err := t.counters()
			return c.CPU, err
		}
	}
	cpu := cpuOf(t)
	return []door{
		{"bare ReverseProxy", proxy(targets[bare]), cpuOf(targets[bare]), 0},
		{"model server alone", proxy(targets[direct]), cpuOf(targets[direct]), 0},
		{"llmgov as a proxy", proxy(t), cpu, 0}, // it has a row of its own
		{"reserve and commit, gRPC", func(ctx context.Context, tenant int) (time.Duration, error) {
			began := time.Now()
			err := shared.Do(ctx, client.Request{Tenant: tenantName(tenant), Model: "gpt-4o", InputTokens: 100, MaxOutput: 400}, answered)
			return time.Since(began), err
		}, cpu, grpcAim},
		{"ext_proc with metadata", envoy.metadata, cpu, extProcAim},
		{"ext_proc with bodies", envoy.bodies, cpu, extProcAim},
		{"rate limit service", envoy.rateLimit, cpu, grpcAim},
		inside,
	}, func() { _ = errors.Join(shared.Close(), envoy.Close()) }, nil
}

func answered(context.Context, *client.Lease) (client.Usage, error) {
	return client.Usage{Input: 100, Output: 20}, nil
}

// measureDoors goes through the doors in rounds, as measure does.
func measureDoors(ctx context.Context, progress io.Writer, targets []*target, total time.Duration) ([]doorFigure, error) {
	list, closeAll, err := openDoors(targets)
	if err != nil {
		return nil, err
	}
	defer closeAll()
	slot := total / time.Duration((rounds+1)*len(list))
	all := make([][]doorSample, len(list))
	for round := range rounds + 1 {
		samples, err := measureDoorsOnce(ctx, list, slot)
		if err != nil {
			return nil, err
		}
		for i := range samples {
			if round > 0 { // the first one warms up
				all[i] = append(all[i], samples[i].sample())
			}
		}
		fmt.Fprintf(progress, "\rdoors, round %d of %d", round, rounds)
	}
	fmt.Fprintln(progress)
	figures := make([]doorFigure, len(list))
	for i, d := range list {
		figures[i] = figureOf(d, all[i], all[0])
	}
	for _, proxy := range []int{0, 2} {
		for i, alone := range all[1] { // a proxy's delay is what it adds to the model server's
			all[proxy][i].p50 -= alone.p50
			all[proxy][i].p99 -= alone.p99
		}
		figures[proxy] = figureOf(list[proxy], all[proxy], all[0])
	}
	return slices.Delete(figures, 1, 2), nil
}

// measureDoorsOnce measures each door for as long as a slot, in turns.
func measureDoorsOnce(ctx context.Context, list []door, slot time.Duration) ([]doorCalled, error) {
	turns := max(1, int(slot/turn))
	called := make([]doorCalled, len(list))
	for range turns {
		for i := range list {
			if err := list[i].measure(ctx, slot/time.Duration(turns), &called[i]); err != nil {
				return nil, err
			}
		}
	}
	return called, nil
}

// doorCalled is what calls through a door took in a round: CPU in all, and how long llmgov kept each, in µs.
type doorCalled struct {
	cpu   float64
	waits []float64
}

func (c *doorCalled) sample() doorSample {
	slices.Sort(c.waits)
	n := len(c.waits)
	return doorSample{cpu: c.cpu / float64(n), p50: c.waits[n/2], p99: c.waits[n*99/100]}
}

// doorSample is one door in one slot, in µs.
type doorSample struct{ cpu, p50, p99 float64 }

func figureOf(d door, samples, base []doorSample) doorFigure {
	var cpu, ratios, p50, p99 []float64
	for round, s := range samples {
		cpu = append(cpu, s.cpu)
		ratios = append(ratios, s.cpu/base[round].cpu)
		p50 = append(p50, s.p50)
		p99 = append(p99, s.p99)
	}
	return doorFigure{d.title, spreadOf(cpu), spreadOf(ratios), d.aim, spreadOf(p50), spreadOf(p99)}
}

// measure keeps a door busy for a while.
func (d *door) measure(ctx context.Context, slot time.Duration, all *doorCalled) error {
	before, err := d.cpu()
	if err != nil {
		return err
	}
	var waits [doorCalls][]float64
	var done, bad atomic.Int64
	until := time.Now().Add(slot)
	group, ctx := errgroup.WithContext(ctx)
	for i := range doorCalls {
		group.Go(func() error {
			for time.Now().Before(until) {
				took, err := d.govern(ctx, nextTenant())
				if err != nil && bad.Add(1) > mostBroken+done.Load()/500 { // see drive
					return fmt.Errorf("%s: %w", d.title, err)
				}
				waits[i] = append(waits[i], inMicros(took))
				done.Add(1)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	after, err := d.cpu()
	if err != nil {
		return err
	}
	all.cpu += inMicros(after - before)
	all.waits = append(all.waits, slices.Concat(waits[:]...)...)
	return nil
}

// writeDoors prints the doors for people.
func writeDoors(w io.Writer, list []doorFigure) error {
	fmt.Fprintf(w, "\nWhat a call costs by each way to llmgov, %d calls under way:\n\n", doorCalls)
	tw := tabwriter.NewWriter(w, 0, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "door\tCPU of the process\tof the bare proxy's\tleast … most\taim\tadded, p50\tp99\t")
	for _, f := range list {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", f.Title, micros(f.CPUMicros), ratio(f.Ratio), leastMost(f.Ratio), atMost(f.Aim), plus(f.P50), plus(f.P99))
	}
	return tw.Flush()
}
