package durable

import (
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/llmgov/llmgov/federation/spend"
	"github.com/llmgov/llmgov/governor/record"
	"github.com/llmgov/llmgov/internal/lib/rounds"
)

// Options describe a Journal.
type Options struct {
	// Dir is the folder; it is created if it does not exist.
	Dir string
	// Zone is the time zone of the periods of budgets; nil is UTC.
	Zone *time.Location
	Log  *slog.Logger

	create func(path string) (file, error) // for tests that fill the disk
}

// file is the open file of a segment.
type file interface {
	Write(b []byte) (int, error)
	Truncate(size int64) error
	Sync() error
	Close() error
}

// Journal is a governor.Journal in a folder. Run must run while it is in use, and
// Close ends it.
type Journal struct {
	opt   Options
	books *saved
	spend *spend.Book // its lock is taken before mu
	up    atomic.Bool

	mu      sync.Mutex
	file    file         // guarded by mu
	size    int64        // of the good part; guarded by mu
	torn    bool         // there may be a partial record after it; guarded by mu
	dirty   bool         // there are records to sync; guarded by mu
	buf     []byte       // guarded by mu
	running running      // guarded by mu
	uses    *record.Uses // guarded by mu

	// Of Run and, after it, Close alone.
	segment uint64 // number of the current segment
	since   uint64 // number of the segment at whose beginning books are saved
	rotated time.Time
	closed  map[uint64]time.Time // times of the ends of earlier segments
	unsaved map[record.Owner]record.Use
	// unsavedSpend are rows of the account of spend that are not in the books as they are.
	unsavedSpend map[spend.Key]spend.Sum
	failed       rounds.Errors // of rounds
}

// Append implements governor.Journal: a write(2), and no fsync.
func (j *Journal) Append(r record.Record) error {
	j.mu.Lock()
	buf, err := appendFrame(j.buf[:0], &r)
	err = j.writeLocked(buf, err)
	j.countLocked(&r, err == nil)
	j.mu.Unlock()
	j.tell(err)
	return err
}

// logSpent writes down an addition to the account of spend. One that cannot be written counts, and is saved with the next books.
func (j *Journal) logSpent(r spend.Row) {
	j.mu.Lock()
	buf, err := appendSpent(j.buf[:0], &r)
	err = j.writeLocked(buf, err)
	j.mu.Unlock()
	j.tell(err)
}

// Spend is the account of spend, which is kept in the folder.
func (j *Journal) Spend() *spend.Book { return j.spend }

// Gateway is the folder's own name, by which a store knows its account of spend.
func (j *Journal) Gateway() string { return j.books.gateway }

// tell notes whether something could be written, and logs it if that has changed.
func (j *Journal) tell(err error) {
	changed := j.up.Swap(err == nil) != (err == nil)
	switch {
	case !changed || errors.Is(err, errClosed):
	case err != nil:
		j.opt.Log.Error("state_dir cannot be written: no calls are admitted until it can", "dir", j.opt.Dir, "error", err)
	default:
		j.opt.Log.Info("state_dir can be written again", "dir", j.opt.Dir)
	}
}

// Up reports whether the last record could be written.
func (j *Journal) Up() bool { return j.up.Load() }

// errClosed is the error of records after Close.
var errClosed = errors.New("durable: the journal is closed")

// writeLocked writes a frame, unless that could not be made.
func (j *Journal) writeLocked(frame []byte, err error) error {
	j.buf = frame
	if j.file == nil {
		return errClosed
	}
	if err := j.truncateLocked(); err != nil {
		return err
	}
	if err != nil {
		return err
	}
	if _, err := j.file.Write(j.buf); err != nil {
		j.torn = true
		return errors.Join(err, j.truncateLocked())
	}
	j.size += int64(len(j.buf))
	j.dirty = true
	return nil
}

// truncateLocked cuts off a partial record, because none may follow it.
func (j *Journal) truncateLocked() error {
	if !j.torn {
		return nil
	}
	err := j.file.Truncate(j.size)
	j.torn = err != nil
	return err
}

// countLocked counts the record r. The end of a call counts even if it could not be
// written.
func (j *Journal) countLocked(r *record.Record, written bool) {
	switch {
	case r.Kind == record.Ended:
		j.running.end(r.Call)
	case !written:
		return
	case r.Kind == record.Admitted:
		j.running.begin(r)
	case r.Kind == record.Grown:
		j.running.grow(r)
	}
	j.uses.Read(r)
}
