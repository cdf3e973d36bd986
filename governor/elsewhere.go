package governor

import (
	"time"

	"github.com/llmgov/llmgov/escrow"
)

// elsewhere is how much of a pool's rolling minute other processes have used, as of the last beat.
type elsewhere struct {
	used escrow.Cost
	at   time.Time
}

// booksLocked is the state of the pool's books with what other processes have used. Without a beat
// for a minute, that has left the minute.
func (p *pool) booksLocked(now time.Time) escrow.State {
	s := p.escrow.State(now)
	gone := p.elsewhere.at.Add(escrow.Window)
	if !p.set.Shared || !now.Before(gone) {
		return s
	}
	for k, used := range p.elsewhere.used {
		if used > 0 && s.Axes[k].On {
			s.Axes[k].Used += used
			s.Axes[k].FullAt = later(s.Axes[k].FullAt, gone)
		}
	}
	return s
}
