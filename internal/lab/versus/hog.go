package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/llmgov/llmgov/internal/lab/distribution"
	"github.com/llmgov/llmgov/internal/lab/load"
)

const (
	hogLimit  = 80  // calls a minute, of the model server
	hogRate   = 5   // calls a second that the hog asks for, almost four times the limit
	smallRate = 0.5 // calls a second of the small tenant, less than half of the limit
	hogAlone  = 60 * time.Second
	together  = 60 * time.Second
)

// variant is a gateway in one way to share a limit between two tenants.
type variant struct {
	*contestant
	name    string
	dynamic bool
}

// variants are those of the chosen gateways. The shared store makes no difference to a single gateway, and is left out.
func (b *bench) variants() (list []variant) {
	for _, c := range b.chosen {
		switch c {
		case &bare:
			list = append(list, variant{c, c.name, false})
		case &liteLLM:
			list = append(list, variant{c, c.name + ", half a key", false}, variant{c, c.name + ", dynamic_rate_limiter_v3", true})
		case &alone:
			list = append(list, variant{c, c.name, true})
		case &shared:
		default:
			list = append(list, variant{c, c.name + ", half a key", false})
		}
	}
	return list
}

// hogRows are the rows of the case.
type hogRows struct {
	before, hog, answered, first, p50, p99, refused *row
}

// runHog has all variants share a limit between a tenant that asks for four times as much, and a small one that comes later. They
// run at the same time, because none of it keeps a core busy.
func runHog(ctx context.Context, b *bench) error {
	list := b.variants()
	var names []string
	for _, v := range list {
		names = append(names, v.name)
	}
	f := b.report.table("hog", "A hog beside a small tenant",
		fmt.Sprintf("The model server allows %d calls a minute. The hog asks for %v a second from the beginning; after %.0f s a small tenant comes, "+
			"and asks for %v a second, which is less than half of the limit, for %.0f s. Both weigh the same. Nobody retries. It begins with a minute of the clock, by which Envoy's rate limit service counts. \"Half a key\" gives each of the two "+
			"half of the limit for itself; `dynamic_rate_limiter_v3` and llmgov (`max_wait: 5s`) know the limit, and share it themselves.",
			hogLimit, hogRate, hogAlone.Seconds(), smallRate, together.Seconds()), names)
	rows := hogRows{
		before:   f.row(fmt.Sprintf("hog, alone: answered in the first %.0f s", hogAlone.Seconds()), "calls"),
		hog:      f.row("hog, in all: answered", "calls"),
		answered: f.row("small tenant: answered, of its calls", "%"),
		first:    f.row("– its first answer after", "s"),
		p50:      f.row("– its answers took, p50", "ms"),
		p99:      f.row("– p99", "ms"),
		refused:  f.row("refused by the model server itself", "calls"),
	}
	for range b.hog {
		group, ctx := errgroup.WithContext(ctx)
		var mu sync.Mutex
		for column, v := range list {
			group.Go(func() error {
				r, err := b.hogRound(ctx, v)
				if err != nil {
					return fmt.Errorf("%s: %w", v.name, err)
				}
				mu.Lock()
				defer mu.Unlock()
				rows.add(column, r)
				return nil
			})
		}
		if err := group.Wait(); err != nil {
			return err
		}
	}
	return nil
}

// hogResult is one round of one variant.
type hogResult struct {
	hog, small        *load.Report
	hogSeen, hasSeen  *firstAnswers
	refusedByUpstream int64
}

func (b *bench) hogRound(ctx context.Context, v variant) (r hogResult, err error) {
	dir, err := os.MkdirTemp(b.dir, "site")
	if err != nil {
		return r, err
	}
	model, err := startModel(ctx, b.llmgov, dir, "--rpm", fmt.Sprint(hogLimit))
	if err != nil {
		return r, err
	}
	defer model.stop()
	tenants := []tenant{{name: "hog", rpm: hogLimit / 2}, {name: "small", rpm: hogLimit / 2}}
	o, err := b.openOne(ctx, v.contestant, site{model: model, rpm: hogLimit, dynamic: v.dynamic, tenants: tenants})
	if err != nil {
		return r, err
	}
	defer o.close()
	now := time.Now()
	select {
	case <-ctx.Done():
	case <-time.After(time.Until(now.Truncate(time.Minute).Add(time.Minute))):
	}
	r.hogSeen = watch(hogAlone)
	r.hasSeen = watch(together)
	var group sync.WaitGroup
	group.Go(func() {
		r.hog = load.Run(ctx, steady("hog", hogRate, hogAlone+together), load.Options{URL: o.first().url, Transport: r.hogSeen})
	})
	group.Go(func() {
		select {
		case <-ctx.Done():
		case <-time.After(hogAlone):
		}
		r.hasSeen.began = time.Now()
		r.small = load.Run(ctx, steady("small", smallRate, together), load.Options{URL: o.first().url, Transport: r.hasSeen})
	})
	group.Wait()
	stats, err := model.stats(ctx)
	r.refusedByUpstream = stats.Refused
	return r, err
}

// steady is the traffic of a tenant that does not come back when it is refused.
func steady(name string, rate float64, d time.Duration) *load.Plan {
	t := load.DefaultTenant()
	t.Name = name
	t.Key = tenant{name: name}.key()
	t.Model = "gpt-4o"
	t.Rate = rate
	t.Prompt = distribution.Constant(20)
	t.Output = distribution.Constant(10)
	t.Stream = 0
	return &load.Plan{Tenants: []load.Tenant{t}, For: d, Seed: 1, Timeout: time.Minute, MaxInFlight: 2000}
}

func (rows *hogRows) add(column int, r hogResult) {
	hog := r.hog.Total
	small := r.small.Total
	rows.before.add(column, float64(r.hogSeen.count()))
	rows.hog.add(column, float64(hog.OK))
	rows.answered.add(column, 100*float64(small.OK)/float64(small.Offered))
	rows.refused.add(column, float64(r.refusedByUpstream))
	if first, ok := r.hasSeen.firstAfter(); ok {
		rows.first.add(column, first.Seconds())
	}
	if q := small.Times.Latency.Due; q != nil && small.OK > 0 {
		rows.p50.add(column, 1000*q.P50)
		rows.p99.add(column, 1000*q.P99)
	}
}

// firstAnswers passes calls on, and notes the answers with status 200 within a time.
type firstAnswers struct {
	next   http.RoundTripper
	within time.Duration

	mu    sync.Mutex
	began time.Time
	first time.Time
	n     int
}

func watch(within time.Duration) *firstAnswers {
	return &firstAnswers{next: load.NewTransport(2000), within: within, began: time.Now()}
}

func (f *firstAnswers) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := f.next.RoundTrip(req)
	if err != nil || resp.StatusCode != http.StatusOK {
		return resp, err
	}
	now := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.first.IsZero() {
		f.first = now
	}
	if now.Sub(f.began) <= f.within {
		f.n++
	}
	return resp, nil
}

func (f *firstAnswers) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.n
}

func (f *firstAnswers) firstAfter() (time.Duration, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.first.Sub(f.began), !f.first.IsZero()
}
