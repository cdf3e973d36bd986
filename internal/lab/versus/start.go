package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"golang.org/x/sync/errgroup"
)

const (
	idleStreams = 200
	startRounds = 3
	warmCalls   = 500
)

// startRows are the rows of the case.
type startRows struct {
	start, rest, warm, streams *row
}

// runStart measures from the start of a program to its first answer, and its memory.
func runStart(ctx context.Context, b *bench) error {
	f := b.report.table("start", "Start and memory",
		"From the start of the gateway's process to its first answer, with its store and rate limit service running. Memory is resident, of the gateway's "+
			"process alone.", b.columns())
	rows := startRows{
		start:   f.row("first answer after", "s"),
		rest:    f.row("memory after that", "MB"),
		warm:    f.row(fmt.Sprintf("memory after %d calls", warmCalls), "MB"),
		streams: f.row(fmt.Sprintf("memory with %d idle streams", idleStreams), "MB"),
	}
	model, err := startModel(ctx, b.llmgov, b.dir)
	if err != nil {
		return err
	}
	defer model.stop()
	for range min(b.rounds, startRounds) {
		for column, c := range b.chosen {
			if err := rows.measure(ctx, b, column, c, model); err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
		}
	}
	return nil
}

func (r *startRows) measure(ctx context.Context, b *bench, column int, c *contestant, model *model) error {
	o, err := b.openOne(ctx, c, site{model: model})
	if err != nil {
		return err
	}
	defer o.close()
	g := o.first()
	r.start.add(column, g.answered.Sub(g.proxy.started).Seconds())
	if err := r.rest.addMemory(column, g.proxy); err != nil {
		return err
	}
	atOnce(warmCalls, costConnections, func(int) { g.status(ctx, unlimited.key(), workloads[0].body) })
	if err := r.warm.addMemory(column, g.proxy); err != nil {
		return err
	}
	return r.streams.addIdle(ctx, column, g)
}

func (r *row) addMemory(column int, p *process) error {
	bytes, err := p.resident()
	r.add(column, float64(bytes)/1e6)
	return err
}

// addIdle adds the memory with streams that have begun, and stand still.
func (r *row) addIdle(ctx context.Context, column int, g *gateway) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	body := chat(200, 512, true, `"output_tokens":2,"stall_after":1`)
	var group errgroup.Group
	for range idleStreams {
		group.Go(func() error {
			resp, err := post(ctx, g.client, g.url, unlimited.key(), body)
			if err != nil {
				return err
			}
			context.AfterFunc(ctx, func() { _ = resp.Body.Close() })
			if resp.StatusCode != http.StatusOK || !readEvents(resp.Body, 1) {
				return errors.New("a stream did not begin: status " + resp.Status)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return r.addMemory(column, g.proxy)
}
