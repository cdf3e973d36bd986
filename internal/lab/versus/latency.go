package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"
)

const (
	latencyCalls = 200 // a round, of each kind
	longCalls    = 30
)

// probe is a kind of call whose latency is measured.
type probe struct {
	title string
	calls int
	body  string
	// first is set if the time ends with the first event, else with the end of the answer.
	first bool
	p99   bool
}

var probes = []probe{
	{"answer, 0.4 KB prompt", latencyCalls, chat(200, 512, false, `"output_tokens":20`), false, true},
	{"first byte of a stream", latencyCalls, chat(200, 512, true, `"output_tokens":10`), true, true},
	{"answer, 100 KB prompt", longCalls, chat(100_000, 512, false, `"output_tokens":20`), false, false},
	{"answer, 400 KB prompt", longCalls, chat(400_000, 512, false, `"output_tokens":20`), false, false},
}

// runLatency measures what each gateway adds to the latency of the model server.
func runLatency(ctx context.Context, b *bench) error {
	f := b.report.table("latency", "Latency added",
		fmt.Sprintf("One call at a time, by turns to the model server and to a gateway, %d of each kind a round (%d with long prompts). "+
			"A figure is the quantile of a gateway's calls, less that of the model server's own.", latencyCalls, longCalls), b.columns())
	model, err := startModel(ctx, b.llmgov, b.dir)
	if err != nil {
		return err
	}
	defer model.stop()
	all, closeAll, err := b.openAll(ctx, site{model: model})
	if err != nil {
		return err
	}
	defer closeAll()
	direct := target{url: model.url, client: &http.Client{}}
	for _, p := range probes {
		rows := probeRows{p50: f.row(p.title+", p50", "ms")}
		if p.p99 {
			rows.p99 = f.row(p.title+", p99", "ms")
		}
		for round := range b.rounds + 1 {
			for column, o := range all {
				time.Sleep(settle)
				took, err := p.measure(ctx, direct, target{url: o.first().url, client: o.first().client})
				if err != nil {
					return fmt.Errorf("%s: %w", p.title, err)
				}
				if round > 0 { // the first one warms up
					rows.add(column, &took)
				}
			}
		}
	}
	return nil
}

// probeRows are the rows of a probe; p99 may be nil.
type probeRows struct {
	p50, p99 *row
}

func (r *probeRows) add(column int, took *times) {
	r.p50.add(column, took.added(0.50))
	if r.p99 != nil {
		r.p99.add(column, took.added(0.99))
	}
}

// target is where a probe's calls go.
type target struct {
	url    string
	client *http.Client
}

// settle is the time for a gateway to finish its work on calls that were answered, before another one has its core.
const settle = 300 * time.Millisecond

// times are those of calls to the model server, and to a gateway, in milliseconds.
type times struct {
	direct  []float64
	through []float64
}

// measure has the model server and a gateway take turns.
func (p *probe) measure(ctx context.Context, direct, gateway target) (took times, err error) {
	for range p.calls {
		if took.direct, err = p.time(ctx, direct, took.direct); err != nil {
			return took, err
		}
		if took.through, err = p.time(ctx, gateway, took.through); err != nil {
			return took, err
		}
	}
	return took, nil
}

// time appends the time of a call.
func (p *probe) time(ctx context.Context, t target, list []float64) ([]float64, error) {
	began := time.Now()
	answered, err := p.call(ctx, t)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t.url, err)
	}
	return append(list, milliseconds(answered.Sub(began))), nil
}

// call makes a call, reads it to the end, and returns when the probe's time was over.
func (p *probe) call(ctx context.Context, t target) (time.Time, error) {
	if !p.first {
		err := whole(ctx, t.client, t.url, unlimited.key(), p.body)
		return time.Now(), err
	}
	resp, err := post(ctx, t.client, t.url, unlimited.key(), p.body)
	if err != nil {
		return time.Time{}, err
	}
	defer resp.Body.Close()
	var one [1]byte
	if _, err := resp.Body.Read(one[:]); err != nil {
		return time.Time{}, err
	}
	first := time.Now()
	if resp.StatusCode != http.StatusOK || !readEvents(resp.Body, 1) {
		return first, errors.New("no stream: status " + resp.Status)
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return first, err
}

// added is a quantile of the gateway's times, less that of the model server's.
func (t *times) added(q float64) float64 { return quantile(t.through, q) - quantile(t.direct, q) }

// quantile is the nearest rank's.
func quantile(list []float64, q float64) float64 {
	s := slices.Sorted(slices.Values(list))
	return s[min(len(s)-1, int(q*float64(len(s))))]
}
