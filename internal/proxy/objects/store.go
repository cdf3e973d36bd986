package objects

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// Key names an object: its id, at one upstream.
type Key struct{ Upstream, ID string }

// Kind is what an object is.
type Kind byte

// The kinds. The numbers are in files, so new ones come at the end.
const (
	Response  Kind = iota + 1
	Item           // of a response
	Container      // in which a response ran code
	Part           // of an upload
	File
	Upload
	Batch
	Job // of fine-tuning
	VectorStore
	FileBatch // of a vector store
	BatchFile // a file of calls, which were checked
	Model     // that a job made
)

// fades reports whether the upstream forgets such an object by itself.
func (k Kind) fades() bool {
	switch k {
	case Response, Item, Container, Part, Upload, FileBatch: // no list has them, and most cannot be deleted
		return true
	}
	return false
}

// Entry is what is known of an object.
type Entry struct {
	Kind  Kind
	Owner string
	Made  time.Time
	// Model is the dearest that a file of calls asks for, by the prices when it came.
	Model string
	// Input and Output are the most tokens that the Calls of a file of calls may take.
	Input, Output, Calls int64
	// Size is how much the object adds to a prompt that refers to it: the bytes of a file, and the
	// tokens of a response (with all that it continues) or of an item of one. 0 is not known.
	Size int64
}

const (
	// fadesAfter is a day more than providers keep responses.
	fadesAfter = 31 * 24 * time.Hour
	// writeWithin is how long an entry that may be lost waits for company.
	writeWithin = 100 * time.Millisecond
	// maxFading bounds what is held in memory of what fades, some 200 MB.
	maxFading = 1 << 20
)

var errClosed = errors.New("objects: the store is closed")

// Visible reports whether a tenant or team sees what an owner made: its own, and that
// of the teams below it.
func Visible(owner, to string) bool {
	return owner == to || len(owner) > len(to) && owner[len(to)] == '/' && strings.HasPrefix(owner, to)
}

// group is whose objects of a kind are counted together.
type group struct {
	upstream string
	kind     Kind
	owner    string
}

// Store remembers owners. It is safe for concurrent use.
type Store struct {
	disk *disk // nil: all is in memory
	log  *slog.Logger

	mu      sync.Mutex
	kept    map[Key]Entry // guarded by mu, as all below: what does not fade
	counts  map[group]int // of kept
	fading  map[Key]Entry // what fades: all of it, or what is yet to be written
	order   []Key         // of fading, oldest first; without a disk
	debts   map[Key]Debt
	timer   *time.Timer // of the next write; nil when none is due
	writing sync.WaitGroup
	closed  bool

	collecting map[Key]bool // debts that somebody collects just now
	collected  sync.Cond    // one of them is not collected any more
}

// Open opens the store in a folder, which it makes if need be; "" is none. Failures of
// writing in the background are logged.
func Open(dir string, log *slog.Logger) (*Store, error) {
	s := &Store{log: log, kept: map[Key]Entry{}, counts: map[group]int{}, fading: map[Key]Entry{}, debts: map[Key]Debt{}, collecting: map[Key]bool{}}
	s.collected.L = &s.mu
	if dir == "" {
		return s, nil
	}
	var err error
	s.disk, err = openDisk(dir)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(s.disk.load(s.keepLocked), s.disk.loadDebts(s.debts)); err != nil {
		return nil, errors.Join(err, s.disk.close())
	}
	return s, nil
}

// writable is why nothing is recorded any more, if nothing is.
func (s *Store) writable(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed
	}
	return nil
}

// Own records, as made now, who owns an object. When it returns without an error that
// outlives a crash.
func (s *Store) Own(ctx context.Context, key Key, e Entry) error {
	if err := s.writable(ctx); err != nil {
		return err
	}
	e.Made = time.Now()
	if s.disk != nil {
		if err := s.disk.put(key, e); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !e.Kind.fades():
		s.keepLocked(key, e)
	case s.disk == nil:
		s.fadeLocked(key, e)
	default:
		delete(s.fading, key) // an older one that is yet to be written
	}
	return nil
}

// OwnSoon records at once, but in memory: it is written a moment later.
func (s *Store) OwnSoon(key Key, e Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.disk != nil && len(s.fading) >= maxFading { // the disk fails; it stays hidden
		return
	}
	e.Made = time.Now()
	if s.disk == nil {
		s.fadeLocked(key, e)
		return
	}
	s.fading[key] = e
	s.writeInLocked(writeWithin)
}

// Resize records the size of an object that fades, which was not known when it was made. It is
// written a moment later.
func (s *Store) Resize(key Key, size int64) {
	e, ok := s.Owner(key)
	if !ok || !e.Kind.fades() || size == e.Size {
		return
	}
	e.Size = size
	s.mu.Lock()
	defer s.mu.Unlock()
	_, pending := s.fading[key]
	switch {
	case s.closed:
	case s.disk == nil && !pending: // it is gone by now
	case len(s.fading) >= maxFading && !pending: // the disk fails
	default:
		s.fading[key] = e
		if s.disk != nil {
			s.writeInLocked(writeWithin)
		}
	}
}

// Owner finds whose an object is.
func (s *Store) Owner(key Key) (Entry, bool) {
	s.mu.Lock()
	e, ok := s.kept[key]
	if !ok {
		e, ok = s.fading[key]
	}
	s.mu.Unlock()
	if !ok && s.disk != nil {
		e, ok = s.disk.get(key)
	}
	if ok && e.Kind.fades() && time.Since(e.Made) > fadesAfter {
		return Entry{}, false
	}
	return e, ok
}

// Forget drops an object that is no more. An error means that it may come back after a
// restart, to its owner alone.
func (s *Store) Forget(key Key) error {
	s.mu.Lock()
	if e, ok := s.kept[key]; ok {
		s.countLocked(key, e, -1)
		delete(s.kept, key)
	}
	delete(s.fading, key)
	closed := s.closed
	s.mu.Unlock()
	if s.disk == nil || closed {
		return nil
	}
	return s.disk.remove(key)
}

// Any reports whether a tenant sees any object of a kind that does not fade.
func (s *Store) Any(upstream string, kind Kind, to string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for g := range s.counts {
		if g.upstream == upstream && g.kind == kind && Visible(g.owner, to) {
			return true
		}
	}
	return false
}

// Close writes what is left and gives the file up.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	if s.timer != nil && s.timer.Stop() {
		s.writing.Done()
	}
	s.timer = nil
	s.mu.Unlock()
	s.writing.Wait()
	if s.disk == nil {
		return nil
	}
	return errors.Join(s.write(), s.disk.close())
}

func (s *Store) keepLocked(key Key, e Entry) {
	if old, ok := s.kept[key]; ok {
		s.countLocked(key, old, -1)
	}
	s.kept[key] = e
	s.countLocked(key, e, 1)
}

func (s *Store) countLocked(key Key, e Entry, n int) {
	g := group{key.Upstream, e.Kind, e.Owner}
	s.counts[g] += n
	if s.counts[g] == 0 {
		delete(s.counts, g)
	}
}

// fadeLocked holds an entry in memory alone, and lets the oldest go.
func (s *Store) fadeLocked(key Key, e Entry) {
	s.fading[key] = e
	s.order = append(s.order, key)
	for len(s.order) > 0 {
		first, ok := s.fading[s.order[0]]
		if ok && len(s.order) <= maxFading && time.Since(first.Made) <= fadesAfter {
			return
		}
		delete(s.fading, s.order[0])
		s.order = s.order[1:]
	}
}
