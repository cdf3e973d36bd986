package reserve

import (
	"container/list"
	"sync"
	"time"

	"github.com/llmgov/llmgov/governor/client"
)

// remembered is how long it is known of a reservation that it has ended, and how: longer than any caller repeats itself.
const remembered = 10 * time.Minute

// mostEarly bounds how many reservations are remembered that were cancelled before they were asked for. One that is
// forgotten ends with its ttl.
const mostEarly = 1024

// past has the reservations that have ended, the oldest first.
type past struct {
	most   int
	byName map[name]*list.Element // of *gone
	byAge  *list.List
}

func newPast(most int) past {
	return past{most: most, byName: map[name]*list.Element{}, byAge: list.New()}
}

// gone is a reservation that has ended.
type gone struct {
	name  name
	at    time.Time
	ended chan struct{} // closed when its call has

	mu    sync.Mutex
	later func(client.Usage) // guarded by mu; nil once what it took is known
}

// add remembers a reservation, and forgets the oldest.
func (p *past) add(n name, now time.Time) *gone {
	g := &gone{name: n, at: now, ended: make(chan struct{})}
	p.forget(now, p.most-1)
	p.byName[n] = p.byAge.PushBack(g)
	return g
}

// find returns the reservation by a name, or nil.
func (p *past) find(n name, now time.Time) *gone {
	p.forget(now, p.most)
	at, ok := p.byName[n]
	if !ok {
		return nil
	}
	return at.Value.(*gone)
}

// forget forgets what is too old, and the oldest beyond a number.
func (p *past) forget(now time.Time, most int) {
	for first := p.byAge.Front(); first != nil; first = p.byAge.Front() {
		g := first.Value.(*gone)
		if p.byAge.Len() <= most && now.Sub(g.at) < remembered {
			return
		}
		p.byAge.Remove(first)
		delete(p.byName, g.name)
	}
}

// ends notes that the call has ended. If its usage was not known, later charges what was missing.
func (g *gone) ends(later func(client.Usage)) {
	g.mu.Lock()
	g.later = later
	g.mu.Unlock()
	close(g.ended)
}

// again takes another end. If the first was an estimate, what it lacked is charged, once.
func (g *gone) again(e *client.End) {
	if !e.Reported {
		return
	}
	<-g.ended
	g.mu.Lock()
	later := g.later
	g.later = nil
	g.mu.Unlock()
	if later != nil {
		later(e.Usage)
	}
}
