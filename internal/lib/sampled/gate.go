// Package sampled keeps log lines that anybody can cause from filling the log.
package sampled

import (
	"sync"
	"time"
)

// Gate lets the first Most events of each period through, and counts the others.
type Gate struct {
	Every time.Duration
	Most  int

	mu      sync.Mutex
	until   time.Time // guarded by mu: the end of the period
	passed  int       // guarded by mu: in this period
	skipped int64     // guarded by mu: since the last one that passed
}

// Pass reports whether an event may be logged, and how many were not since the last one that was.
func (g *Gate) Pass(now time.Time) (skipped int64, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !now.Before(g.until) {
		g.until = now.Add(g.Every)
		g.passed = 0
	}
	if g.passed >= g.Most {
		g.skipped++
		return 0, false
	}
	g.passed++
	skipped = g.skipped
	g.skipped = 0
	return skipped, true
}
