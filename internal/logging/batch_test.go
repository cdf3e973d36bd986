package logging

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/internal/testkit"
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

// Write implements io.Writer.
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
