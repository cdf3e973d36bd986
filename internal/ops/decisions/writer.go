package decisions

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/llmgov/llmgov/governor"
)

const (
	// queued is the number of events that may wait for the disk.
	queued = 8192
	// batchBytes is the largest size of one write.
	batchBytes = 256 << 10
	// markEvery is the interval at which the gateways that share limits are written, so that the end of
	// a log is known even without calls.
	markEvery = time.Minute
)

// Options are the files of a Writer.
type Options struct {
	Path string
	// MaxSize is the largest size of a file in bytes, and Keep the number of older ones.
	MaxSize int64
	Keep    int
	// Node names the gateway.
	Node string
	Log  *slog.Logger
}

// Writer is a governor.Observer that records all events. Close it when the governor is
// drained.
type Writer struct {
	opt   Options
	files *files
	queue chan governor.Event
	quit  chan struct{}
	done  chan struct{}
	once  sync.Once
	lost  atomic.Uint64 // lines, in all
	seen  atomic.Pointer[[]string]

	// Of the writing goroutine:
	told    uint64 // the part of lost that is in the log
	origin  time.Time
	policy  *Policy
	start   Start
	nodes   *[]string // the value of seen that is in the log
	batch   []byte
	lines   uint64 // in batch
	last    int64  // the instant of the last line
	written int64  // the instant of the last line before batch
	failing bool
}

// Open starts a Writer. It fails if the file cannot be opened.
func Open(opt Options) (*Writer, error) {
	f, err := openFiles(opt.Path, opt.MaxSize, opt.Keep)
	if err != nil {
		return nil, fmt.Errorf("decision_log.path: %w. Name a file of this gateway's own, in a folder that can be written", err)
	}
	w := &Writer{opt: opt, files: f, queue: make(chan governor.Event, queued), quit: make(chan struct{}), done: make(chan struct{})}
	go w.run()
	return w, nil
}

// Observe implements governor.Observer. It never waits.
func (w *Writer) Observe(e governor.Event) {
	select {
	case w.queue <- e:
	default:
		w.lost.Add(1)
	}
}

// See records the gateways that share limits now; they are written with the next event. The caller
// must not change the slice.
func (w *Writer) See(nodes []string) {
	if was := w.seen.Load(); was == nil || !slices.Equal(*was, nodes) {
		w.seen.Store(&nodes)
	}
}

// Lost is the number of lines that could not be written.
func (w *Writer) Lost() uint64 { return w.lost.Load() }

// Close writes the queue, and ends.
func (w *Writer) Close() error {
	w.once.Do(func() { close(w.quit) })
	<-w.done
	return w.files.close()
}

func (w *Writer) run() {
	defer close(w.done)
	marks := time.NewTicker(markEvery)
	defer marks.Stop()
	for {
		select {
		case e := <-w.queue:
			w.collect(&e)
			w.flush()
		case <-marks.C:
			w.mark()
			w.flush()
		case <-w.quit:
			for {
				select {
				case e := <-w.queue:
					w.collect(&e)
					continue
				default:
				}
				break
			}
			w.flush()
			return
		}
	}
}

// collect adds an event, and those in the queue, to the batch.
func (w *Writer) collect(e *governor.Event) {
	w.add(e)
	for len(w.batch) < batchBytes {
		select {
		case more := <-w.queue:
			w.add(&more)
		default:
			return
		}
	}
	w.flush()
}

func (w *Writer) add(e *governor.Event) {
	if w.origin.IsZero() {
		w.origin = e.At // because the first event is always the start
	}
	l := lineOf(e, w.origin)
	if l.Policy != nil {
		w.policy = l.Policy
	}
	if l.Start != nil {
		l.Start.Node = w.opt.Node
		w.start = *l.Start
		w.start.Past = nil
	}
	w.last = l.At
	w.append(&l)
	if w.seen.Load() != w.nodes {
		w.mark()
	}
}

// mark writes the gateways that share limits, if they are known.
func (w *Writer) mark() {
	w.nodes = w.seen.Load()
	if w.nodes != nil {
		w.last = max(w.last, int64(time.Since(w.origin)))
		w.append(&Line{At: w.last, Kind: Seen, Nodes: *w.nodes})
	}
}

func (w *Writer) append(l *Line) {
	text, err := json.Marshal(l)
	if err != nil {
		panic("llmgov: BUG: a decision cannot be encoded: " + err.Error())
	}
	w.batch = append(append(w.batch, text...), '\n')
	w.lines++
}

// flush writes the batch, after a rotation if the file would become too large.
func (w *Writer) flush() {
	lines := w.lines
	lost := w.lost.Load()
	if lines == 0 {
		return
	}
	if lost > w.told {
		w.append(&Line{At: w.last, Kind: Lost, Lines: lost - w.told})
	}
	batch := w.batch
	w.batch = w.batch[:0]
	w.lines = 0
	err := w.files.makeRoom(int64(len(batch)), func() []byte {
		head := Line{At: w.written, Kind: Continued, Start: &w.start, Policy: w.policy}
		if w.nodes != nil {
			head.Nodes = *w.nodes
		}
		text, _ := json.Marshal(&head)
		return append(text, '\n')
	})
	w.report("the decision log cannot be rotated", err)
	if failed := w.files.write(batch); failed != nil {
		err = failed
		w.lost.Add(lines)
		w.report("the decision log cannot be written", err)
	} else {
		w.told = lost
	}
	w.written = w.last
	if err == nil && w.failing {
		w.failing = false
		w.opt.Log.Info("the decision log is written again", "path", w.opt.Path, "lost", w.lost.Load())
	}
}

// report logs an error once until writing succeeds again.
func (w *Writer) report(what string, err error) {
	if err != nil && !w.failing {
		w.failing = true
		w.opt.Log.Error(what+"; calls are still served", "path", w.opt.Path, "error", err.Error())
	}
}
