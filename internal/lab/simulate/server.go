package simulate

import (
	"slices"
	"time"
)

// server is the model server behind the pool: it serves as many calls at once as its knee is, and
// the others wait there in their order.
type server struct {
	knee    int64
	running int64
	queue   []*call
}

// send hands a call that was admitted to the server.
func (w *world) send(c *call) {
	if w.Pool.Knee == 0 || c.run <= 0 {
		w.serve(c)
		return
	}
	c.site.keep(c)
	w.server.queue = append(w.server.queue, c)
	w.serveNext()
}

// serveNext serves the calls for which the server has room.
func (w *world) serveNext() {
	s := &w.server
	for s.running < s.knee && len(s.queue) > 0 {
		c := s.queue[0]
		s.queue = s.queue[1:]
		s.running++
		w.serve(c)
	}
}

// served frees the call's place at the server.
func (w *world) served(c *call) {
	if w.Pool.Knee > 0 && c.run > 0 {
		w.server.running--
		w.serveNext()
	}
}

// abandon takes a call that is cut off away from the server.
func (w *world) abandon(c *call) {
	s := &w.server
	i := slices.Index(s.queue, c)
	if i < 0 {
		w.served(c)
		return
	}
	s.queue = slices.Delete(s.queue, i, i+1)
}

// capacity is the number of slots from a time on.
type capacity struct {
	from  time.Duration
	slots int64
}

// capacities are those of a run: what the pool has, as far as the server can serve it.
func (p *plan) capacities(changes []change) []capacity {
	list := []capacity{{0, p.Pool.Slots(p.Pool.Knee)}}
	for _, c := range changes {
		if c.knee != nil {
			list = append(list, capacity{c.at, p.Pool.Slots(*c.knee)})
		}
	}
	return list
}

// slotSeconds sums the slots from a time to a time.
func (p *plan) slotSeconds(from, to time.Duration) float64 {
	sum := 0.0
	for i, c := range p.slots {
		end := to
		if i+1 < len(p.slots) {
			end = min(to, p.slots[i+1].from)
		}
		sum += float64(c.slots) * max(0, end-max(from, c.from)).Seconds()
	}
	return sum
}
