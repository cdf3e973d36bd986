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
	// queued is how many events may wait for the disk.
	queued = 8192
	// batchBytes is how much is written at once, at most.
	batchBytes = 256 << 10
	// markEvery is how often it is written which gateways share limits: so until when a log goes is
	// known, though no calls come.
	markEvery = time.Minute
)

// Options say where a Writer writes.
type Options struct {
	Path string
	// MaxSize is how large a file may grow, in bytes, and Keep how many older ones are
	// kept.
	MaxSize int64
	Keep    int
	// Node names the gateway.
	Node string
	Log  *slog.Logger
}

// Writer is a governor.Observer that writes down all it is told. Close it when the
// governor is drained.
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
	told    uint64 // how many of lost the log tells
	origin  time.Time
	policy  *Policy
	start   Start
	nodes   *[]string // of seen, those that the log tells
	batch   []byte
	lines   uint64 // in batch
	last    int64  // the instant of the last line,
	written int64  // and of the last one that is not in batch
	failing bool
}

// Open begins to write. It fails if the file cannot be opened.
func Open(opt Options) (*Writer, error) {
	f, err := openFiles(opt.Path, opt.MaxSize, opt.Keep)
	if err != nil {
		return nil, fmt.Errorf("decision_log.path: %w. Name a file of this gateway's own, in a folder that can be written", err)
	}
	w := &Writer{opt: opt, files: f, queue: make(chan governor.Event, queued), quit: make(chan struct{}), done: make(chan struct{})}
	go w.run()
	return w, nil
}

// Observe implements governor.Observer. It waits for nothing.
func (w *Writer) Observe(e governor.Event) {
	select {
	case w.queue <- e:
	default:
		w.lost.Add(1)
	}
}

// See takes in which gateways share limits now, to be written with the next event. They are not to be
// changed.
func (w *Writer) See(nodes []string) {
	if was := w.seen.Load(); was == nil || !slices.Equal(*was, nodes) {
		w.seen.Store(&nodes)
	}
}

// Lost is how many lines could not be written.
func (w *Writer) Lost() uint64 { return w.lost.Load() }

// Close writes what is there, and ends.
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
			w.take(&e)
			w.flush()
		case <-marks.C:
			w.mark()
			w.flush()
		case <-w.quit:
			for {
				select {
				case e := <-w.queue:
					w.take(&e)
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

// take adds an event, and those that are there already, to the batch.
func (w *Writer) take(e *governor.Event) {
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
		w.origin = e.At // the first is always that it starts
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

// mark tells which gateways share limits, if that is known.
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
		panic("llmgov: BUG: a decision cannot be written down: " + err.Error())
	}
	w.batch = append(append(w.batch, text...), '\n')
	w.lines++
}

// flush writes the batch, to a file of which it does not make more than may be.
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

// report logs an error, once until it is over.
func (w *Writer) report(what string, err error) {
	if err != nil && !w.failing {
		w.failing = true
		w.opt.Log.Error(what+"; calls are served all the same", "path", w.opt.Path, "error", err.Error())
	}
}
