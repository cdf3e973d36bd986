package durable

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/llmgov/llmgov/governor"
)

const (
	// syncEvery is how much a loss of power may lose.
	syncEvery = time.Second
	// rotateEvery is how long a segment is written to: a rolling minute.
	rotateEvery = time.Minute
	// keepFor is how long after its last record a segment is kept: two of these.
	keepFor = 2 * rotateEvery
)

// Options describe a Journal.
type Options struct {
	// Dir is the folder; it is made if it is not there.
	Dir string
	// Zone is where the periods of budgets begin; nil is UTC.
	Zone *time.Location
	Log  *slog.Logger

	create func(path string) (file, error) // for tests that fill the disk
}

// file is what a segment is written through.
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
	up    atomic.Bool

	mu      sync.Mutex
	file    file           // guarded by mu
	size    int64          // of the good part; guarded by mu
	torn    bool           // there may be more than that; guarded by mu
	dirty   bool           // there is something to sync; guarded by mu
	buf     []byte         // guarded by mu
	running running        // guarded by mu
	uses    *governor.Uses // guarded by mu

	// Of Run and, after it, Close alone.
	segment uint64 // number of the present one
	since   uint64 // of the one at whose beginning books are saved
	rotated time.Time
	closed  map[uint64]time.Time // earlier segments, by when they were ended
	unsaved map[governor.Owner]governor.Use
	said    string // the last complaint, so that each is made once
}

// Open takes a folder for itself, and reads what it remembers.
func Open(opt Options) (*Journal, *governor.Past, error) {
	if opt.create == nil {
		opt.create = func(path string) (file, error) {
			return os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o600)
		}
	}
	if err := os.MkdirAll(opt.Dir, 0o700); err != nil {
		return nil, nil, fmt.Errorf("durable: state_dir: %w", err)
	}
	books, err := openSaved(opt.Dir, filepath.Join(opt.Dir, "books.db"))
	if err != nil {
		return nil, nil, err
	}
	now := time.Now()
	j := &Journal{
		opt: opt, books: books, running: running{at: map[uint64]int{}}, rotated: now,
		closed: map[uint64]time.Time{}, unsaved: map[governor.Owner]governor.Use{},
	}
	past := governor.NewPast(now, opt.Zone)
	err = j.read(past)
	if err == nil {
		err = j.begin(past)
	}
	if err != nil {
		_ = books.db.Close()
		return nil, nil, err
	}
	j.up.Store(true)
	return j, past, nil
}

// read takes in all that the folder holds.
func (j *Journal) read(past *governor.Past) error {
	var err error
	if j.since, err = j.books.load(past); err != nil {
		return err
	}
	_ = os.Remove(filepath.Join(j.opt.Dir, nextSegment))
	list, err := segments(j.opt.Dir)
	if err != nil {
		return fmt.Errorf("durable: state_dir: %w", err)
	}
	// Segments are removed once books are saved, so one that is not the first has some.
	if j.since == 0 && len(list) > 0 && list[0] > 1 {
		return fmt.Errorf("durable: %s is not there, or empty, though there is a journal: %s", j.books.db.Path(), whatToDo)
	}
	for i, n := range list {
		path, end := segmentPath(j.opt.Dir, n), i >= len(list)-2
		if info, err := os.Stat(path); err == nil && i == len(list)-1 {
			// A process that lived would have begun another; with as much again for one
			// that had no time.
			past.LivedUntil(info.ModTime().Add(2 * rotateEvery))
		}
		var newest time.Time
		good, err := readSegment(path, end, func(r *governor.Record) {
			past.Read(*r)
			for _, at := range [...]time.Time{r.Began, r.Ended} {
				if at.After(newest) {
					newest = at
				}
			}
			if n >= j.since {
				past.Uses.Read(r)
			}
		})
		if err == nil && end {
			err = cutOff(path, good) // it will not be at the end any more
		}
		if err != nil {
			return err
		}
		j.segment = n
		j.closed[n] = newest
	}
	return nil
}

// begin starts a segment with the ends of the calls that were in flight.
func (j *Journal) begin(past *governor.Past) error {
	j.uses = past.Uses
	j.segment = max(j.segment+1, j.since)
	cut := past.Cut()
	j.opt.Log.Info("state_dir is read", "dir", j.opt.Dir, "calls_cut_off", len(cut))
	for _, r := range cut {
		var err error
		if j.buf, err = appendFrame(j.buf, &r); err != nil {
			return err
		}
	}
	f, size, err := j.newSegment(j.buf)
	if err == nil {
		err = j.putInPlace(j.segment)
	}
	if err != nil {
		return fmt.Errorf("durable: state_dir: %w", err)
	}
	j.file, j.size, j.dirty = f, size, true
	// So that one who is started again and again does not read more each time.
	maps.Copy(j.unsaved, j.uses.Changed())
	return j.save(past.Shares)
}

// newSegment writes a segment, which is not in its place yet.
func (j *Journal) newSegment(frames []byte) (file, int64, error) {
	f, err := j.opt.create(filepath.Join(j.opt.Dir, nextSegment))
	if err != nil {
		return nil, 0, err
	}
	b := append([]byte(header), frames...)
	if _, err := f.Write(b); err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, int64(len(b)), nil
}

// putInPlace gives what newSegment wrote its name.
func (j *Journal) putInPlace(n uint64) error {
	return os.Rename(filepath.Join(j.opt.Dir, nextSegment), segmentPath(j.opt.Dir, n))
}

