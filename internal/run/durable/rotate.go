package durable

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/llmgov/llmgov/federation/spend"
	"github.com/llmgov/llmgov/governor/record"
	"github.com/llmgov/llmgov/internal/lib/atomicfile"
	"github.com/llmgov/llmgov/internal/lib/rounds"
)

// The background work of a journal: fsync every second, a new segment every minute, and the removal
// of segments whose records no longer count.

const (
	// syncEvery is the time of admissions that a loss of power may lose.
	syncEvery = time.Second
	// rotateEvery is the time for which a segment is written: a rolling minute.
	rotateEvery = time.Minute
	// keepFor is the time for which a segment is kept after its last record: two minutes.
	keepFor = 2 * rotateEvery
)

// newSegment writes a segment under a temporary name.
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

// putInPlace gives the segment of newSegment its name.
func (j *Journal) putInPlace(n uint64) error {
	return os.Rename(filepath.Join(j.opt.Dir, nextSegment), segmentPath(j.opt.Dir, n))
}

// Run syncs and rotates until ctx ends. saved returns the state of the pools that is in no record; it is called once
// a minute.
func (j *Journal) Run(ctx context.Context, saved func() record.Saved) error {
	rounds.Every(ctx, syncEvery, func() {
		err := j.sync()
		if err == nil && time.Since(j.rotated) >= rotateEvery {
			err = j.rotate(saved())
		}
		if j.failed.New(err) { // it is tried again, and until it succeeds all segments are kept
			j.opt.Log.Error("state_dir: cannot sync or rotate", "dir", j.opt.Dir, "error", err.Error())
		}
	})
	return nil
}

func (j *Journal) sync() error {
	j.mu.Lock()
	f := j.file
	dirty := j.dirty
	j.dirty = false
	j.mu.Unlock()
	if !dirty {
		return nil
	}
	err := f.Sync() // without the lock, because calls are admitted meanwhile
	if err != nil {
		j.mu.Lock()
		j.dirty = true
		j.mu.Unlock()
	}
	return err
}

// rotate begins a new segment, saves the books as of its beginning, and removes the
// segments whose records no longer count.
func (j *Journal) rotate(saved record.Saved) error {
	var old file
	err := j.turnSpend(func() (err error) {
		j.mu.Lock()
		defer j.mu.Unlock()
		old, err = j.turnLocked()
		if err == nil {
			maps.Copy(j.unsaved, j.uses.Changed())
		}
		return err
	})
	if err != nil {
		return err
	}
	j.closed[j.segment] = time.Now()
	j.segment++
	j.rotated = time.Now()
	return errors.Join(old.Sync(), old.Close(), atomicfile.SyncDir(j.opt.Dir), j.save(saved))
}

// turnSpend calls f while nothing is added to the account of spend, whose changes until then are to be saved.
func (j *Journal) turnSpend(f func() error) error {
	rows, err := j.spend.Turn(f)
	for _, r := range rows {
		j.unsavedSpend[r.Key] = r.Sum
	}
	return err
}

// turnLocked replaces the current segment by a new one, and returns the former.
func (j *Journal) turnLocked() (old file, err error) {
	if err := j.truncateLocked(); err != nil {
		return nil, err
	}
	var frames []byte
	for _, r := range j.running.all() {
		r.Kind = record.Running
		frames, err = appendFrame(frames, &r)
		if err != nil {
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
	j.file = f
	j.size = size
	j.dirty = true
	return old, nil
}

// save writes the books as of the beginning of the current segment, and then removes
// superfluous segments.
func (j *Journal) save(saved record.Saved) error {
	today := time.Now().In(j.opt.Zone)
	account := spendChange{rows: j.unsavedSpend, untold: j.spend.FirstUntold(today), oldest: spend.DayOf(today.AddDate(0, 0, -spend.KeepDays))}
	if err := j.books.save(j.segment, j.unsaved, account, saved); err != nil {
		return fmt.Errorf("durable: %s: %w", j.books.db.Path(), err)
	}
	j.since = j.segment
	clear(j.unsaved)
	clear(j.unsavedSpend)
	j.spend.Forget(spend.DayOf(today))
	var errs []error
	for n, at := range j.closed {
		later := !saved.At.IsZero() && at.After(saved.At) // long windows have not counted all of it yet
		if n < j.since && !later && time.Since(at) > keepFor {
			if err := os.Remove(segmentPath(j.opt.Dir, n)); err != nil && !errors.Is(err, os.ErrNotExist) {
				errs = append(errs, err)
				continue
			}
			delete(j.closed, n)
		}
	}
	return errors.Join(errs...)
}

// Close saves everything and unlocks the folder. Run must have ended. Later records are
// not kept.
func (j *Journal) Close(saved record.Saved) error {
	var f file
	_ = j.turnSpend(func() error {
		j.mu.Lock()
		defer j.mu.Unlock()
		f = j.file
		j.file = nil
		if f != nil {
			maps.Copy(j.unsaved, j.uses.Changed())
		}
		return nil
	})
	if f == nil {
		return nil
	}
	j.segment++ // because the next process begins a new one
	return errors.Join(f.Sync(), f.Close(), j.save(saved), atomicfile.SyncDir(j.opt.Dir), j.books.db.Close())
}
