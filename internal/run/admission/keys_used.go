package admission

import (
	"sync/atomic"
	"time"

	"github.com/llmgov/llmgov/tenants"
)

// lastUses records when each key was last used since this process began, to the second. It survives
// reloads.
type lastUses struct {
	// The map is immutable, and replaced as a whole by follow. The times to which it points are carried over.
	of atomic.Pointer[map[tenants.KeyHash]*atomic.Int64]
}

// follow makes room for the keys of a snapshot. Call it before the snapshot is in force, by one
// goroutine at a time.
func (l *lastUses) follow(snap *tenants.Snapshot) {
	var before map[tenants.KeyHash]*atomic.Int64
	if m := l.of.Load(); m != nil {
		before = *m
	}
	next := map[tenants.KeyHash]*atomic.Int64{}
	for _, k := range snap.Keys() {
		next[k.Hash] = before[k.Hash]
		if next[k.Hash] == nil {
			next[k.Hash] = new(atomic.Int64)
		}
	}
	l.of.Store(&next)
}

// mark notes that a key is used. It writes at most once a second, so that many calls with one key
// do not contend.
func (l *lastUses) mark(h tenants.KeyHash, now time.Time) {
	at := (*l.of.Load())[h]
	if second := now.Unix(); at != nil && at.Load() < second { // nil is a key that a reload has just taken away
		at.Store(second)
	}
}

// last returns when a key was last used; ok is false if it was not.
func (l *lastUses) last(h tenants.KeyHash) (at time.Time, ok bool) {
	used := (*l.of.Load())[h]
	if used == nil || used.Load() == 0 {
		return time.Time{}, false
	}
	return time.Unix(used.Load(), 0).UTC(), true
}
