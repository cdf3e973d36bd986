package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/sync/errgroup"
)

// holding is what a child holds now.
type holding struct {
	Live       int64 `json:"live"`     // bytes of heap and stacks after a collection of garbage
	Resident   int64 `json:"resident"` // bytes of the process before it, as far as that is known
	Goroutines int64 `json:"goroutines"`
}

// holding asks the child, which takes time to collect its garbage.
func (t *target) holding() (h holding, err error) { return h, t.ask(askHolding, &h) }

func readHolding() holding {
	h := holding{Resident: resident()}
	for range 5 { // each collection halves stacks that are larger than needed; two empty pools
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	h.Live = int64(m.HeapAlloc + m.StackInuse)
	h.Goroutines = int64(runtime.NumGoroutine())
	return h
}

// resident is the memory that this process has from a Linux machine; 0 elsewhere.
func resident() int64 {
	var total, pages int64
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	if _, err := fmt.Sscan(string(text), &total, &pages); err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}

// standstill is a kind of call that stands still while what it holds is measured.
type standstill struct {
	title string
	calls int
	body  string
}

// standstills are the calls of the table in docs/sizing.md.
var standstills = []standstill{
	{"idle stream", 1000, bodyOf("Say something.", true, `"output_tokens":2,"stall_after":1`)},
	{"call in the queue, 0.4 KB prompt", 1000, queued(200)},
	{"call in the queue, 100 KB prompt", 200, queued(100_000)},
	{"call without an answer, 0.4 KB prompt", 1000, unanswered(200)},
	{"call without an answer, 8 KB prompt", 1000, unanswered(8_000)},
	{"call without an answer, 100 KB prompt", 200, unanswered(100_000)},
	{"call without an answer, 400 KB prompt", 100, unanswered(400_000)},
	{"call without an answer, 2 MB prompt", 20, unanswered(2_000_000)},
}

// unanswered is a call whose answer does not come.
func unanswered(bytes int) string {
	return bodyOf(strings.Repeat("x ", bytes/2), false, `"output_tokens":2,"first_token_ms":3600000`)
}

// queued is a call for the pool that lets one of them run.
func queued(bytes int) string { return inNarrow(unanswered(bytes)) }

func inNarrow(body string) string { return strings.Replace(body, "gpt-4o-mini", narrow, 1) }

// measureMemory writes what llmgov holds at rest, and what a tenant and one call of each kind add.
func measureMemory(ctx context.Context, w io.Writer, t *target) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(out, "\tlive\tgoroutines\tresident\t")
	rest, err := t.settled()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "at rest, %d tenants\t%.1f MB\t%d\t%.0f MB\t\n", numTenants, float64(rest.Live)/1e6, rest.Goroutines, float64(rest.Resident)/1e6)
	if err := callOnce(ctx, t); err != nil {
		return err
	}
	known, err := t.settled()
	if err != nil {
		return err
	}
	writeEach(out, "tenant that has called two pools", numTenants, rest, known)
	for _, s := range standstills {
		before, after, err := s.measure(ctx, t)
		if err != nil {
			return fmt.Errorf("%s: %w", s.title, err)
		}
		writeEach(out, fmt.Sprintf("%s (of %d)", s.title, s.calls), s.calls, before, after)
	}
	return out.Flush()
}

func writeEach(w io.Writer, title string, n int, before, after holding) {
	live := float64(after.Live-before.Live) / float64(n) / 1000
	goroutines := float64(after.Goroutines-before.Goroutines) / float64(n)
	fmt.Fprintf(w, "%s\t%.1f KB\t%.1f\t%.0f MB\t\n", title, live, goroutines, float64(after.Resident)/1e6)
}

// callOnce lets each tenant call each pool, since the first call makes what is known of the tenant there.
func callOnce(ctx context.Context, t *target) error {
	w := workload{title: "first calls"}
	var answer bytes.Buffer
	for tenant := range numTenants {
		for _, w.body = range []string{question, inNarrow(question)} {
			if err := w.once(ctx, t, tenant, &answer); err != nil {
				return err
			}
		}
	}
	return nil
}

// measure returns what t holds with a few of the calls, and with many more.
func (s *standstill) measure(ctx context.Context, t *target) (before, after holding, err error) {
	ctx, end := context.WithCancel(ctx)
	group, ctx := errgroup.WithContext(ctx)
	before, err = s.open(ctx, t, group, 20) // whatever is made once
	if err == nil {
		after, err = s.open(ctx, t, group, s.calls)
	}
	end()
	if failed := group.Wait(); failed != nil {
		err = failed
	}
	_, settled := t.settled()
	return before, after, errors.Join(err, settled)
}

// open sends calls, which last until ctx ends, and returns what t holds with them.
func (s *standstill) open(ctx context.Context, t *target, group *errgroup.Group, calls int) (holding, error) {
	for i := range calls {
		group.Go(func() error {
			resp, err := post(ctx, t, t.url, i%numTenants, chatRoute, s.body)
			if err == nil {
				_, err = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("the call ended before it was measured: %w", err)
		})
	}
	return t.settled()
}

// settled waits until what t holds hardly changes any more.
func (t *target) settled() (holding, error) {
	for last := (holding{}); ; {
		time.Sleep(time.Second)
		now, err := t.holding()
		if err != nil || now.Goroutines == last.Goroutines && max(now.Live, last.Live)-min(now.Live, last.Live) < now.Live/100 {
			return now, err
		}
		last = now
	}
}
