package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/gateway"
	"github.com/llmgov/llmgov/internal/tracing"
)

// mostGrace is how long the lists of who balances load are taken to be old at most.
const mostGrace = 5 * time.Second

// graceOf is how long a gateway that stops admits nothing and still takes connections: those
// who balance load need a moment to see that it is not ready any more, and until then a call
// is better told to go elsewhere than not answered. Nobody balances what is stopped from its
// terminal, nor one whose listener is gone.
func graceOf(cause error, patience time.Duration) time.Duration {
	if !errors.Is(cause, errAskedToStop) {
		return 0
	}
	return min(patience/6, mostGrace)
}

// shutdown stops admission, and lets what runs come to its end; the listener closes after
// the grace. What is left after the patience is cut: streams end in an error event, and all is
// settled.
func shutdown(gov *governor.Governor, gw *gateway.Gateway, server *http.Server, patience, grace time.Duration, cut context.CancelCauseFunc, log *slog.Logger) {
	gov.Drain()
	running, _ := gov.Leases()
	log.Info("draining", "running", running, "at_most", patience.String(), "listens_for", grace.String())
	if wait(server, gw, patience, grace) != nil {
		running, _ = gov.Leases()
		log.Warn("drain took too long, cutting the remaining calls", "running", running)
		cut(gateway.ErrDraining)
		if wait(server, gw, time.Second, 0) != nil {
			_ = server.Close()
		}
	}
	log.Info("stopped")
}

// flush sends the last spans, in what the calls have left of the time to drain.
func flush(tracer *tracing.Tracer, until time.Time, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.Background(), max(time.Until(until), time.Second))
	defer cancel()
	if err := tracer.Shutdown(ctx); err != nil {
		log.Warn("the last spans are lost", "error", err.Error())
	}
}

// wait shuts a server down after the grace, and waits for its calls, with the grace no longer
// than the patience: also for the websockets of a gateway, if it is one's, which the server does
// not know of.
func wait(server *http.Server, gw *gateway.Gateway, patience, grace time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var group errgroup.Group
	group.Go(func() error {
		time.Sleep(grace)
		return server.Shutdown(ctx)
	})
	if gw != nil {
		group.Go(func() error { return gw.Drain(ctx) })
	}
	return group.Wait()
}
