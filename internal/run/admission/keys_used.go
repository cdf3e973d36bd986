package admission

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/llmgov/llmgov/tenants"
)

// lastUses records when each key was last used since this process began, to the second. It survives
// reloads.
type lastUses struct {
	mu   sync.RWMutex
	of   map[tenants.KeyHash]*atomic.Int64
	snap *tenants.Snapshot // whose keys are recorded
}

// follow records the keys of a snapshot, and forgets others.
func (l *lastUses) follow(snap *tenants.Snapshot) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == nil {
		l.of = map[tenants.KeyHash]*atomic.Int64{}
	}
	l.snap = snap
	maps.DeleteFunc(l.of, func(h tenants.KeyHash, _ *atomic.Int64) bool { return !snap.HasKey(h) })
}

// mark notes that a key is used. It writes at most once a second, so that many calls with one key
// do not contend.
func (l *lastUses) mark(h tenants.KeyHash, now time.Time) {
	at := l.find(h)
	if at == nil {
		at = l.add(h)
	}
	if second := now.Unix(); at != nil && at.Load() < second { // nil is a key that a reload has just taken away
		at.Store(second)
	}
}

func (l *lastUses) find(h tenants.KeyHash) *atomic.Int64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.of[h]
}

func (l *lastUses) add(h tenants.KeyHash) *atomic.Int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of[h] == nil && l.snap.HasKey(h) {
		l.of[h] = new(atomic.Int64)
	}
	return l.of[h]
}

// last returns when a key was last used; ok is false if it was not.
func (l *lastUses) last(h tenants.KeyHash) (at time.Time, ok bool) {
	used := l.find(h)
	if used == nil {
		return time.Time{}, false
	}
	return time.Unix(used.Load(), 0).UTC(), true
}
