package history

import (
	"sync"
	"time"
)

// Minute counts events of the last 60 seconds, in slots of one second. The zero value is
// ready, and safe for concurrent use.
type Minute struct {
	mu    sync.Mutex
	at    int64 // the newest second; guarded by mu
	slots [60]int64
}

// Add counts one at now.
func (m *Minute) Add(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expireLocked(now)
	m.slots[m.at%int64(len(m.slots))]++
}

// Count is the number of events in the minute before now.
func (m *Minute) Count(now time.Time) (n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expireLocked(now)
	for _, slot := range m.slots {
		n += slot
	}
	return n
}

// expireLocked clears the seconds that are over, or all if the clock was put back.
func (m *Minute) expireLocked(now time.Time) {
	second := now.Unix()
	size := int64(len(m.slots))
	if second < m.at || second-m.at >= size {
		m.slots = [60]int64{}
		m.at = second
	}
	for m.at < second {
		m.at++
		m.slots[m.at%size] = 0
	}
}
