package otlp

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
)

// quiet is the time for which an error is not logged again.
const quiet = time.Minute

// redirectErrors sends OpenTelemetry's own errors and messages to the log. They come through
// globals, which nothing else in this program uses.
func redirectErrors(log *slog.Logger) {
	otel.SetErrorHandler(&troubles{log: log, now: time.Now})
	otel.SetLogger(logr.FromSlogHandler(bare{log.Handler()}))
}

// troubles are the errors of the exporter. If a collector is down it fails every few seconds,
// for which one line a minute is enough.
type troubles struct {
	log *slog.Logger
	now func() time.Time

	mu    sync.Mutex
	next  time.Time
	since int // errors since the last line
}

// Handle implements otel.ErrorHandler.
func (t *troubles) Handle(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	if now.Before(t.next) {
		t.since++
		return
	}
	t.next = now.Add(quiet)
	t.log.Warn("spans or metrics are lost", "error", err.Error(), "also_since_last_told", t.since)
	t.since = 0
}

// bare passes messages about settings on without their values, because those of
// OTEL_EXPORTER_OTLP_HEADERS are keys.
type bare struct{ slog.Handler }

func (b bare) Handle(ctx context.Context, r slog.Record) error {
	return b.Handler.Handle(ctx, slog.NewRecord(r.Time, r.Level, "OpenTelemetry: "+r.Message, 0))
}

func (b bare) WithAttrs([]slog.Attr) slog.Handler { return b }

func (b bare) WithGroup(string) slog.Handler { return b }