// Append implements governor.Journal: a write(2), and no fsync.
func (j *Journal) Append(r governor.Record) error {
	j.mu.Lock()
	err := j.writeLocked(&r)
	j.countLocked(&r, err == nil)
	j.mu.Unlock()
	changed := j.up.Swap(err == nil) != (err == nil)
	switch {
	case !changed || errors.Is(err, errClosed):
	case err != nil:
		j.opt.Log.Error("state_dir cannot be written: no calls are admitted until it can", "dir", j.opt.Dir, "error", err)
	default:
		j.opt.Log.Info("state_dir can be written again", "dir", j.opt.Dir)
	}
	return err
}

// Up reports whether the last record could be written.
func (j *Journal) Up() bool { return j.up.Load() }

// errClosed is what a record meets that comes after Close.
var errClosed = errors.New("durable: the journal is closed")

func (j *Journal) writeLocked(r *governor.Record) (err error) {
	if j.file == nil {
		return errClosed
	}
	if err := j.mendLocked(); err != nil {
		return err
	}
	if j.buf, err = appendFrame(j.buf[:0], r); err != nil {
		return err
	}
	if _, err := j.file.Write(j.buf); err != nil {
		j.torn = true
		return errors.Join(err, j.mendLocked())
	}
	j.size += int64(len(j.buf))
	j.dirty = true
	return nil
}

// mendLocked cuts off what was written in part: nothing may stand behind it.
func (j *Journal) mendLocked() error {
	if !j.torn {
		return nil
	}
	err := j.file.Truncate(j.size)
	j.torn = err != nil
	return err
}

// countLocked takes in what r says. Of the end of a call it is true also if it could
// not be written.
func (j *Journal) countLocked(r *governor.Record, written bool) {
	switch {
	case r.Kind == governor.RecordEnded:
		j.running.end(r.Call)
	case !written:
		return
	case r.Kind == governor.RecordAdmitted:
		j.running.begin(r)
	case r.Kind == governor.RecordGrown:
		j.running.grow(r)
	}
	j.uses.Read(r)
}

// Run syncs and rotates until ctx ends. shares says how the pools' budgets stand
// between their tenants; it is asked once a minute.
func (j *Journal) Run(ctx context.Context, shares func() []governor.ShareState) error {
	tick := time.NewTicker(syncEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		err := j.sync()
		if err == nil && time.Since(j.rotated) >= rotateEvery {
			err = j.rotate(shares())
		}
		j.complain(err)
	}
}

// complain says what went wrong in the background, when it is something new. It is
// tried again, and until then the segments that are there are kept.
func (j *Journal) complain(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != "" && text != j.said {
		j.opt.Log.Error("state_dir: cannot sync or rotate", "dir", j.opt.Dir, "error", text)
	}
	j.said = text
}

func (j *Journal) sync() error {
	j.mu.Lock()
	f, dirty := j.file, j.dirty
	j.dirty = false
	j.mu.Unlock()
	if !dirty {
		return nil
	}
	err := f.Sync() // calls go on being admitted meanwhile
	if err != nil {
		j.mu.Lock()
		j.dirty = true
		j.mu.Unlock()
	}
	return err
}

// rotate begins a new segment, saves the books as of its beginning, and removes the
// segments of which nothing counts any more.
func (j *Journal) rotate(shares []governor.ShareState) error {
	j.mu.Lock()
	old, err := j.turnLocked()
	if err == nil {
		maps.Copy(j.unsaved, j.uses.Changed())
	}
	j.mu.Unlock()
	if err != nil {
		return err
	}
	j.closed[j.segment] = time.Now()
	j.segment++
	j.rotated = time.Now()
	return errors.Join(old.Sync(), old.Close(), syncDir(j.opt.Dir), j.save(shares))
}

// turnLocked puts a new segment into the place of the present one, which it returns.
func (j *Journal) turnLocked() (old file, err error) {
	if err := j.mendLocked(); err != nil {
		return nil, err
	}
	var frames []byte
	for _, r := range j.running.all() {
		r.Kind = governor.RecordRunning
		if frames, err = appendFrame(frames, &r); err != nil {
			return nil, err
		}
	}
	f, size, err := j.newSegment(frames)
	if err != nil {
		return nil, err
	}
	if err := j.putInPlace(j.segment + 1); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	old = j.file
	j.file, j.size, j.dirty = f, size, true
	return old, nil
}

// save writes the books as of the beginning of the present segment, and then removes
// what they make superfluous.
func (j *Journal) save(shares []governor.ShareState) error {
	if err := j.books.save(j.segment, j.unsaved, shares); err != nil {
		return fmt.Errorf("durable: %s: %w", j.books.db.Path(), err)
	}
	j.since = j.segment
	clear(j.unsaved)
	var errs []error
	for n, at := range j.closed {
		if n < j.since && time.Since(at) > keepFor {
			if err := os.Remove(segmentPath(j.opt.Dir, n)); err != nil && !errors.Is(err, os.ErrNotExist) {
				errs = append(errs, err)
				continue
			}
			delete(j.closed, n)
		}
	}
	return errors.Join(errs...)
}

// Close saves everything and gives the folder up. Run must have ended. What is
// appended later is not kept.
func (j *Journal) Close(shares []governor.ShareState) error {
	j.mu.Lock()
	f := j.file
	j.file = nil
	if f == nil {
		j.mu.Unlock()
		return nil
	}
	maps.Copy(j.unsaved, j.uses.Changed())
	j.mu.Unlock()
	j.segment++ // the next process begins a new one, whose beginning is now
	return errors.Join(f.Sync(), f.Close(), j.save(shares), syncDir(j.opt.Dir), j.books.db.Close())
}

// syncDir makes names last.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
