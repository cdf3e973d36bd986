package history

import (
	"context"
	"sync"
	"time"
)

// Recorder keeps a Book of the readings of a source. It is safe for concurrent use.
type Recorder struct {
	source func() []Reading

	mu   sync.Mutex
	book *Book // guarded by mu
}

// NewRecorder returns a recorder that reads the source once a step, while Run runs.
func NewRecorder(source func() []Reading) *Recorder {
	return &Recorder{source: source, book: NewBook()}
}

// Run records at the beginning of each step until ctx ends, so that a point is of its time.
func (r *Recorder) Run(ctx context.Context) error {
	timer := time.NewTimer(untilStep(time.Now()))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
			r.record()
			timer.Reset(untilStep(time.Now()))
		}
	}
}

// untilStep is the time until the next step begins.
func untilStep(now time.Time) time.Duration { return now.Truncate(Step).Add(Step).Sub(now) }

func (r *Recorder) record() {
	readings := r.source()
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.book.Record(now, readings)
}

// Pool returns the last hour of a pool. See [Book.Pool].
func (r *Recorder) Pool(name string, names []string, top int) Series {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.book.Pool(now, name, names, top)
}
