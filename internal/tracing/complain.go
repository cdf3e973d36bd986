package tracing

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
)

// quiet is how long a trouble that was told of is not told of again.
const quiet = time.Minute

// complain sends what OpenTelemetry has to say of itself to the log. It says it through
// globals, which nothing else in this program uses.
func complain(log *slog.Logger) {
	otel.SetErrorHandler(&troubles{log: log, now: time.Now})
	otel.SetLogger(logr.FromSlogHandler(bare{log.Handler()}))
}

// troubles are the errors of the exporter. A collector that is down fails every few
// seconds, and one line a minute says so, too.
type troubles struct {
	log *slog.Logger
	now func() time.Time

	mu    sync.Mutex
	next  time.Time
	since int // not told of since the last line
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
	t.log.Warn("spans are lost", "error", err.Error(), "also_since_last_told", t.since)
	t.since = 0
}

// bare passes on what was said of settings without their values: those of
// OTEL_EXPORTER_OTLP_HEADERS are keys.
type bare struct{ slog.Handler }

// Handle implements slog.Handler.
func (b bare) Handle(ctx context.Context, r slog.Record) error {
	return b.Handler.Handle(ctx, slog.NewRecord(r.Time, r.Level, "OpenTelemetry: "+r.Message, 0))
}

// WithAttrs implements slog.Handler.
func (b bare) WithAttrs([]slog.Attr) slog.Handler { return b }

// WithGroup implements slog.Handler.
func (b bare) WithGroup(string) slog.Handler { return b }
