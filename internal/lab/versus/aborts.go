package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	abortParallel = 4
	abortEvents   = 5
	abortTokens   = 400
	abortPace     = 10 // ms a token: the whole answer would take 4 s
	abortSettle   = 5 * time.Second
	slotPatience  = 10 * time.Second
)

// abortRows are the rows of the case.
type abortRows struct {
	stopped, produced, charged, spent, free *row
}

// runAborts has callers leave in mid-stream.
func runAborts(ctx context.Context, b *bench) error {
	f := b.report.table("aborts", "Streams whose callers leave",
		fmt.Sprintf("%d streams of %d tokens, one every %d ms, by a key that may make %d calls at once; their callers leave after %d tokens. "+
			"Produced is what the model server counts, prompts included. Charged is the gateway's own account of the key at least %.0f s later; "+
			"LiteLLM's budget is in dollars, at a price that makes a token one. Then the same by another key, whose callers make %d calls of 20 ms at once, again and again, until all of them are answered.",
			abortParallel, abortTokens, abortPace, abortParallel, abortEvents, abortSettle.Seconds(), abortParallel), b.columns())
	rows := abortRows{
		stopped:  f.row("the model server has stopped after", "ms"),
		produced: f.row("tokens produced", ""),
		charged:  f.row("tokens charged, in the limit a minute", ""),
		spent:    f.row("tokens charged, in the budget", ""),
		free:     f.row("as many calls of the key are answered after", "ms"),
	}
	model, err := startModel(ctx, b.llmgov, b.dir)
	if err != nil {
		return err
	}
	defer model.stop()
	var list []tenant
	for round := range b.rounds {
		for _, kind := range []string{"leaver", "again"} {
			list = append(list, tenant{name: fmt.Sprintf("%s-%d", kind, round), parallel: abortParallel, budget: plenty, tpm: plenty})
		}
	}
	return b.interleave(ctx, site{model: model, tenants: list}, func(ctx context.Context, column int, o *opened, round int) error {
		if err := rows.production(ctx, column, o, model, tenantOf(list, "leaver", round)); err != nil {
			return err
		}
		if err := rows.slots(ctx, column, o, model, tenantOf(list, "again", round)); err != nil {
			return err
		}
		if round < b.rounds-1 {
			return nil
		}
		return rows.accounts(ctx, column, o, list) // of all rounds
	})
}

// production measures when the model server stops after its callers have left, and what it has produced.
func (r *abortRows) production(ctx context.Context, column int, o *opened, model *model, t tenant) error {
	before, err := model.stats(ctx)
	if err != nil {
		return err
	}
	left, err := leave(ctx, o.first(), t)
	if err != nil {
		return err
	}
	after, err := model.atRest(ctx)
	if err != nil {
		return err
	}
	r.stopped.add(column, milliseconds(time.Since(left)))
	r.produced.add(column, float64(after.TokensProduced-before.TokensProduced))
	return nil
}

// accounts adds what the callers of each round were charged.
func (r *abortRows) accounts(ctx context.Context, column int, o *opened, list []tenant) error {
	if o.charged == nil {
		r.charged.say(column, "it counts no tokens")
		r.spent.say(column, "it counts no tokens")
		return nil
	}
	time.Sleep(abortSettle)
	for _, t := range list {
		if !strings.HasPrefix(t.name, "leaver") {
			continue
		}
		charged, err := o.charged(ctx, o.first(), t)
		if err != nil {
			return err
		}
		r.charged.add(column, float64(charged))
		if o.spent == nil {
			r.spent.say(column, "the same counter")
			continue
		}
		spent, err := o.spent(ctx, o.first(), t)
		if err != nil {
			return err
		}
		r.spent.add(column, float64(spent))
	}
	return nil
}

// slots measures when callers that left have made room for others of their key.
func (r *abortRows) slots(ctx context.Context, column int, o *opened, model *model, t tenant) error {
	if o.lacks[limitParallel] {
		r.free.say(column, noSuchLimit)
		return nil
	}
	left, err := leave(ctx, o.first(), t)
	if err != nil {
		return err
	}
	body := chat(20, 5, false, `"first_token_ms":20`)
	for time.Since(left) < slotPatience {
		answers := statuses(abortParallel, abortParallel, func(int) int { return o.first().status(ctx, t.key(), body) })
		if answers[http.StatusOK] == abortParallel {
			r.free.add(column, milliseconds(time.Since(left)))
			_, err := model.atRest(ctx)
			return err
		}
	}
	r.free.say(column, fmt.Sprintf("not within %.0f s", slotPatience.Seconds()))
	return nil
}

// leave opens as many streams as the tenant may, and leaves them after some tokens of each. It returns when it left.
func leave(ctx context.Context, g *gateway, t tenant) (time.Time, error) {
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	body := chat(20, abortTokens, true, fmt.Sprintf(`"token_ms":%d`, abortPace))
	var group errgroup.Group
	for range abortParallel {
		group.Go(func() error {
			resp, err := post(ctx, g.client, g.url, t.key(), body)
			if err != nil {
				return err
			}
			context.AfterFunc(ctx, func() { _ = resp.Body.Close() })
			if resp.StatusCode != http.StatusOK || !readEvents(resp.Body, abortEvents) {
				return errors.New("a stream did not begin: status " + resp.Status)
			}
			return nil
		})
	}
	err := group.Wait()
	return time.Now(), err
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
