package tenants

import (
	"context"
	"errors"
	"time"

	"github.com/llmgov/llmgov/tenants/internal/disk"
)

// Event is the outcome of a change of the files: a Snapshot, or the problems in them.
type Event struct {
	// Snapshot is everything the files say now. When they are bad, it is the last good one with the keys made and
	// revoked at run time until now, where these have changed since it was delivered, else nil.
	Snapshot *Snapshot
	// Err is [Problems], or why the config could not be read. The policy that was in force stays good.
	Err error
}

// Watcher follows the config file and its policy files. Its goroutine ends with the context given to [Watch].
type Watcher struct {
	events chan Event
	asked  chan chan Event
	done   chan struct{}
}

// ErrWatchEnded is the answer of a Watcher whose context has ended.
var ErrWatchEnded = errors.New("tenants: the watch has ended")

// Watch follows the files that [Load] of the same name and options reads. from is the snapshot in force; what the
// files say beyond it is the first event. It is nil where nothing is in force.
//
// Where the files are bad, but the key file is not and has changed, the event with the problems has the last good
// snapshot with the keys of now: a key must be revocable at any time.
//
// Files are told apart by content, so saving the same again is no event, and a change of comments is one. What changed
// is looked at again after a moment and only loaded when it is still the same, so neither half a file nor half a set
// of files is taken for the whole. Events of the file system only say when to look; where there are none, or some are
// lost, a look every 800 ms finds the same.
func Watch(ctx context.Context, name string, from *Snapshot, opt Options) (*Watcher, error) {
	l, err := newLoader(name, opt)
	if err != nil {
		return nil, err
	}
	if from != nil && from.loaded != nil {
		if used := from.loaded.loader.Swap(nil); used != nil {
			l = used
		}
	}
	return watch(ctx, l, from, knobs{poll: 800 * time.Millisecond, settle: 100 * time.Millisecond, events: true}), nil
}

// Events delivers the outcomes of changes, and is closed when the watch has ended. An event that was not taken
// is replaced by a newer one, but a good snapshot never by problems.
func (w *Watcher) Events() <-chan Event { return w.events }

// Reload looks at the files now, without waiting for them to settle, and answers their outcome, as an [Event] does.
// A new one is also delivered. It may be called from any goroutine, also from the one that takes the events.
func (w *Watcher) Reload() (*Snapshot, error) {
	answer := make(chan Event, 1)
	select {
	case w.asked <- answer:
		ev := <-answer
		return ev.Snapshot, ev.Err
	case <-w.done:
		return nil, ErrWatchEnded
	}
}

// knobs are settings for tests.
type knobs struct {
	poll   time.Duration // between looks when nothing happens
	settle time.Duration // for which a change must stand
	events bool          // whether to ask the file system for events
	// looked is told of each look, and whether the files are as they were loaded. nil is not told.
	looked func(same bool)
}

// mostUnsettled is how often a change that goes on is looked at again before it is loaded as it is.
const mostUnsettled = 8

// watching is the goroutine's own state.
type watching struct {
	knobs
	loader  *loader
	last    Event     // the outcome of the last load
	good    *Snapshot // the last that was delivered, or is to be; nil for none
	loaded  sum       // of the files that were last loaded
	globs   []string  // where that load sought policies
	seen    sum       // of the look before, when it differed
	repeats int       // looks since loaded has changed
	pending []Event   // to be delivered: at most a snapshot, and problems after it
	rested  time.Time // before which not to look again
	dirs    *disk.Folders
}

func watch(ctx context.Context, l *loader, from *Snapshot, k knobs) *Watcher {
	w := &Watcher{events: make(chan Event), asked: make(chan chan Event), done: make(chan struct{})}
	s := &watching{knobs: k, loader: l, last: Event{Snapshot: from}, good: from, dirs: disk.NewFolders(k.events)}
	if l.r != nil { // it has loaded from
		s.loaded = l.sum()
		s.globs = l.globs
	}
	go w.run(ctx, s)
	return w
}

func (w *Watcher) run(ctx context.Context, s *watching) {
	defer close(w.done)
	defer close(w.events)
	defer s.dirs.Close()
	s.dirs.Follow(s.loader.folders(s.globs))
	if s.loaded == (sum{}) {
		s.load()
	}
	due := time.Now()
	for {
		timer := time.NewTimer(time.Until(due))
		var out chan Event
		var next Event
		if len(s.pending) > 0 {
			out = w.events
			next = s.pending[0]
		}
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case out <- next:
			s.pending = s.pending[1:]
		case answer := <-w.asked:
			s.loader.distrust()
			if s.loader.look(s.globs) != s.loaded {
				s.load()
			}
			due = s.soon(due) // the new policy may name other folders
			answer <- s.last
		case <-s.dirs.Events():
			due = s.soon(due)
		case <-s.dirs.Errors(): // some events were lost
			due = s.soon(due)
		case <-timer.C:
			due = s.step()
		}
		timer.Stop()
	}
}

// soon is when to look after something has happened, unless that is due before.
func (s *watching) soon(due time.Time) time.Time {
	at := time.Now().Add(s.settle)
	if at.Before(s.rested) {
		at = s.rested
	}
	if at.Before(due) {
		return at
	}
	return due
}

// step looks at the files, loads them when they have changed and settled, and answers when to look again. However many
// files there are and however much happens, looking takes at most a twentieth of the time. Loading takes at most half of
// it, and no less: a key that was revoked must not wait for long because another has just been.
func (s *watching) step() time.Time {
	began := time.Now()
	s.dirs.Follow(s.loader.folders(s.globs))
	now := s.loader.look(s.globs)
	looking := time.Since(began)
	pause := s.poll
	switch {
	case now == s.loaded:
		s.repeats = 0
	case now == s.seen && s.repeats > 0, s.repeats >= mostUnsettled:
		s.load()
		pause = s.settle // there may be other folders to follow, in which something has happened by now
	default:
		s.seen = now
		s.repeats++
		pause = s.settle
	}
	ended := time.Now()
	if s.looked != nil {
		s.looked(now == s.loaded)
	}
	s.rested = ended.Add(max(20*looking, ended.Sub(began)))
	if next := ended.Add(pause); next.After(s.rested) {
		return next
	}
	return s.rested
}

// load takes the files as they are, and keeps the outcome for delivery if it is new.
func (s *watching) load() {
	snap, err := load(s.loader)
	first := s.loaded == sum{}
	s.loaded = s.loader.sum()
	s.globs = s.loader.globs
	s.repeats = 0
	known := s.last
	s.last = Event{Snapshot: snap, Err: err}
	switch {
	case err != nil:
		if n := len(s.pending); n > 0 && s.pending[n-1].Err != nil {
			s.last.Snapshot = s.pending[n-1].Snapshot // not delivered yet
			s.pending = s.pending[:n-1]
		}
		if snap := s.loader.rekeyed(s.good); snap != nil {
			s.last.Snapshot = snap
			s.good = snap
			s.pending = nil
		}
		s.pending = append(s.pending, s.last)
	case first && known.Snapshot != nil && known.Snapshot.Equal(snap):
		s.last = known
	default:
		s.pending = []Event{s.last}
		s.good = snap
	}
}
