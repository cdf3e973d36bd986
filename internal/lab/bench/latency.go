package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// The latency is measured with streams that begin at fixed times, whether or not those
// before have ended: some eight run at once, so that nobody waits for a place. They go to
// the targets in turn, so that what else the machine does happens to all alike.
const (
	streamEvery   = 5 * time.Millisecond
	latencyChunks = 10
)

// streams are one kind of streams whose delays are measured.
type streams struct {
	name, title string
	body        string
	aim         float64 // largest ratio of the delays of first bytes, for -check; 0 is no bound
}

var allStreams = []streams{
	{name: "latency", title: "stream, 10 chunks 4 ms apart, 200 a second to the three in turn", body: body(true, timed), aim: 1.3},
	{name: "latency-100k", title: "the same with a 100 KB prompt, Markdown", body: promptOf(100_000, markdown, true, timed)},
	{name: "latency-400k", title: "the same with a 400 KB prompt, Markdown", body: promptOf(400_000, markdown, true, timed)},
}

// timed asks for events that say when they were made.
var timed = fmt.Sprintf(`"output_tokens":%d,"token_ms":4,"id":"time"`, latencyChunks)

// waits are how long a stream let its reader wait, in µs.
type waits struct {
	first  float64   // from the request to the first event
	chunks []float64 // from when each of the others was made
	broken bool
}

// latencyRound is what one round's streams waited, by target.
type latencyRound [numTargets]struct {
	streams, broken int64
	first, chunk    quantiles
}

// quantiles leave out the last tenth: on a shared machine it says how long others held the cores.
type quantiles struct{ p50, p90 float64 }

// measure opens streams for a while, and reads them to their ends.
func (s *streams) measure(ctx context.Context, targets []*target, d time.Duration) (r latencyRound, err error) {
	list := make([]waits, max(numTargets, int(d/streamEvery)))
	var bad atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	began := time.Now()
	for i := range list {
		time.Sleep(time.Until(began.Add(time.Duration(i) * streamEvery)))
		group.Go(func() error {
			t := targets[i%numTargets]
			err := list[i].read(ctx, t, i%numTenants, s.body)
			list[i].broken = err != nil
			if err != nil && bad.Add(1) > 5+int64(i)/20 { // see drive; those are not in the figures
				return fmt.Errorf("%s, %s: %w", t.name, s.title, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return r, err
	}
	for j := range r {
		var first, chunks []float64
		for i := j; i < len(list); i += numTargets {
			r[j].streams++
			if list[i].broken {
				r[j].broken++
				continue
			}
			first = append(first, list[i].first)
			chunks = append(chunks, list[i].chunks...)
		}
		r[j].first = quantilesOf(first)
		r[j].chunk = quantilesOf(chunks)
	}
	return r, nil
}

// read makes one request and reads its stream, line by line.
func (w *waits) read(ctx context.Context, t *target, tenant int, body string) error {
	began := time.Now()
	resp, err := post(ctx, t, t.url, tenant, chatRoute, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	for whole := false; ; {
		line, err := lines.ReadSlice('\n')
		if err != nil {
			if err == io.EOF && whole && resp.StatusCode == http.StatusOK {
				return nil
			}
			return errors.Join(err, fmt.Errorf("status %d: the stream is not whole", resp.StatusCode))
		}
		whole = whole || string(line) == "data: [DONE]\n"
		id, ok := bytes.CutPrefix(line, []byte("id: "))
		if !ok {
			continue
		}
		now := time.Now()
		made, err := strconv.ParseInt(string(bytes.TrimSpace(id)), 10, 64)
		if err != nil {
			return err
		}
		if w.first == 0 {
			w.first = inMicros(now.Sub(began))
			continue
		}
		w.chunks = append(w.chunks, inMicros(now.Sub(time.Unix(0, made))))
	}
}

func inMicros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

func quantilesOf(list []float64) quantiles {
	if len(list) == 0 {
		return quantiles{}
	}
	slices.Sort(list)
	return quantiles{p50: list[len(list)/2], p90: list[len(list)*9/10]}
}

// latency has the waits of streams' readers. The numbers are medians of the rounds.
type latency struct {
	Name    string            `json:"name"`
	Title   string            `json:"title"`
	Streams [numTargets]int64 `json:"streams"` // to direct, ReverseProxy, llmgov; in all rounds
	Broken  [numTargets]int64 `json:"broken"`  // of them

	FirstByte delay   `json:"first_byte"`
	Aim       float64 `json:"aim,omitempty"` // for the ratio of first bytes at the median
	Chunk     delay   `json:"chunk"`
}

// delay is at the middle and near the end of a distribution.
type delay struct {
	P50 added `json:"p50"`
	P90 added `json:"p90"`
}

// added are the delays that proxies add to the wait for the model server.
type added struct {
	Direct       spread `json:"direct_us"`
	ReverseProxy spread `json:"reverse_proxy_added_us"`
	Governed     spread `json:"llmgov_added_us"`
	// Ratio is taken within each round. It is missing if in some round the machine's noise exceeded the delays.
	Ratio *spread `json:"llmgov_over_reverse_proxy,omitempty"`
}

func (s *streams) summarize(rounds []latencyRound) latency {
	l := latency{Name: s.name, Title: s.title, Aim: s.aim}
	for _, r := range rounds {
		for j := range r {
			l.Streams[j] += r[j].streams
			l.Broken[j] += r[j].broken
		}
	}
	l.FirstByte = delay{
		P50: addedOf(rounds, func(r *latencyRound, t int) float64 { return r[t].first.p50 }),
		P90: addedOf(rounds, func(r *latencyRound, t int) float64 { return r[t].first.p90 }),
	}
	l.Chunk = delay{
		P50: addedOf(rounds, func(r *latencyRound, t int) float64 { return r[t].chunk.p50 }),
		P90: addedOf(rounds, func(r *latencyRound, t int) float64 { return r[t].chunk.p90 }),
	}
	return l
}

func addedOf(rounds []latencyRound, of func(r *latencyRound, target int) float64) added {
	var base, byPlain, byGoverned, ratios []float64
	for i := range rounds {
		d := of(&rounds[i], direct)
		p := of(&rounds[i], bare) - d
		g := of(&rounds[i], governed) - d
		base = append(base, d)
		byPlain = append(byPlain, p)
		byGoverned = append(byGoverned, g)
		ratios = append(ratios, g/p)
	}
	a := added{Direct: spreadOf(base), ReverseProxy: spreadOf(byPlain), Governed: spreadOf(byGoverned)}
	if a.ReverseProxy.Min > 0 {
		ratio := spreadOf(ratios)
		a.Ratio = &ratio
	}
	return a
}
