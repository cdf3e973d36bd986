package logging

import (
	"io"
	"log/slog"
	"sync"
	"time"
)

const (
	// gather is the least time between two writes. A line that comes alone leaves at once.
	gather = 20 * time.Millisecond
	// mostWaiting bounds the bytes of lines that were not handed to the writer yet.
	mostWaiting = 8 << 20
	// mostKept bounds the memory that is kept for the next lines.
	mostKept = 256 << 10
	// patience bounds how long the end waits for a writer that takes nothing.
	patience = 5 * time.Second
)

// New returns a logger whose lines, made by format, are written to out in batches. The function that it
// returns writes the rest, and ends the batches: later lines are written one by one. It may be called several times.
func New(out io.Writer, format func(io.Writer) slog.Handler) (log *slog.Logger, end func()) {
	b := &batch{out: out, begun: make(chan struct{}, 1), closing: make(chan struct{}), done: make(chan struct{})}
	b.log = slog.New(format(b))
	go b.run() // until close
	return b.log, sync.OnceFunc(b.close)
}

// batch collects lines, and writes them together.
type batch struct {
	out     io.Writer
	log     *slog.Logger  // into the batch
	begun   chan struct{} // receives when the first line is in
	closing chan struct{}
	done    chan struct{} // closed when the goroutine has ended

	mu      sync.Mutex
	waiting []byte // guarded by mu: whole lines
	spare   []byte // guarded by mu: memory for the next ones
	lost    int64  // guarded by mu: lines that found no room and were not reported
	closed  bool   // guarded by mu
}

// Write adds a line.
func (b *batch) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return b.out.Write(line)
	}
	if len(b.waiting)+len(line) > mostWaiting {
		b.lost++
		return len(line), nil
	}
	b.waiting = append(b.waiting, line...)
	select {
	case b.begun <- struct{}{}:
	default: // the goroutine knows
	}
	return len(line), nil
}

// run writes what is there, and then what gathers, until close.
func (b *batch) run() {
	defer close(b.done)
	for {
		select {
		case <-b.begun:
		case <-b.closing:
			b.flush()
			return
		}
		b.flush()
		select {
		case <-time.After(gather):
		case <-b.closing:
		}
	}
}

// flush writes the lines that wait, and then how many found no room.
func (b *batch) flush() {
	lost := b.writeWaiting()
	if lost > 0 {
		b.log.Warn("log lines were lost, because nobody read them", "lines", lost)
		b.writeWaiting()
	}
}

// writeWaiting writes the lines that wait, while others gather. It returns how many were lost.
func (b *batch) writeWaiting() (lost int64) {
	b.mu.Lock()
	lines := b.waiting
	lost = b.lost
	b.waiting = b.spare[:0]
	b.spare = nil
	b.lost = 0
	b.mu.Unlock()
	if len(lines) > 0 {
		_, _ = b.out.Write(lines) // there is nowhere to report it
	}
	if cap(lines) > mostKept {
		lines = nil
	}
	b.mu.Lock()
	b.spare = lines
	b.mu.Unlock()
	return lost
}

// close writes the rest. It gives up if the writer takes nothing for long.
func (b *batch) close() {
	close(b.closing)
	select {
	case <-b.done:
	case <-time.After(patience):
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	_, _ = b.out.Write(b.waiting) // of the last moment
	b.waiting = nil
}
