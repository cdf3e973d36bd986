package durable

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/llmgov/llmgov/federation/spend"
	"github.com/llmgov/llmgov/governor/record"
)

// The start of a journal: the folder is read, and the calls that the last process left running are
// ended.

// Open locks a folder, and reads it.
func Open(opt Options) (*Journal, *record.Past, error) {
	if opt.create == nil {
		opt.create = func(path string) (file, error) {
			return os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o600)
		}
	}
	if err := os.MkdirAll(opt.Dir, 0o700); err != nil {
		return nil, nil, fmt.Errorf("durable: state_dir: %w", err)
	}
	books, err := openSaved(opt.Dir, filepath.Join(opt.Dir, "books.db"), opt.Log)
	if err != nil {
		return nil, nil, err
	}
	now := time.Now()
	j := &Journal{
		opt: opt, books: books, running: running{at: map[uint64]int{}}, rotated: now,
		closed: map[uint64]time.Time{}, unsaved: map[record.Owner]record.Use{}, unsavedSpend: map[spend.Key]spend.Sum{},
	}
	if opt.Zone == nil {
		j.opt.Zone = time.UTC
	}
	j.spend = spend.NewBook(j.opt.Zone)
	past := record.NewPast(now, opt.Zone)
	err = j.read(past)
	if err == nil {
		err = j.begin(past)
	}
	if err != nil {
		_ = books.db.Close()
		return nil, nil, err
	}
	j.spend.LogTo(j.logSpent)
	j.up.Store(true)
	return j, past, nil
}

// read reads all files of the folder.
func (j *Journal) read(past *record.Past) error {
	var err error
	j.since, err = j.books.load(past, j.spend)
	if err != nil {
		return err
	}
	_ = os.Remove(filepath.Join(j.opt.Dir, nextSegment))
	list, err := segments(j.opt.Dir)
	if err != nil {
		return fmt.Errorf("durable: state_dir: %w", err)
	}
	// Segments are removed only after books are saved, so a journal without its first segment has books.
	if j.since == 0 && len(list) > 0 && list[0] > 1 {
		return fmt.Errorf("durable: %s is missing or empty, but there is a journal: %s", j.books.db.Path(), whatToDo)
	}
	for i, n := range list {
		path := segmentPath(j.opt.Dir, n)
		end := i >= len(list)-2
		if info, err := os.Stat(path); err == nil && i == len(list)-1 {
			// A process that lived longer would have begun another segment; twice the time, because
			// it may have been slow.
			past.LivedUntil(info.ModTime().Add(2 * rotateEvery))
		}
		var newest time.Time
		spent := func(r spend.Row) {
			if n >= j.since {
				j.spend.Restore(r)
			}
		}
		good, err := readSegment(path, end, func(r *record.Record) {
			past.Read(*r)
			for _, at := range [...]time.Time{r.Began, r.Ended} {
				if at.After(newest) {
					newest = at
				}
			}
			if n >= j.since {
				past.Uses.Read(r)
			}
		}, spent)
		if err == nil && end {
			err = cutOff(path, good) // because a newer segment will follow
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
func (j *Journal) begin(past *record.Past) error {
	j.uses = past.Uses
	j.segment = max(j.segment+1, j.since)
	cut := past.Cut()
	j.opt.Log.Info("state_dir is read", "dir", j.opt.Dir, "calls_cut_off", len(cut))
	for _, r := range cut {
		var err error
		j.buf, err = appendFrame(j.buf, &r)
		if err != nil {
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
	j.file = f
	j.size = size
	j.dirty = true
	// So that repeated starts do not read more each time.
	maps.Copy(j.unsaved, j.uses.Changed())
	_ = j.turnSpend(func() error { return nil })
	return j.save(past.Saved)
}
