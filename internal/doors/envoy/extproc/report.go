package extproc

import (
	"log/slog"
	"time"

	"github.com/llmgov/llmgov/internal/lib/text"
	"github.com/llmgov/llmgov/internal/ops/events"
	"github.com/llmgov/llmgov/internal/ops/logging"
	"github.com/llmgov/llmgov/internal/ops/telemetry"
)

// showFailure lets those who follow the events know of a call that failed.
func (c *call) showFailure() {
	e := &c.Ending
	if c.s.opt.Events == nil || !e.Done || e.Outcome != telemetry.Failed {
		return
	}
	f := events.Failure{Status: c.status, Class: e.Reason}
	if c.Failure != nil {
		f.Cause = c.Failure.Error()
	}
	now := time.Now()
	c.s.opt.Events.Fail(now, c.Request, now.Sub(c.Admitted), f)
}

// report writes the call's one line at level info, in the words of the gateway's.
func (c *call) report() {
	ctx := c.wire.stream.Context()
	if !c.s.opt.Log.Enabled(ctx, slog.LevelInfo) {
		return
	}
	var room [14]slog.Attr // for all that a line can say
	said := append(room[:0], slog.String("request_id", c.ID), slog.String("door", "ext_proc"), slog.String("route", c.at.Name()), slog.Int("status", c.status))
	if c.Tenant != nil {
		said = append(said, slog.String("tenant", c.Tenant.Name))
	}
	if c.Pool != nil {
		said = append(said, slog.String("pool", c.Pool.Name), slog.String("model", text.Brief(c.Ask.Model)))
	}
	if c.Turned != nil {
		said = append(said, slog.String("outcome", "refused"), slog.String("code", c.Turned.Code))
	}
	if e := &c.Ending; e.Done {
		said = append(
			said, slog.String("outcome", e.Outcome), slog.String("reason", e.Reason), slog.Int64("held", c.Request.Input+c.Request.Output),
			slog.Int64("input", e.Usage.Input), slog.Int64("output", e.Usage.Output), slog.Bool("estimated", e.Estimated),
		)
		if e.Unread {
			said = append(said, slog.String("usage", "unread"))
		}
	}
	said = append(said, slog.Float64("duration_ms", float64(time.Since(c.Began).Microseconds())/1000))
	_ = logging.Line(ctx, c.s.opt.Log.Handler(), time.Now(), slog.LevelInfo, "request", said)
}
