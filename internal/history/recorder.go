package history

import (
	"context"
	"sync"
	"time"
)

// Recorder keeps a Book of what a source says. It is safe for concurrent use.
type Recorder struct {
	source func() []Reading

	mu   sync.Mutex
	book *Book // guarded by mu
}

// NewRecorder returns a recorder that reads the source once a step, while Run runs.
func NewRecorder(source func() []Reading) *Recorder {
	return &Recorder{source: source, book: NewBook()}
}

// Run records until ctx ends.
func (r *Recorder) Run(ctx context.Context) error {
	r.record()
	ticker := time.NewTicker(Step)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			r.record()
		}
	}
}

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
