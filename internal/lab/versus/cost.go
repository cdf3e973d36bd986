package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	costConnections = 8
	costSlot        = time.Second
	costChunks      = 100
)

// workload is one kind of call, sent in a closed loop.
type workload struct {
	title string
	body  string
}

var workloads = []workload{
	{"0.4 KB prompt", chat(200, 512, false, `"output_tokens":20`)},
	{"8 KB prompt", chat(8_000, 512, false, `"output_tokens":20`)},
	{"100 KB prompt", chat(100_000, 512, false, `"output_tokens":20`)},
	{"400 KB prompt", chat(400_000, 512, false, `"output_tokens":20`)},
	{fmt.Sprintf("stream of %d chunks at once", costChunks), chat(200, 512, true, fmt.Sprintf(`"output_tokens":%d`, costChunks))},
}

// runCost measures the CPU time of a call in each gateway's process.
func runCost(ctx context.Context, b *bench) error {
	f := b.report.table("cost", "CPU of a call",
		fmt.Sprintf("%d connections keep the gateway's core busy, with every limit on and none reached. CPU is user and system time of the gateway's process; "+
			"the last row is of its store and its rate limit service.", costConnections), b.columns())
	model, err := startModel(ctx, b.llmgov, b.dir)
	if err != nil {
		return err
	}
	defer model.stop()
	var rows []*row
	for _, w := range workloads {
		rows = append(rows, f.row(w.title, "ms"))
	}
	others := f.row(workloads[0].title+": beside the gateway", "ms")
	return b.interleave(ctx, site{model: model}, func(ctx context.Context, column int, o *opened, round int) error {
		for i, w := range workloads {
			time.Sleep(settle) // the gateway before may still be at work on its log
			c, err := measureCost(ctx, o, w, round == 0)
			if err != nil {
				return fmt.Errorf("%s: %w", w.title, err)
			}
			rows[i].add(column, c.proxy)
			if i > 0 {
				continue
			}
			if o.redis != nil {
				others.add(column, c.others)
			}
		}
		return nil
	})
}

// cost is that of one call, in milliseconds.
type cost struct {
	proxy  float64
	others float64
}

func measureCost(ctx context.Context, o *opened, w workload, warmUp bool) (c cost, err error) {
	if warmUp {
		if _, err := w.drive(ctx, o.first(), costSlot/2); err != nil {
			return c, err
		}
	}
	proxy, others, err := o.cpu()
	if err != nil {
		return c, err
	}
	calls, err := w.drive(ctx, o.first(), costSlot)
	if err != nil {
		return c, err
	}
	proxyAfter, othersAfter, err := o.cpu()
	if err != nil {
		return c, err
	}
	c.proxy = milliseconds(proxyAfter-proxy) / float64(calls)
	c.others = milliseconds(othersAfter-others) / float64(calls)
	return c, nil
}

// drive keeps all connections busy for a while, and returns the number of calls, all of which were answered.
func (w *workload) drive(ctx context.Context, g *gateway, d time.Duration) (int64, error) {
	var done, broken atomic.Int64
	until := time.Now().Add(d)
	group, ctx := errgroup.WithContext(ctx)
	for range costConnections {
		group.Go(func() error {
			for time.Now().Before(until) {
				err := whole(ctx, g.client, g.url, unlimited.key(), w.body)
				// A bare reverse proxy breaks a call now and then, if the answer overtakes the end of the request.
				if err != nil && broken.Add(1) > 5 {
					return err
				}
				done.Add(1)
			}
			return nil
		})
	}
	err := group.Wait()
	return done.Load(), err
}
