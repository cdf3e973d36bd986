package gateway

import (
	"log/slog"
	"time"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/lib/text"
	"github.com/llmgov/llmgov/internal/ops/logging"
	"github.com/llmgov/llmgov/internal/ops/telemetry"
	"github.com/llmgov/llmgov/internal/run/admission"
)

// summary is how a call ended, in the words of the metrics; its log line and its span say the same.
// Unknown fields are empty.
type summary struct {
	status             int
	route              string
	tenant, key        string
	pool, model        string
	outcome            string
	reason, axis, code string
}

// report reports a call, once, at its end.
func (c *call) report(now time.Time) {
	logged := c.g.log.Enabled(c.r.Context(), slog.LevelInfo)
	if !logged && c.Spans == nil {
		return
	}
	s := c.summary()
	c.endSpans(&s)
	if !logged {
		return
	}
	if c.Tenant != nil {
		c.logLine(&s, 0, now)
		return
	}
	if unlogged, ok := c.g.unknown.Pass(now); ok {
		c.logLine(&s, unlogged, now)
	}
}

func (c *call) summary() summary {
	s := summary{status: c.w.Status, route: c.at.Name(), outcome: telemetry.OK}
	if c.Tenant != nil {
		s.tenant = c.Tenant.Name
		s.key = c.Key.Name
	}
	if c.pool != nil {
		s.pool = c.pool.Name
	}
	if c.head != nil {
		s.model = text.Brief(c.head.Model)
	}
	if f := c.Turned; f != nil {
		s.outcome = telemetry.Refused
		s.reason = f.Code
		s.code = f.Code
		if s.status == 0 {
			s.status = f.Status
		}
	}
	if would := c.Lease.Would; would != nil {
		s.axis = admission.AxisOf(would)
	}
	switch rej := c.Cause; {
	case c.Ending.Done:
		s.outcome = c.Ending.Outcome
		s.reason = c.Ending.Reason
	case rej == nil:
	case rej.Reason == governor.ReasonCancelled:
		s.outcome = telemetry.Cancelled
		s.reason = ""
		s.code = ""
	default:
		s.reason = rej.Reason.String()
		s.axis = admission.AxisOf(rej)
	}
	return s
}

// logLine writes the call's one line at level info, without attributes that do not apply. unlogged
// is how many calls without a valid key had no line since the last one that had.
func (c *call) logLine(s *summary, unlogged int64, now time.Time) {
	var room [28]slog.Attr // for all that a line can say
	l := line(room[:0]).text("request_id", c.ID).text("trace_id", c.Spans.TraceID()).text("method", text.Brief(c.r.Method)).text("route", s.route)
	if path := c.r.URL.Path; path != s.route {
		l = l.text("path", text.Brief(path))
	}
	l = append(l, slog.Int("status", s.status))
	l = l.text("outcome", s.outcome).text("reason", s.reason).text("axis", s.axis).text("code", s.code)
	l = l.text("tenant", s.tenant).text("key", s.key).text("pool", s.pool).text("model", s.model)
	l = c.took(c.ran(l))
	if c.Failure != nil {
		l = l.text("error", c.Failure.Error())
	}
	if unlogged > 0 {
		l = append(l, slog.Int64("unlogged", unlogged))
	}
	l = append(l, slog.Float64("duration_ms", ms(now.Sub(c.Began))))
	_ = logging.Line(c.r.Context(), c.g.log.Handler(), now, slog.LevelInfo, "request", l)
}

// ran adds how the call went.
func (c *call) ran(l line) line {
	if c.head != nil && c.head.Stream {
		l = append(l, slog.Bool("stream", true))
	}
	if c.tries.count > 0 {
		l = append(l.text("upstream", c.try.up.Name), slog.Int("tries", c.tries.count))
	}
	if would := c.Lease.Would; would != nil {
		l = l.text("shadow", would.Reason.String())
	}
	if waited := c.Waited(); waited > 0 {
		l = append(l, slog.Float64("queue_ms", ms(waited)))
	}
	if c.Ending.FirstToken > 0 {
		l = append(l, slog.Float64("first_token_ms", ms(c.Ending.FirstToken)))
	}
	return l
}

// took adds the hold of an admitted call, and its usage.
func (c *call) took(l line) line {
	e := &c.Ending
	if !e.Done {
		return l
	}
	l = append(l, slog.Int64("held", c.Request.Input+c.Request.Output), slog.Int64("input", e.Usage.Input), slog.Int64("output", e.Usage.Output))
	if e.Usage.CachedInput > 0 {
		l = append(l, slog.Int64("cached_input", e.Usage.CachedInput))
	}
	if written := e.Usage.CacheWrite + e.Usage.CacheWriteHour; written > 0 {
		l = append(l, slog.Int64("cache_write", written))
	}
	if e.Usage.Reasoning > 0 {
		l = append(l, slog.Int64("reasoning", e.Usage.Reasoning))
	}
	for _, ran := range [...]slog.Attr{slog.Int64("tool_calls", e.Usage.Tools), slog.Int64("file_searches", e.Usage.FileSearches), slog.Int64("code_sessions", e.Usage.CodeSessions)} {
		if ran.Value.Int64() > 0 {
			l = append(l, ran)
		}
	}
	l = l.text("service_tier", e.Usage.Tier)
	if e.Estimated {
		l = append(l, slog.Bool("estimated", true))
	}
	if e.Unread {
		l = l.text("usage", "unread")
	}
	if r := &c.Request; r.Price != nil {
		l = append(l, slog.Float64("held_usd", governor.UnitMicroUSD.Amount(r.Price.Most(r.Input, r.Output, r.Tier))), slog.Float64("usd", governor.UnitMicroUSD.Amount(e.MicroUSD)))
	}
	return l
}

// line is a log line in the making.
type line []slog.Attr

func (l line) text(name, value string) line {
	if value == "" {
		return l
	}
	return append(l, slog.String(name, value))
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
