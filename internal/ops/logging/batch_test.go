package logging

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

// text leaves out the time.
func text(w io.Writer) slog.Handler {
	return slog.NewTextHandler(w, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})
}

// sink is where lines are written to.
type sink struct {
	mu     sync.Mutex
	buf    bytes.Buffer
	writes int
}

func (s *sink) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes++
	return s.buf.Write(p)
}

func (s *sink) lines() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Split(strings.TrimSpace(s.buf.String()), "\n")
}

// Lines of the same moment leave together behind the first of them, soon, in their order.
func TestBatch_LinesLeaveTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &sink{}
		log, end := New(out, text)
		for i := range 100 {
			log.Info("line", "n", i)
		}
		time.Sleep(2 * gather)
		lines := out.lines()
		if len(lines) != 100 || out.writes > 2 || lines[99] != "level=INFO msg=line n=99" {
			t.Errorf("%d lines in %d writes, the last %q", len(lines), out.writes, lines[len(lines)-1])
		}
		end()
	})
}

// The end writes all lines that any goroutine has logged before it, and later ones still come.
func TestBatch_NothingIsLostAtTheEnd(t *testing.T) {
	out := &sink{}
	log, end := New(out, text)
	testkit.AtOnce(8, func(i int) {
		for j := range 500 {
			log.Info("line", "from", i, "n", j)
		}
	})
	end()
	log.Info("late")
	lines := out.lines()
	if len(lines) != 8*500+1 || lines[len(lines)-1] != "level=INFO msg=late" {
		t.Errorf("%d lines, the last %q", len(lines), lines[len(lines)-1])
	}
	next := map[string]int{}
	for _, line := range lines[:len(lines)-1] {
		from, n, _ := strings.Cut(line, " n=")
		if n != fmt.Sprint(next[from]) {
			t.Fatalf("%q, want n=%d", line, next[from])
		}
		next[from]++
	}
}

// While nobody reads the log, logging goes on without waiting, memory is bounded, and the reader learns
// later how many lines are missing.
func TestBatch_LogsWithoutAReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe() // a write waits until all of it was read
		log, end := New(w, text)
		log.Info("first")
		synctest.Wait() // the goroutine is stuck with it
		long := strings.Repeat("x", 64<<10)
		const lines = 200 // of which some 128 have room
		for range lines {
			log.Info(long)
		}
		out := &sink{}
		go func() { _, _ = io.Copy(out, r) }()
		time.Sleep(2 * gather)
		log.Info("last")
		end()
		_ = w.Close()
		synctest.Wait()
		got := out.lines()
		there := strings.Count(out.buf.String(), long)
		told := fmt.Sprintf(`level=WARN msg="log lines were lost, because nobody read them" lines=%d`, lines-there)
		if there < 100 || there == lines || got[len(got)-2] != told || got[len(got)-1] != "level=INFO msg=last" {
			t.Errorf("%d lines are there; then came %q", there, got[max(0, len(got)-2):])
		}
	})
}

// An end that nobody reads gives up.
func TestBatch_EndsWithoutAReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		log, end := New(w, text)
		log.Info("line")
		began := time.Now()
		end()
		if took := time.Since(began); took != patience {
			t.Errorf("it took %v", took)
		}
		_ = r.Close()
	})
}

// With attributes and groups of its own, a handler goes on as slog's.
func TestJSON_WithAttributesAndGroups(t *testing.T) {
	var got, want bytes.Buffer
	for out, h := range map[*bytes.Buffer]slog.Handler{&got: JSON(&got), &want: slog.NewJSONHandler(&want, nil)} {
		r := slog.NewRecord(time.Unix(1, 0), slog.LevelWarn, "m", 0)
		r.AddAttrs(slog.Int("n", 1))
		_ = h.WithAttrs([]slog.Attr{slog.String("a", "b")}).WithGroup("g").Handle(context.Background(), r)
		if out.Len() == 0 {
			t.Error("no line")
		}
	}
	if got.String() != want.String() {
		t.Errorf("\n got %swant %s", &got, &want)
	}
}

// A line is that of a record with its attributes, byte for byte, and takes no memory if it is plain, however many there are.
func TestLine(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	var got, want bytes.Buffer
	quick := JSON(&got)
	slow := slog.NewJSONHandler(&want, nil)
	for range 20_000 {
		r := randomRecord(random)
		var attrs []slog.Attr
		r.Attrs(func(a slog.Attr) bool {
			attrs = append(attrs, a)
			return true
		})
		got.Reset()
		want.Reset()
		testkit.OK(t, errors.Join(Line(context.Background(), quick, r.Time, r.Level, r.Message, attrs), slow.Handle(context.Background(), r)))
		if got.String() != want.String() {
			t.Fatalf("\n got %swant %s", &got, &want)
		}
	}
	for name, h := range map[string]slog.Handler{"plain": quick, "slog's": slog.NewJSONHandler(&got, nil)} {
		for _, msg := range []string{"request", `"quoted"`} {
			got.Reset()
			if err := Line(context.Background(), h, time.Now(), slog.LevelInfo, msg, []slog.Attr{slog.Int("n", 1)}); err != nil || !bytes.HasSuffix(got.Bytes(), []byte(`,"n":1}`+"\n")) {
				t.Errorf("%s, %s: %s %v", name, msg, &got, err)
			}
		}
	}
	many := make([]slog.Attr, 20)
	for i := range many {
		many[i] = slog.Int("n", i)
	}
	h := JSON(io.Discard)
	if n := testkit.Allocs(t, 100, func() { _ = Line(context.Background(), h, time.Now(), slog.LevelInfo, "request", many) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func randomRecord(random *rand.Rand) slog.Record {
	texts := []string{"", "request", "a b", `quoted "x"`, `back\slash`, "tab\t", "é", "\x7f", "<&>", "\xff", "\u2028"}
	text := func() string { return texts[random.IntN(len(texts))] }
	at := time.Unix(random.Int64N(4e9), random.Int64N(1e9)).In([]*time.Location{time.UTC, time.FixedZone("", 5400)}[random.IntN(2)])
	r := slog.NewRecord([]time.Time{at, at.Truncate(time.Second), {}}[random.IntN(3)], slog.Level(random.IntN(12)-4), text(), 0)
	for range random.IntN(9) {
		number := []float64{0, 1.5, 1e-7, 1e-6, 1e21, 1e20, -0.25, math.Inf(1), math.NaN(), math.Copysign(0, -1), random.ExpFloat64()}[random.IntN(11)]
		r.AddAttrs([]slog.Attr{
			slog.String(text(), text()), slog.Int64("n", random.Int64()-random.Int64()), slog.Float64(text(), number),
			slog.Bool("b", random.IntN(2) > 0), slog.Duration("d", time.Second), slog.Time("t", at), slog.Uint64("u", random.Uint64()),
			slog.Any("any", []string{"x"}), slog.Any("error", errors.New(text())), slog.Group("g", "a", 1),
			{},
			slog.Any("nil", nil),
		}[random.IntN(12)])
	}
	return r
}
