package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/ops/crash"
	"github.com/llmgov/llmgov/internal/run/admission"
)

// mostGrace is the longest time that load balancers are assumed to need to drop a gateway that is not ready.
const mostGrace = 5 * time.Second

// graceOf is the time in which a gateway that stops is not ready but serves as before: load balancers need a moment
// to see that, and those that do not ask go on sending calls until they are refused a connection. There is none when
// it is stopped from its terminal or its listener has failed.
func graceOf(cause error, patience time.Duration) time.Duration {
	if !errors.Is(cause, errAskedToStop) {
		return 0
	}
	return min(patience/6, mostGrace)
}

// server is an http.Server, or like one.
type server interface {
	Shutdown(context.Context) error
	Close() error
}

// drain waits until calls of some kind have ended, or its context has.
type drain func(context.Context) error

// onTheWay is the longest time between a connection and the admission of its call: calls that have reached the listener
// before it closes are served.
const onTheWay = time.Second

// shutdown serves as before during the grace, closes the listener, stops admission, and waits for the calls in flight.
// Those left after the patience are cut: streams end in an error event, and all calls are settled.
func shutdown(gov *governor.Governor, calls []drain, server server, patience, grace time.Duration, cut context.CancelCauseFunc, log *slog.Logger) {
	until := time.Now().Add(patience)
	running, _ := gov.Leases()
	log.Info("draining", "running", running, "at_most", patience.String(), "listens_for", grace.String())
	time.Sleep(grace)
	_ = wait(server, nil, min(grace, onTheWay))
	gov.Drain()
	if wait(server, calls, time.Until(until)) != nil {
		running, _ = gov.Leases()
		log.Warn("drain took too long, cutting the remaining calls", "running", running)
		cut(admission.ErrDraining)
		if wait(server, calls, time.Second) != nil {
			_ = server.Close()
		}
	}
	log.Info("stopped")
}

// flush sends the last spans and metrics, in the rest of the time to drain.
func (p *parts) flush(until time.Time) {
	ctx, cancel := context.WithTimeout(context.Background(), max(time.Until(until), time.Second))
	defer cancel()
	var group sync.WaitGroup
	defer group.Wait()
	group.Go(func() {
		if err := p.tracer.Shutdown(ctx); err != nil {
			p.log.Warn("the last spans are lost", "error", err.Error())
		}
	})
	if p.otlp == nil {
		return
	}
	group.Go(func() {
		if err := p.otlp.Shutdown(ctx); err != nil {
			p.log.Warn("the last metrics are not sent", "error", err.Error())
		}
	})
}

// wait shuts a server down, and waits for its calls, no longer than the patience. Calls that http.Server does not track
// are waited for by drains.
func wait(server server, calls []drain, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var group errgroup.Group
	group.Go(func() error { return server.Shutdown(ctx) })
	for _, ended := range calls {
		group.Go(func() error { return ended(ctx) })
	}
	return group.Wait()
}

// errAskedToStop is the cause of a context that ends by a signal or the admin API, while load balancers still
// send calls; Ctrl-C at a terminal has another.
var errAskedToStop = errors.New("asked to stop")

// untilSignalled ends with the first signal, which drains; a second one ends the process.
func untilSignalled() context.Context {
	ctx, end := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		if first := <-signals; first == syscall.SIGTERM {
			end(errAskedToStop)
		}
		end(nil)
		second := <-signals
		signal.Stop(signals) // a third one kills it
		crash.Finish()
		die(second)
	}()
	return ctx
}

// die ends the process by a signal, as if it had not been caught.
func die(by os.Signal) {
	if self, err := os.FindProcess(os.Getpid()); err == nil && self.Signal(by) == nil {
		time.Sleep(time.Second) // it does not return, unless the process was started to ignore the signal
	}
	os.Exit(exitBad)
}
