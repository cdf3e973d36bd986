package durable

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/llmgov/llmgov/internal/lib/atomicfile"
	"github.com/llmgov/llmgov/internal/lib/rounds"
)

// Notes are values by name in one file of a folder, for what changes all the time and is of use for a minute. A change is on
// disk within a second, so that the end of the process loses no more than that. The folder belongs to one process at a time,
// by the lock of its Journal.
type Notes struct {
	path string
	log  *slog.Logger

	mu      sync.Mutex
	values  map[string][]byte // guarded by mu
	changed bool              // guarded by mu
}

const (
	notesFile   = "shared.json"
	notesFormat = 1
)

// notes is the file.
type notes struct {
	Format int               `json:"format"`
	Values map[string][]byte `json:"values"`
}

// OpenNotes reads the notes in a folder. Without them a gateway starts as if it had kept none, so a file that cannot be read is
// logged and written anew.
func OpenNotes(dir string, log *slog.Logger) *Notes {
	n := &Notes{path: filepath.Join(dir, notesFile), log: log, values: map[string][]byte{}}
	text, err := os.ReadFile(n.path)
	if errors.Is(err, fs.ErrNotExist) {
		return n
	}
	var f notes
	if err == nil {
		err = json.Unmarshal(text, &f)
	}
	if err == nil && f.Format != notesFormat {
		err = fmt.Errorf("durable: it is of format %d, not %d", f.Format, notesFormat)
	}
	if err != nil {
		log.Warn("state_dir: what was known of shared limits cannot be read, and is begun anew", "file", n.path, "error", err)
		return n
	}
	maps.Copy(n.values, f.Values)
	return n
}

// Get returns a value, or nil.
func (n *Notes) Get(name string) []byte {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.values[name]
}

// Set changes a value; nil removes it.
func (n *Notes) Set(name string, value []byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.changed = true
	if value == nil {
		delete(n.values, name)
		return
	}
	n.values[name] = value
}

// Prune removes those of some values, by the beginning of their names, that are past.
func (n *Notes) Prune(prefix string, past func(value []byte) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	maps.DeleteFunc(n.values, func(name string, value []byte) bool {
		gone := strings.HasPrefix(name, prefix) && past(value)
		n.changed = n.changed || gone
		return gone
	})
}

// Run writes what changes until ctx ends, and then once more.
func (n *Notes) Run(ctx context.Context) error {
	var failed rounds.Errors
	write := func() {
		if err := n.write(); failed.New(err) {
			n.log.Warn("state_dir: what is known of shared limits cannot be written", "error", err.Error())
		}
	}
	rounds.Every(ctx, time.Second, write)
	write()
	return nil
}

// write puts a new file in the place of the old one, unless nothing has changed.
func (n *Notes) write() error {
	n.mu.Lock()
	changed := n.changed
	n.changed = false
	f := notes{notesFormat, maps.Clone(n.values)}
	n.mu.Unlock()
	if !changed {
		return nil
	}
	err := n.replace(f)
	if err != nil {
		n.mu.Lock()
		n.changed = true
		n.mu.Unlock()
	}
	return err
}

func (n *Notes) replace(f notes) error {
	text, err := json.Marshal(f)
	if err != nil {
		return err
	}
	return atomicfile.Replace(n.path, text)
}
